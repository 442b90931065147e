//! A peer that is connected and says nothing: the server's side is noticed by us, ours by the server.

use std::time::Duration;

use e2e::{SOON, Stage, committed};
use testbed::proxy::Mode;
use testbed::wait::eventually;
use tokio::time::Instant;

use super::{DEADLINE, load, write};

#[tokio::test]
async fn a_replication_connection_that_went_silent_is_replaced_within_thirty_seconds() {
    let mut stage = Stage::builder().proxied_postgres().start().await.unwrap();
    let running = stage.load(load());
    committed(&running, 200).await.unwrap();
    let before = stage.slot().await.unwrap().active_pid;

    stage.postgres_proxy().unwrap().set(Mode::BlackHole).await.unwrap();
    let silent = Instant::now();
    let status = stage.router.wait_state("starting", SOON).await.unwrap();
    println!("noticed after {:?}: {}", silent.elapsed(), status["reason"]["message"]);
    assert_eq!(stage.router.get("/readyz").await.unwrap().status, 503);
    stage.postgres_proxy().unwrap().set(Mode::Forward).await.unwrap();
    let healed = Instant::now();
    stage.wait_streaming().await.unwrap();
    println!("streaming {:?} after the network came back", healed.elapsed());
    assert_ne!(stage.slot().await.unwrap().active_pid, before);

    stage.note(running.stop().await.unwrap());
    stage.wait_delivered(DEADLINE).await.unwrap();
    println!("{}", stage.verdict().await.unwrap().clean().unwrap());
}

#[tokio::test]
async fn a_frozen_router_loses_its_slot_after_the_time_that_it_asked_for_itself() {
    // The router's start-up packet says ten seconds, and that is stronger than anything set on the server.
    const SERVERS: Duration = Duration::from_secs(6);
    let mut stage = Stage::builder().postgres("wal_sender_timeout", "6s").start().await.unwrap();
    stage
        .session()
        .await
        .unwrap()
        .batch_execute("ALTER ROLE outbox_router SET wal_sender_timeout = '6s'")
        .await
        .unwrap();
    // A session that begins after the ALTER.
    stage.kill_router().await.unwrap();
    stage.restart().await.unwrap();
    write(&mut stage, 50).await.unwrap();
    stage.wait_delivered(DEADLINE).await.unwrap();

    stage.router.pause().unwrap();
    let frozen = Instant::now();
    eventually(SOON, "a free slot", async || Ok((!stage.slot().await?.active).then_some(())))
        .await
        .unwrap();
    let took = frozen.elapsed();
    println!("the slot was free after {took:?}");
    assert!(took > SERVERS, "{took:?}: the server's own time limit was in force");
    assert!(took < 3 * SERVERS, "{took:?}");

    write(&mut stage, 50).await.unwrap();
    stage.router.resume().unwrap();
    stage.wait_streaming().await.unwrap();
    stage.wait_delivered(DEADLINE).await.unwrap();
    stage.verdict().await.unwrap().clean().unwrap();
}
