//! A peer that is connected and says nothing: the server's side is noticed by us, ours by the
//! server.

use std::fmt;
use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, wait_committed};
use serde_json::Value;
use testbed::checker::CheckResult;
use testbed::process::{Signal, signal_pid};
use testbed::proxy::ProxyMode;
use testbed::wait::eventually;
use tokio::time::Instant;

use super::{DEADLINE, load, write};

#[tokio::test]
async fn a_black_holed_replication_connection_is_replaced_within_thirty_seconds() {
    // The server hears nothing either, and may be the first to give up.
    let times = disturb_and_heal(ProxyMode::BlackHole).await.unwrap();
    println!("{times}");
    assert!(times.after <= SHORT_DEADLINE);
}

#[tokio::test]
async fn a_server_that_receives_and_does_not_respond_is_disconnected_within_thirty_seconds() {
    // Our status updates arrive, so the server has no reason to give up: we have to.
    let times = disturb_and_heal(ProxyMode::HoldAnswers).await.unwrap();
    println!("{times}");
    assert!(times.after <= SHORT_DEADLINE);
    assert_eq!(times.status["reason"]["code"], "P009");
}

/// How a silence went.
#[derive(Debug)]
struct SilenceTimes {
    after: Duration,
    status: Value,
    streaming_again_after: Duration,
    result: CheckResult,
}

impl fmt::Display for SilenceTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, status, streaming_again_after, result } = self;
        let reason = status.pointer("/reason/message");
        write!(f, "noticed after {after:?}: {reason:?}; ")?;
        write!(f, "streaming {streaming_again_after:?} after the network came back; {result}")
    }
}

/// Disturbs the connection to PostgreSQL under load, and lets it heal when the router has noticed.
async fn disturb_and_heal(mode: ProxyMode) -> anyhow::Result<SilenceTimes> {
    let mut fixture = Fixture::builder().proxied_postgres().start().await?;
    let running = fixture.load(load());
    wait_committed(&running, 200).await?;
    let before = fixture.slot().await?.active_pid;

    fixture.postgres_proxy()?.set(mode).await?;
    let silent = Instant::now();
    let status = fixture.router.wait_state("starting", SHORT_DEADLINE).await?;
    let after = silent.elapsed();
    assert_eq!(fixture.router.get("/readyz").await?.status, 503);
    fixture.postgres_proxy()?.set(ProxyMode::Forward).await?;
    let healed = Instant::now();
    fixture.wait_streaming().await?;
    let streaming_again_after = healed.elapsed();
    assert_ne!(fixture.slot().await?.active_pid, before);

    fixture.note(running.stop().await?);
    fixture.wait_delivered(DEADLINE).await?;
    fixture.wait_confirmed(SHORT_DEADLINE).await?;
    let result = fixture.check().await?.clean()?;
    Ok(SilenceTimes { after, status, streaming_again_after, result })
}

/// A walsender that is stopped answers as little as one that writes a large transaction to disk,
/// and keeps the slot for as long as it takes.
#[tokio::test]
async fn a_walsender_that_outlasts_its_session_is_no_other_router_and_the_next_brings_its_rows() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    write(&mut fixture, 50).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    let busy = fixture.slot().await.unwrap().active_pid.unwrap();
    signal_pid(busy, Signal::STOP).unwrap();
    write(&mut fixture, 50).await.unwrap();
    let is_held = |status: &Value| status["positions"]["holder_pid"] == busy;
    let status = fixture.router.wait_status("its slot", SHORT_DEADLINE, is_held).await.unwrap();
    assert_eq!(
        (&status["state"], &status["reason"]["code"]),
        (&"starting".into(), &"P009".into()),
        "{status}"
    );
    let told = fixture.router.command(&["status"]).await.unwrap();
    let told = String::from_utf8_lossy(&told.stdout);
    assert!(told.contains("P009") && !told.contains("other router"), "{told}");
    assert!(!told.contains("rows flow"), "{told}");

    signal_pid(busy, Signal::CONT).unwrap();
    fixture.wait_streaming().await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
}

#[tokio::test]
async fn a_frozen_router_loses_its_slot_after_the_wal_sender_timeout_that_it_requested() {
    // The router's start-up packet says ten seconds, and that is stronger than anything set on the
    // server.
    const SERVERS: Duration = Duration::from_secs(6);
    let mut fixture =
        Fixture::builder().postgres("wal_sender_timeout", "6s").start().await.unwrap();
    fixture
        .session()
        .await
        .unwrap()
        .batch_execute("ALTER ROLE outbox_router SET wal_sender_timeout = '6s'")
        .await
        .unwrap();
    // A session that begins after the ALTER.
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    write(&mut fixture, 50).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();

    fixture.router.pause().unwrap();
    let frozen = Instant::now();
    eventually(SHORT_DEADLINE, "a free slot", async || {
        Ok((!fixture.slot().await?.active).then_some(()))
    })
    .await
    .unwrap();
    let took = frozen.elapsed();
    println!("the slot was free after {took:?}");
    assert!(took > SERVERS, "{took:?}: the server's wal_sender_timeout was used, not the router's");
    assert!(took < 3 * SERVERS, "{took:?}");

    write(&mut fixture, 50).await.unwrap();
    fixture.router.resume().unwrap();
    fixture.wait_streaming().await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
}
