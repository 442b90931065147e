//! A standby that `synchronized_standby_slots` names (from PostgreSQL 17) is away. Kafka gets no
//! event that it lacks: after a failover to it nobody would have them. That is no gap, and it ends
//! by itself.

use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::load::Load;
use testbed::postgres::ShutdownMode;

use crate::gaps::away::promoted::{fixture_with_standby, synchronizes_slots};

const DEADLINE: Duration = Duration::from_secs(90);

/// A warning with the name of the publication may be one of rows that are skipped, and this slot's
/// name has it.
const STANDBY: &str = "outbox_router_standby";

/// More than what comes as a stream where no standby is waited for.
const LONG_BACKLOG: &str = "SELECT pg_logical_emit_message(false, 'testbed', repeat('x', 1000000)) \
     FROM generate_series(1, 44)";

async fn write(fixture: &mut Fixture, events: u64) {
    let load = Load { events: Some(events), ..Load::default() };
    let journal = fixture.load(load).finished().await.unwrap();
    fixture.note(journal);
}

async fn produced(fixture: &Fixture) -> Vec<i64> {
    fixture.kafka.end_offsets(fixture.topics.first().unwrap()).await.unwrap()
}

fn polled_at(status: &Value) -> Option<f64> {
    status.pointer("/monitor/polled_at")?.as_f64()
}

/// The verdict names the slot of the standby, several times in turn; nothing is produced, and no
/// gap is seen or written down.
async fn expect_waiting(fixture: &mut Fixture, before: &[i64]) {
    let waits = |status: &Value| {
        text(status, "/verdict/word") == Some("blocked")
            && text(status, "/verdict/code") == Some("D015")
    };
    let status = fixture.router.wait_status("D015", SHORT_DEADLINE, waits).await.unwrap();
    let since = polled_at(&status).unwrap();
    let later = |status: &Value| polled_at(status).is_some_and(|at| at >= since + 3.0);
    let status = fixture.router.wait_status("later looks", SHORT_DEADLINE, later).await.unwrap();
    assert!(waits(&status), "{status:#}");
    let sentence = text(&status, "/verdict/sentence").unwrap();
    let named = format!("the standby of slot {STANDBY} has not received");
    assert!(sentence.contains(&named), "{status:#}");
    assert_eq!(text(&status, "/state"), Some("streaming"), "{status:#}");
    assert_eq!(status.pointer("/witness/gaps"), Some(&serde_json::json!([])), "{status:#}");
    let log = fixture.router.log();
    assert!(!log.contains("P020") && !log.contains(" ERROR "), "{log}");
    assert_eq!(produced(fixture).await, before, "Kafka has what the standby lacks");
}

/// Every event is there, in its order, and the verdict is that rows flow.
async fn expect_flowing(fixture: &mut Fixture) {
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
    let flows = |status: &Value| text(status, "/verdict/word") == Some("ok");
    let status = fixture.router.wait_status("rows flow", SHORT_DEADLINE, flows).await.unwrap();
    assert_eq!(status.pointer("/witness/gaps"), Some(&serde_json::json!([])), "{status:#}");
}

#[tokio::test]
async fn what_a_named_standby_lacks_waits_for_it_and_is_no_gap() {
    if !synchronizes_slots() {
        return;
    }
    let (mut fixture, mut standby) = fixture_with_standby().await;
    let named = [("synchronized_standby_slots", STANDBY)];
    fixture.postgres.set(&named).await.unwrap();
    write(&mut fixture, 20).await;
    expect_flowing(&mut fixture).await;

    // It goes while rows flow.
    standby.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let before = produced(&fixture).await;
    write(&mut fixture, 20).await;
    expect_waiting(&mut fixture, &before).await;
    standby.start_again().await.unwrap();
    expect_flowing(&mut fixture).await;

    // Nothing is read by SQL past it either, which waits for no standby.
    fixture.kill_router().await.unwrap();
    standby.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let before = produced(&fixture).await;
    write(&mut fixture, 100).await;
    fixture.session().await.unwrap().batch_execute(LONG_BACKLOG).await.unwrap();
    fixture.restart().await.unwrap();
    expect_waiting(&mut fixture, &before).await;
    let log = fixture.router.log();
    let why = format!("it cannot be read by SQL: P040: synchronized_standby_slots names {STANDBY}");
    assert!(log.contains(&why), "{log}");
    standby.start_again().await.unwrap();
    expect_flowing(&mut fixture).await;

    // A person gives the standby up.
    standby.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let before = produced(&fixture).await;
    write(&mut fixture, 5).await;
    expect_waiting(&mut fixture, &before).await;
    fixture.postgres.set(&[("synchronized_standby_slots", "")]).await.unwrap();
    expect_flowing(&mut fixture).await;
}
