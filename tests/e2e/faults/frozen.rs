//! A router that comes back when another has taken over: thawed, with what it held, or after its
//! connection was cut. Where the slot stands then is the successor's work, and no gap.

use std::time::Duration;

use e2e::{Fixture, ROLE, SHORT_DEADLINE, largest_transaction, wait_committed};
use serde_json::Value;
use testbed::checker::LateReplays;
use testbed::load::Load;
use testbed::postgres::DATABASE;
use testbed::proxy::ProxyMode;
use testbed::router::RouterProcess;
use testbed::wait::eventually;

use super::{DEADLINE, load};

const WINDOW: usize = 500;

fn acked(status: &Value) -> u64 {
    status.pointer("/totals/events_acked").and_then(Value::as_u64).unwrap_or_default()
}

#[tokio::test]
async fn a_frozen_router_that_wakes_up_after_a_takeover_becomes_a_standby_and_keeps_the_order() {
    let mut fixture = Fixture::builder().set("limits.window_events", WINDOW).start().await.unwrap();
    fixture.late_replays = LateReplays::Allowed;
    let mut successor = RouterProcess::start(&fixture.config.to_string()).unwrap();
    successor.wait_state("standby", SHORT_DEADLINE).await.unwrap();
    let running = fixture.load(Load { writers: 6, ..load() });
    wait_committed(&running, 300).await.unwrap();

    fixture.router.pause().unwrap();
    let taken_over = |status: &Value| acked(status) > 0;
    successor.wait_status("the successor at work", SHORT_DEADLINE, taken_over).await.unwrap();
    let holder = fixture.slot().await.unwrap().active_pid;
    let before = acked(&successor.status().await.unwrap());
    fixture.router.resume().unwrap();
    let waiting = fixture.router.wait_state("standby", SHORT_DEADLINE).await.unwrap();
    assert_eq!(waiting["positions"]["holder_pid"].as_i64(), holder.map(i64::from), "{waiting}");

    // The holder of the slot continues undisturbed.
    wait_committed(&running, 500).await.unwrap();
    let journal = running.stop().await.unwrap();
    fixture.note(journal);
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.slot().await.unwrap().active_pid, holder, "another router holds the slot");
    assert!(acked(&successor.status().await.unwrap()) > before);
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("{result}");
    // What the one had under way is sent by the other once more, and nothing else.
    let limit = WINDOW + largest_transaction(&fixture.truth().await.unwrap());
    assert!(result.duplicates <= limit, "{result}: more than {limit} duplicates");

    // Neither is left in a state from which it could not take over.
    successor.sigterm().unwrap();
    assert_eq!(successor.wait_exit(SHORT_DEADLINE).await.unwrap().code(), Some(0));
    fixture.router.wait_state("streaming", Duration::from_secs(10)).await.unwrap();
}

#[tokio::test]
async fn a_router_cut_off_for_a_moment_becomes_a_standby_of_the_one_that_took_over() {
    let mut fixture = Fixture::builder().proxied_postgres().start().await.unwrap();
    fixture.late_replays = LateReplays::Allowed;
    let direct = format!("postgres://{ROLE}@127.0.0.1:{}/{DATABASE}", fixture.postgres.port());
    let config = fixture.config.clone().set("postgres.url", direct).to_string();
    let mut successor = RouterProcess::start(&config).unwrap();
    successor.wait_state("standby", SHORT_DEADLINE).await.unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 300).await.unwrap();

    let proxy = fixture.postgres_proxy().unwrap();
    proxy.set(ProxyMode::Refuse).await.unwrap();
    proxy.cut();
    let taken_over = |status: &Value| acked(status) > 0;
    successor.wait_status("the successor at work", SHORT_DEADLINE, taken_over).await.unwrap();
    let left = fixture.confirmed().await.unwrap();
    let moved = || async { Ok((fixture.confirmed().await? > left).then_some(())) };
    eventually(SHORT_DEADLINE, "a position confirmed by the successor", moved).await.unwrap();
    fixture.postgres_proxy().unwrap().set(ProxyMode::Forward).await.unwrap();
    fixture.router.wait_state("standby", SHORT_DEADLINE).await.unwrap();

    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    println!("{}", fixture.check().await.unwrap().clean().unwrap());
}
