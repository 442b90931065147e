//! `compare`: what a slot holds against what is in Kafka, with the slot left where it is.

mod endings;
mod planted;

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE};
use serde_json::Value;
use testbed::load::Backlog;

/// The slot that is compared; the router streams from its own.
const COMPARED: &str = "compared";
/// The command that compares it.
const COMMAND: [&str; 4] = ["compare", "--json", "--set", "postgres.slot=compared"];

async fn create_slot(fixture: &Fixture) {
    let session = fixture.session().await.unwrap();
    let slot = format!("SELECT pg_create_logical_replication_slot('{COMPARED}', 'pgoutput')");
    session.batch_execute(&slot).await.unwrap();
}

/// A router that has sent a backlog, and a slot that still holds it.
async fn sent(events: u64) -> Fixture {
    let fixture = Fixture::builder().start().await.unwrap();
    create_slot(&fixture).await;
    send(&fixture, events).await;
    fixture
}

/// Writes a backlog, and waits until the router has sent it.
async fn send(fixture: &Fixture, events: u64) {
    let session = fixture.session().await.unwrap();
    let size = Backlog {
        transactions: events / 10,
        rows_per_transaction: 10,
        payload_bytes: 40,
        first: 0,
    };
    testbed::load::backlog(&session, &fixture.schema, size).await.unwrap();
    let deadline = SHORT_DEADLINE + Duration::from_millis(events);
    fixture.wait_confirmed(deadline).await.unwrap();
}

/// What a comparison takes at most, however many events there are: two million ids and keys that it
/// remembers (210 MB), 64 MiB of events and of records that wait for each other, and what
/// librdkafka has fetched ahead.
const MEMORY_MAX: u64 = 450_000_000;

/// What `compare` did.
struct Compared {
    exit: Option<i32>,
    /// Its JSON; null where it printed none.
    found: Value,
    errors: String,
    /// Bytes of resident memory at most.
    peak_memory: u64,
}

async fn run(fixture: &Fixture, arguments: &[&str]) -> Compared {
    let mut command = COMMAND.to_vec();
    if !arguments.contains(&"--wait") {
        command.extend(["--wait", "20s"]);
    }
    command.extend(arguments);
    let (output, peak_memory) = fixture.router.command_with_peak_memory(&command).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    Compared { exit: output.status.code(), found, errors, peak_memory }
}

/// Runs a `compare` that ends with an answer, and returns its exit code and JSON.
#[expect(clippy::print_stdout, reason = "the figure of a large run is read by a person")]
async fn compare(fixture: &Fixture, arguments: &[&str]) -> (Option<i32>, Value) {
    let Compared { exit, found, errors, peak_memory } = run(fixture, arguments).await;
    assert!(found.is_object(), "{errors}");
    let events = found.get("events");
    println!("compare: {events:?} events, {} MB of memory at most", peak_memory / 1_000_000);
    assert!(peak_memory <= MEMORY_MAX, "{peak_memory} bytes of memory");
    (exit, found)
}

/// Inserts an event of the fixture's aggregate type.
async fn insert(fixture: &Fixture, table: &str, payload_bytes: i32, headers: Option<&str>) {
    let session = fixture.session().await.unwrap();
    let sql = format!(
        "INSERT INTO {table} (aggregate_type, aggregate_id, event_type, payload, headers) \
         VALUES ($1, 'a', 'Made', jsonb_build_object('pad', repeat('x', $2)), $3::text::jsonb)"
    );
    let aggregate_type = fixture.schema.types.first().unwrap();
    session.execute(&sql, &[aggregate_type, &payload_bytes, &headers]).await.unwrap();
}

fn counts(found: &Value) -> BTreeMap<String, u64> {
    let findings = found["findings"].as_array().unwrap();
    let one = |finding: &Value| {
        (finding["kind"].as_str().unwrap().to_owned(), finding["count"].as_u64().unwrap())
    };
    findings.iter().map(one).collect()
}

#[tokio::test]
async fn what_a_connector_wrote_alike_is_the_same_and_its_slot_stays() {
    let fixture = sent(4_000).await;
    let before = fixture.postgres.slot(COMPARED).await.unwrap().unwrap();
    let (exit, found) = compare(&fixture, &[]).await;
    assert_eq!(counts(&found), BTreeMap::new(), "{found:#}");
    assert_eq!((exit, found["same"].as_u64()), (Some(0), Some(4_000)), "{found:#}");
    let after = fixture.postgres.slot(COMPARED).await.unwrap().unwrap();
    assert_eq!(after.confirmed_flush_lsn, before.confirmed_flush_lsn);
    endings::copy_is_dropped(&fixture).await;
}

#[tokio::test]
async fn events_that_come_while_it_runs_are_followed() {
    let fixture = sent(10).await;
    let session = fixture.session().await.unwrap();
    let writes = async {
        for first in 1.. {
            let size = Backlog {
                transactions: 1,
                rows_per_transaction: 10,
                payload_bytes: 40,
                first: first * 10,
            };
            testbed::load::backlog(&session, &fixture.schema, size).await.unwrap();
        }
    };
    let (exit, found) = tokio::select! {
        compared = compare(&fixture, &["--records", "500"]) => compared,
        () = writes => panic!("the writer does not end"),
    };
    assert_eq!(counts(&found), BTreeMap::new(), "{found:#}");
    assert_eq!((exit, found["same"].as_u64()), (Some(0), Some(500)), "{found:#}");
}

#[tokio::test]
async fn nothing_to_compare_is_no_success() {
    let fixture = Fixture::builder().start().await.unwrap();
    create_slot(&fixture).await;
    let (exit, found) = compare(&fixture, &[]).await;
    assert_eq!((exit, found["events"].as_u64()), (Some(1), Some(0)), "{found:#}");
}

#[tokio::test]
async fn the_events_of_a_missing_topic_are_missing_whatever_partition_they_name() {
    let missing = format!("{}-missing", e2e::SLOT);
    let fixture = Fixture::builder()
        .set_outbox("topic", missing.as_str())
        .set_outbox("columns.partition", "shard")
        .prepare()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute("ALTER TABLE outbox ADD COLUMN shard int DEFAULT 5").await.unwrap();
    create_slot(&fixture).await;
    insert(&fixture, "outbox", 10, None).await;
    let (exit, found) = compare(&fixture, &["--wait", "1s"]).await;
    assert_eq!((exit, counts(&found)), (Some(1), [("missing".into(), 1)].into()), "{found:#}");
    let at = found.pointer("/findings/0/examples/0/at").unwrap();
    assert_eq!(at, &Value::from(format!("{missing}-?")));
}

#[tokio::test]
async fn a_topic_that_is_named_is_read_from_the_first_event_on() {
    let fixture = sent(10).await;
    let topic = fixture.topics[0].as_str();
    let arguments = ["--lookback", "1ms", "--wait", "2s", "--topic"];
    let (exit, found) = compare(&fixture, &[arguments.as_slice(), &[topic]].concat()).await;
    assert_eq!(counts(&found), BTreeMap::new(), "{found:#}");
    assert_eq!((exit, found["same"].as_u64()), (Some(0), Some(10)), "{found:#}");
    let Compared { exit, errors, .. } =
        run(&fixture, &[arguments.as_slice(), &["no-such-topic"]].concat()).await;
    assert_eq!(exit, Some(1), "{errors}");
    assert!(errors.contains("K010") && errors.contains("no-such-topic"), "{errors}");
    endings::copy_is_dropped(&fixture).await;
}

#[tokio::test]
async fn tables_may_name_the_header_of_the_id_differently() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let publication = e2e::PUBLICATION;
    let table = format!(
        "CREATE TABLE second (LIKE outbox INCLUDING ALL); \
         ALTER PUBLICATION {publication} ADD TABLE second"
    );
    session.batch_execute(&table).await.unwrap();
    create_slot(&fixture).await;
    let second = format!(
        "[[outbox]]\ntable = 'public.second'\npreset = 'default'\ntopic = '{}'\n\
         headers.id = 'event-id'",
        fixture.topics[0]
    );
    fixture.router.set_config(&format!("{}\n{second}\n", fixture.config)).unwrap();
    fixture.restart().await.unwrap();
    for table in ["outbox", "second", "outbox", "second"] {
        insert(&fixture, table, 10, None).await;
    }
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (exit, found) = compare(&fixture, &[]).await;
    assert_eq!(counts(&found), BTreeMap::new(), "{found:#}");
    assert_eq!((exit, found["same"].as_u64()), (Some(0), Some(4)), "{found:#}");
}

#[tokio::test]
async fn rows_from_before_the_time_that_was_given_are_no_findings() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    create_slot(&fixture).await;
    insert(&fixture, "outbox", 10, Some("[]")).await;
    let session = fixture.session().await.unwrap();
    let now = session.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap();
    let now: String = now.get(0);
    insert(&fixture, "outbox", 10, None).await;
    let (exit, found) = compare(&fixture, &["--wait", "1s", "--since", &now]).await;
    assert_eq!((exit, counts(&found)), (Some(1), [("missing".into(), 1)].into()), "{found:#}");
}

#[tokio::test]
async fn a_record_that_is_too_large_for_its_topic_is_refused_as_run_refuses_it() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let small = format!("small-{}", fixture.topics[0]);
    let limit = [("max.message.bytes", "1000")];
    testbed::kafka::create_topic(&fixture.kafka.bootstrap(), &small, 3, &limit).await.unwrap();
    fixture.config.set_outbox("topic", small);
    fixture.rewrite_config().unwrap();
    create_slot(&fixture).await;
    insert(&fixture, "outbox", 10, None).await;
    insert(&fixture, "outbox", 2_000, None).await;
    let (exit, found) = compare(&fixture, &["--wait", "1s"]).await;
    let wanted = [("missing".into(), 1), ("refused".into(), 1)].into();
    assert_eq!((exit, counts(&found)), (Some(1), wanted), "{found:#}");
}
