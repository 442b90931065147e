//! What a person has to repair: a coded error with the remedy, nothing lost, resumed from that row
//! when repaired. Rows that cannot become records are in [`rows`], topics that cannot take them in
//! [`topics`], servers that cannot be streamed from in [`starts`].

use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::postgres::DatabaseSession;
use testbed::router::RouterProcess;
use testbed::wait::eventually;
use tokio_postgres::types::PgLsn;

mod labels;
mod rows;
mod starts;
mod topics;
mod unprintable;
mod unsendable;

/// A router that waits for something outside of it checks again every 30 s.
const RECHECK_DEADLINE: Duration = Duration::from_secs(60);

/// One row of `public.outbox`; what is `None` is NULL.
#[derive(Clone, Copy)]
struct Row<'a> {
    aggregate_type: Option<&'a str>,
    aggregate_id: Option<&'a str>,
    headers: Option<&'a str>,
    /// What its one member holds.
    payload: Payload,
}

#[derive(Clone, Copy)]
enum Payload {
    /// Of some bytes.
    Plain(i32),
    /// Of some bytes that do not compress.
    Noise(i32),
}

const GOOD: Row<'_> = Row {
    aggregate_type: Some("order"),
    aggregate_id: Some("order-1"),
    headers: None,
    payload: Payload::Plain(100),
};

/// Inserts a row in a transaction of its own, and gives its id.
async fn insert(session: &DatabaseSession, row: Row<'_>) -> String {
    let (padding, bytes) = match row.payload {
        Payload::Plain(bytes) => ("repeat('x', $4)", bytes),
        Payload::Noise(bytes) => (
            "(SELECT left(string_agg(md5(random()::text), ''), $4) FROM generate_series(0, $4 / 32))",
            bytes,
        ),
    };
    let sql = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
         VALUES ($1, $2, 'Placed', jsonb_build_object('pad', {padding}), $3::text::jsonb) \
         RETURNING id::text"
    );
    let values = session
        .query_one(&sql, &[&row.aggregate_type, &row.aggregate_id, &row.headers, &bytes])
        .await
        .unwrap();
    values.get(0)
}

/// The ids of the records in a topic of one partition, in order.
async fn ids(fixture: &Fixture, topic: &str) -> Vec<String> {
    let topics = [topic];
    let seen = testbed::reader::read_all(&fixture.kafka.bootstrap(), &topics).await.unwrap();
    seen.iter().map(|record| record.header("id").unwrap().to_owned()).collect()
}

/// Waits until a topic holds exactly these records.
async fn expect_ids(fixture: &Fixture, topic: &str, expected: &[String]) {
    eventually(SHORT_DEADLINE, format!("{} records in {topic}", expected.len()), async || {
        Ok((ids(fixture, topic).await.len() >= expected.len()).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(ids(fixture, topic).await, expected);
}

/// Waits until everything before a position is confirmed. Where the session ended before its record
/// was stored, the next one does it.
async fn expect_confirmed(fixture: &Fixture, settled: PgLsn) {
    eventually(
        RECHECK_DEADLINE,
        format!("what came before {settled} to be confirmed"),
        async || Ok((fixture.confirmed().await? >= settled).then_some(())),
    )
    .await
    .unwrap();
}

/// Waits for a state with a reason, which `/status.json`, `/readyz` and the log must all contain.
async fn expect_reported(
    router: &mut RouterProcess,
    state: &str,
    code: &str,
    deadline: Duration,
) -> Value {
    let status = router
        .wait_status(&format!("{state} with {code}"), deadline, |status| {
            text(status, "/state") == Some(state) && text(status, "/reason/code") == Some(code)
        })
        .await
        .unwrap();
    let hint =
        text(&status, "/reason/hint").unwrap_or_else(|| panic!("the reason has no hint: {status}"));
    let ready = router.get("/readyz").await.unwrap();
    assert_eq!(ready.status, 503, "{}", ready.body);
    assert!(ready.body.contains(code), "{}", ready.body);
    // In the log quotes are escaped, as every value is.
    let (log, hint) = (router.log(), hint.replace('"', "\\\""));
    assert!(
        log.lines().any(|line| line.contains(code) && line.contains(&hint)),
        "no line with {code} and its remedy {hint}: {log}"
    );
    status
}
