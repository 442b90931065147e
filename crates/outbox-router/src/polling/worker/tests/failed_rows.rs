//! What the log says of rows that cannot be delivered.

use std::sync::LazyLock;

use relay::polling::PollerReport;
use serde_json::Value;
use tracing::Dispatch;

use super::fixture::{
    ATTEMPTS, Fixture, REFUSE_MARKS, TAKE_MARKS, TAKE_SHARDS, TIMES, cluster, kafka_at, settings,
    with_long_leases,
};
use crate::telemetry::tests::lines_of;

/// With a single subscriber in the process, `tracing` asks the subscriber of the thread that comes
/// to a log line first whether anybody wants that line, and other tests have none.
static OTHERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| std::array::from_fn(|_| Dispatch::new(tracing_subscriber::registry())));

/// A row whose headers are no object (R009), and which has a secret everywhere else.
const BAD_ROW: &str = "insert into outbox (aggregate_id, payload, headers) \
    values ('secret-key', '{\"card\": \"secret-payload\"}', '[\"secret-header\"]')";

/// What is said when the table takes marks again, to tell what was said before.
const MARKS_TAKEN: &str = "the table takes marks again";

/// The lines that are written while something runs. The runtime has one thread, so the worker
/// writes there, too.
fn log_of(run: impl Future<Output = ()>) -> Vec<Value> {
    LazyLock::force(&OTHERS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    lines_of(|| runtime.block_on(Box::pin(run)))
}

fn of_rows(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["id"].is_string()).collect()
}

/// An abandoned row, after many polls.
fn is_abandoned(report: &PollerReport) -> bool {
    let [table] = report.tables.as_slice() else { return false };
    table.abandoned == 1 && table.batches >= 10
}

fn each_attempt_is_one_line(marks: &str) {
    let lines = log_of(async {
        let (fixture, cluster) = (Fixture::new(marks).await, cluster());
        fixture.run(BAD_ROW).await;
        let mut at_work = fixture.worker(settings(), kafka_at(cluster.bootstrap_servers()));
        at_work.until_reported("an abandoned row", is_abandoned).await;
    });
    let said: Vec<[&str; 4]> = of_rows(&lines)
        .iter()
        .map(|line| ["level", "table", "id", "code"].map(|field| line[field].as_str().unwrap()))
        .collect();
    let at = |level| [level, "public.outbox", "1", "R009"];
    assert_eq!(said, [at("WARN"), at("WARN"), at("ERROR")], "{lines:#?}");
    let begins = ["attempt 1 to deliver", "attempt 2 to deliver", "a row is abandoned after 3"];
    for (line, begins) in of_rows(&lines).iter().zip(begins) {
        assert!(line["message"].as_str().unwrap().starts_with(begins), "{line}");
    }
    for line in &lines {
        assert!(!line.to_string().contains("secret"), "{line}");
    }
}

#[test]
fn each_attempt_is_one_line_where_the_worker_counts_attempts() {
    each_attempt_is_one_line(TIMES);
}

#[test]
fn each_attempt_is_one_line_where_the_table_counts_attempts() {
    each_attempt_is_one_line(ATTEMPTS);
}

/// How many lines are about a row before the table takes marks again, and after that. Before it the
/// attempt is noted nowhere; at the end of that time `meanwhile` is run.
fn while_marks_are_refused(meanwhile: &str, is_over: fn(&PollerReport) -> bool) -> [usize; 2] {
    let lines = log_of(async {
        let (fixture, cluster) = (Fixture::new(ATTEMPTS).await, cluster());
        fixture.run(REFUSE_MARKS).await;
        fixture.run(BAD_ROW).await;
        let kafka = kafka_at(cluster.bootstrap_servers());
        let mut at_work = fixture.worker(with_long_leases(), kafka);
        let is_refused = |report: &PollerReport| report.errors.values().sum::<u64>() >= 4;
        at_work.until_reported("an attempt that is refused thrice", is_refused).await;
        fixture.run(meanwhile).await;
        tracing::info!("{MARKS_TAKEN}");
        fixture.run(TAKE_MARKS).await;
        at_work.until_reported("an attempt that is written", is_over).await;
    });
    let taken = lines.iter().position(|line| line["message"] == MARKS_TAKEN).unwrap();
    let (before, after) = lines.split_at(taken);
    [before, after].map(|lines| of_rows(lines).len())
}

#[test]
fn an_attempt_is_told_once_when_it_is_written() {
    let is_written = |report: &PollerReport| report.tables[0].failed == 1;
    assert_eq!(while_marks_are_refused("select", is_written), [0, 1]);
}

#[test]
fn an_attempt_at_a_row_that_another_worker_has_taken_is_not_told() {
    let is_lost = |report: &PollerReport| report.claims_lost >= 1;
    assert_eq!(while_marks_are_refused(TAKE_SHARDS, is_lost), [0, 0]);
}
