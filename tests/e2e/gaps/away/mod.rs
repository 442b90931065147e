//! Damage that was done while no router ran, so no process remembers the state before it. The state
//! topic, the slot and the server's history must show it, even if everything is as before.
//!
//! Each scenario knows from the table of committed events, from Kafka and from a slot of its own
//! which events are at risk and where they were committed; the interval that the router names has
//! to cover them. `OUTBOX_ROUNDS=20` runs each of them twenty times ([`rounds`]). Replaced servers
//! are in [`restored`] and [`promoted`], a replaced Kafka cluster is in [`exchanged`], and what is
//! no gap is in [`restarts`].

use std::collections::{BTreeMap, HashSet};

use e2e::{Fixture, SHORT_DEADLINE, SLOT, text};
use serde_json::Value;
use tokio_postgres::types::PgLsn;

use super::{expect_reported, has_interval, streaming_fixture, write};
use rounds::rounds;

mod exchanged;
pub(crate) mod promoted;
mod removing;
mod restarts;
pub(crate) mod restored;
mod rounds;

/// Rows that no server sends any more.
const LOST: u64 = 20;

/// Events at risk by their ids, each with the position after its commit.
type AtRisk = BTreeMap<String, PgLsn>;

/// Everything committed in the server's present history, and where.
async fn committed(fixture: &mut Fixture) -> AtRisk {
    let commits = fixture.commits().await.unwrap();
    let events = fixture.truth().await.unwrap().events;
    let commit = |xid| {
        *commits
            .get(&xid)
            .unwrap_or_else(|| panic!("the commit of transaction {xid} was not tracked"))
    };
    events.iter().map(|event| (event.id.to_string(), commit(event.xid))).collect()
}

pub(crate) async fn ids_in_kafka(fixture: &Fixture) -> HashSet<String> {
    let seen = fixture.seen().await.unwrap();
    seen.iter().map(|record| record.header("id").unwrap().to_owned()).collect()
}

async fn ids_in_the_database(fixture: &Fixture) -> HashSet<String> {
    let events = fixture.truth().await.unwrap().events;
    events.iter().map(|event| event.id.to_string()).collect()
}

/// What of this is not there.
fn without(mut committed: AtRisk, there: &HashSet<String>) -> AtRisk {
    committed.retain(|id, _| !there.contains(id));
    committed
}

/// The router starts, stops for this gap, and stops again when it is started again.
async fn expect_stop(fixture: &mut Fixture, code: &str) -> Value {
    fixture.router.start_again().unwrap();
    // The gap is reported before it is recorded. A router that is killed before that, or an
    // acceptance before that, is another scenario.
    let is_reported = |status: &Value| {
        text(status, "/state") == Some("failed")
            && text(status, "/reason/code") == Some(code)
            && status.pointer("/witness/gaps_recorded") == Some(&Value::Bool(true))
    };
    let status = fixture.router.wait_status(code, SHORT_DEADLINE, is_reported).await.unwrap();
    assert!(has_interval(&status), "{status}");
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(hint.contains("outbox-router accept"), "{hint}");
    expect_reported(fixture, &[code]).await;

    // It survives the process: the witness is there before anybody restarts.
    fixture.router.kill9().await.unwrap();
    fixture.router.start_again().unwrap();
    fixture.router.wait_status(code, SHORT_DEADLINE, is_reported).await.unwrap();
    status
}

/// What is at risk was committed after the first of these positions, and up to the second.
fn interval(status: &Value) -> [PgLsn; 2] {
    let lsn = |end: &str| text(status, &format!("/reason/interval/{end}/lsn"));
    // A gap that may begin anywhere has no beginning.
    let from = lsn("from").unwrap_or("0/0");
    let to = lsn("to").unwrap_or_else(|| panic!("the interval has no end: {status}"));
    [from, to].map(|lsn| lsn.parse().unwrap())
}

/// Nothing that is at risk lies outside of the interval.
fn expect_covered(status: &Value, at_risk: &AtRisk) {
    let [from, to] = interval(status);
    let (first, last) = (at_risk.values().min().unwrap(), at_risk.values().max().unwrap());
    assert!(
        from < *first,
        "the event committed at {first} is at risk and lies before the interval: {status}"
    );
    assert!(
        to >= *last,
        "the event committed at {last} is at risk and lies after the interval: {status}"
    );
}

/// The router stops, and says where the events are that Kafka lacks.
async fn expect_missing(fixture: &mut Fixture, code: &str) -> (Value, AtRisk) {
    let status = expect_stop(fixture, code).await;
    let missing = without(committed(fixture).await, &ids_in_kafka(fixture).await);
    assert!(u64::try_from(missing.len()).unwrap() >= LOST, "{} are missing", missing.len());
    expect_covered(&status, &missing);
    (status, missing)
}

/// A person accepts the gap; the router continues, and every event that was not at risk is in
/// Kafka.
async fn expect_continues_after_acceptance(fixture: &mut Fixture, at_risk: &AtRisk) {
    fixture.accept().await.unwrap();
    write(fixture, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (committed, there) = tokio::join!(ids_in_the_database(fixture), ids_in_kafka(fixture));
    let missing = committed.difference(&there).find(|id| !at_risk.contains_key(*id));
    assert_eq!(missing, None, "an event that was not at risk is not in Kafka");
}

/// A fixture without a router, and the position up to which everything is confirmed.
async fn fixture_without_router() -> (Fixture, PgLsn) {
    let mut fixture = streaming_fixture(Fixture::builder().track_commits()).await;
    fixture.kill_router().await.unwrap();
    let confirmed = fixture.confirmed().await.unwrap();
    (fixture, confirmed)
}

async fn run(fixture: &Fixture, sql: &str) {
    fixture.session().await.unwrap().batch_execute(sql).await.unwrap();
}

/// As `setup` makes it.
fn create_slot() -> String {
    format!("SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")
}

/// Rows are written, and then the slot is brought past them.
async fn expect_gap_of_moved_slot(how: &[String]) {
    let (mut fixture, confirmed) = fixture_without_router().await;
    write(&mut fixture, LOST).await;
    for statement in how {
        run(&fixture, statement).await;
    }
    let (status, missing) = expect_missing(&mut fixture, "P014").await;
    assert!(
        interval(&status)[0] >= confirmed,
        "the interval includes confirmed events, which are in Kafka: {status}"
    );
    expect_continues_after_acceptance(&mut fixture, &missing).await;
}

#[tokio::test]
async fn a_slot_recreated_while_the_router_was_down_is_a_gap() {
    rounds("slot re-created", async || {
        let drop = format!("SELECT pg_drop_replication_slot('{SLOT}')");
        expect_gap_of_moved_slot(&[drop, create_slot()]).await;
    })
    .await;
}

#[tokio::test]
async fn a_slot_advanced_while_the_router_was_down_is_a_gap() {
    rounds("slot advanced", async || {
        let advance =
            format!("SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_flush_lsn())");
        expect_gap_of_moved_slot(&[advance]).await;
    })
    .await;
}

#[tokio::test]
async fn a_publication_that_left_rows_out_while_the_router_was_down_is_a_gap() {
    rounds("publication altered and altered back", async || {
        let (mut fixture, _) = fixture_without_router().await;
        run(&fixture, "ALTER PUBLICATION outbox_router SET (publish = 'update')").await;
        write(&mut fixture, LOST).await;
        run(&fixture, "ALTER PUBLICATION outbox_router SET (publish = 'insert')").await;
        let (_, missing) = expect_missing(&mut fixture, "P032").await;
        expect_continues_after_acceptance(&mut fixture, &missing).await;
    })
    .await;
}
