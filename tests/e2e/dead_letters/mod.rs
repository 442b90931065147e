//! Events that can never be delivered: they are held, with what follows in their keys, and
//! everything else goes on. A poisoned row is written past the table of committed events, so the
//! checker takes it for a phantom wherever it appears.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::{Fixture, FixtureBuilder, RouterConfig, SHORT_DEADLINE, create_event_function};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::wait::eventually;

mod adopted;
mod altered;
mod bulk;
mod classes;
mod hold_key;
mod hundred_thousand;
mod kills;
mod large_transaction;
mod letter_topic;
mod limits;
mod long_key;
mod lost_write;
mod no_key;
mod one_poison;
mod operators;
mod passing;
mod poison;
mod restored;
mod skip;
mod storm;
mod table;
mod ten_thousand_keys;

/// For a hundred thousand events, on a machine that is busy with other things.
const LONG_DEADLINE: Duration = Duration::from_secs(120);

/// Aggregates that events are written to: `order-1` to `order-50`.
const KEYS: i32 = 50;

fn builder() -> FixtureBuilder {
    Fixture::builder()
        .set("on_error.bad_row", "dead_letter")
        // The cluster is shared with other scenarios, and does not make topics by itself.
        .set("dead_letters.topic", "")
}

/// Makes the tables by `setup`, for the router's role.
async fn make_tables(fixture: &Fixture) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let setup = ["setup", "--apply", "--dead-letters", "--skip-kafka", "--admin-url", url.as_str()];
    let output = fixture.router.command(&setup).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("table outbox_router.held: created"), "{text}");
}

/// A streaming router with the tables, and a session that can write events.
async fn started(builder: FixtureBuilder) -> (Fixture, DatabaseSession) {
    let mut fixture = builder.prepare().await.unwrap();
    make_tables(&fixture).await;
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    fixture.restart().await.unwrap();
    (fixture, session)
}

/// Writes events of all keys in turn, some to a transaction.
async fn write(session: &DatabaseSession, events: i32) {
    const PER_TRANSACTION: i32 = 25;
    for first in (0..events).step_by(25) {
        let last = (first + PER_TRANSACTION).min(events) - 1;
        let sql =
            format!("SELECT testbed.event(1 + g % {KEYS}) FROM generate_series({first}, {last}) g");
        session.batch_execute(&sql).await.unwrap();
    }
}

/// Writes a row whose headers are no object, in the middle of a transaction with others.
async fn write_poison(session: &DatabaseSession, key: i32) {
    let sql = format!(
        "BEGIN; SELECT testbed.event(1 + (1 + {key}) % {KEYS}); \
         INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
         VALUES ('order', 'order-{key}', 'Poison', '{{}}', '[7]'); \
         SELECT testbed.event({key}); COMMIT"
    );
    session.batch_execute(&sql).await.unwrap();
}

/// What a person does who gives every dead letter up that nobody has decided about.
async fn drop_letters(session: &DatabaseSession) -> u64 {
    let sql = "UPDATE outbox_router.held SET state = 'dropping', decided_at = now() \
               WHERE code IS NOT NULL AND state = 'held'";
    session.execute(sql, &[]).await.unwrap()
}

/// How many rows of the table have each state.
async fn states(session: &DatabaseSession) -> BTreeMap<String, i64> {
    let sql = "SELECT state, count(*) FROM outbox_router.held GROUP BY state";
    let rows = session.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Whether nothing is open.
async fn is_closed(session: &DatabaseSession) -> bool {
    let is_closed = |state: &String| state == "delivered" || state == "dropped";
    states(session).await.keys().all(is_closed)
}

/// Waits until nothing is open.
async fn wait_closed(session: &DatabaseSession) {
    eventually(SHORT_DEADLINE, "an empty table of held events", async || {
        Ok(is_closed(session).await.then_some(()))
    })
    .await
    .unwrap();
}

/// How many open events a key has, and how many of them are dead letters.
async fn open_of(session: &DatabaseSession, key: i32) -> (i64, i64) {
    let sql = "SELECT count(*), count(code) FROM outbox_router.held \
               WHERE state = 'held' AND key = convert_to($1, 'UTF8')";
    let row = session.query_one(sql, &[&format!("order-{key}")]).await.unwrap();
    (row.get(0), row.get(1))
}

/// How many events were committed for a key.
async fn committed_of(fixture: &Fixture, key: i32) -> usize {
    let (truth, key) = (fixture.truth().await.unwrap(), format!("order-{key}"));
    truth.events.iter().filter(|event| event.key == key).count()
}

/// How many records of a key are in Kafka.
async fn delivered_of(fixture: &Fixture, key: i32) -> usize {
    let (seen, key) = (fixture.seen().await.unwrap(), format!("order-{key}"));
    seen.iter().filter(|record| record.key.as_deref() == Some(key.as_bytes())).count()
}

/// Open events, and how many of them are dead letters.
async fn open(session: &DatabaseSession) -> (i64, i64) {
    let sql = "SELECT count(*), count(code) FROM outbox_router.held \
               WHERE state IN ('held', 'requeued', 'dropping')";
    let row = session.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Waits until so many events are open, of which so many are dead letters.
async fn wait_open(session: &DatabaseSession, expected: (i64, i64)) {
    let what = format!("{expected:?} events and dead letters that are open");
    let found = eventually(SHORT_DEADLINE, what, async || {
        Ok((open(session).await == expected).then_some(()))
    });
    if let Err(error) = found.await {
        panic!("{error:#}, there are {:?}", open(session).await);
    }
}

/// Runs `dead-letters` as a superuser. Returns its exit code and everything that it printed.
async fn dead_letters(fixture: &Fixture, arguments: &[&str]) -> (Option<i32>, String) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = [&["dead-letters"], arguments, &["--admin-url", url.as_str()]].concat();
    let output = fixture.router.command(&line).await.unwrap();
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (output.status.code(), out + &err)
}

/// Decides about every dead letter, as a person does.
async fn decide_about_all(fixture: &Fixture, verb: &str) -> String {
    let line = [verb, "--all", "--yes", "--by", "ann", "--reason", "a test"];
    let (code, told) = dead_letters(fixture, &line).await;
    assert_eq!(code, Some(0), "{told}");
    told
}

/// Restarts the router with another configuration.
async fn reconfigure(fixture: &mut Fixture, change: impl FnOnce(&mut RouterConfig)) {
    fixture.kill_router().await.unwrap();
    change(&mut fixture.config);
    fixture.rewrite_config().unwrap();
    fixture.restart().await.unwrap();
}

/// Restarts the router without the column whose values poison rows.
async fn remove_cause(fixture: &mut Fixture) {
    reconfigure(fixture, |config| {
        config.set_outbox("columns.headers", serde_json::json!([]));
    })
    .await;
}
