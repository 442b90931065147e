//! `replay` on real servers.

mod elsewhere;
mod kills;
mod outage;
mod same_record;
mod too_large;

use std::collections::BTreeSet;

use e2e::Fixture;
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::reader::ConsumedRecord;

const MARKER: &str = "outbox_replay";

/// The command line, as a superuser who does not want to be asked.
fn line(fixture: &Fixture, more: &[&str]) -> Vec<String> {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = [&["replay", "--yes", "--json", "--by", "ann"], more, &["--admin-url", &url]];
    line.concat().into_iter().map(str::to_owned).collect()
}

/// Runs the command to its end. Returns its exit code, its answer, and what it says beside that.
async fn replay(fixture: &Fixture, more: &[&str]) -> (Option<i32>, Value, String) {
    fixture.json_command(&line(fixture, more)).await.unwrap()
}

/// The one type of the fixture's events.
fn aggregate_type(fixture: &Fixture) -> &str {
    fixture.schema.types.first().unwrap()
}

/// Writes `rows` rows of `keys` keys, a millisecond apart; their payload says which they are.
async fn write(fixture: &Fixture, session: &DatabaseSession, rows: i32, keys: i32) {
    let sql = format!(
        "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
         SELECT gen_random_uuid(), '{}', 'key-' || n % {keys}, 'Changed', \
           jsonb_build_object('n', n, 'pad', repeat('x', 100)), \
           '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 ms' \
         FROM generate_series(1, {rows}) n",
        aggregate_type(fixture)
    );
    session.batch_execute(&sql).await.unwrap();
}

/// The number of a row of [`write`].
fn number(record: &ConsumedRecord) -> i32 {
    let payload: Value = serde_json::from_slice(record.value.as_deref().unwrap()).unwrap();
    i32::try_from(payload.get("n").and_then(Value::as_i64).unwrap()).unwrap()
}

/// Rows that are in no record, and records that are the second of their row.
fn missing_and_repeated(seen: &[ConsumedRecord], rows: i32) -> (usize, usize) {
    let different: BTreeSet<i32> = seen.iter().map(number).collect();
    let missing = (1..=rows).filter(|number| !different.contains(number)).count();
    (missing, seen.len() - different.len())
}

/// How often a partition goes back to an earlier row: once for each time that a run is resumed.
fn steps_back(seen: &[ConsumedRecord], partition: i32) -> usize {
    let of_partition = |record: &&ConsumedRecord| record.partition == partition;
    let mut records: Vec<_> = seen.iter().filter(of_partition).collect();
    records.sort_by_key(|record| record.offset);
    let numbers: Vec<i32> = records.into_iter().map(number).collect();
    numbers.iter().zip(numbers.iter().skip(1)).filter(|(one, next)| next <= one).count()
}
