//! Watching writers at work, and writing single events where the moment of each statement matters.

use std::time::Duration;

use anyhow::Context;
use testbed::load::{COMMITTED, RunningLoad};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

/// Writers share two cores with two servers, a router and whatever runs beside this scenario.
const WRITTEN: Duration = Duration::from_secs(180);

/// Waits until the writers have committed so many events more.
///
/// # Errors
///
/// Fails when they do not soon.
pub async fn wait_committed(running: &RunningLoad, more: u64) -> anyhow::Result<()> {
    let wanted = running.committed() + more;
    eventually(WRITTEN, format!("{more} more committed events"), async || {
        Ok((running.committed() >= wanted).then_some(()))
    })
    .await
}

/// Makes `testbed.event(n)`: one event of aggregate `n` of the preset `default` with its row
/// in [`COMMITTED`], in whatever transaction and savepoint calls it. What is rolled back leaves no
/// trace there.
///
/// # Errors
///
/// Fails when the server refuses.
pub async fn create_event_function(session: &DatabaseSession) -> anyhow::Result<()> {
    let sql = format!(
        "CREATE FUNCTION testbed.event(n int) RETURNS void LANGUAGE sql AS $$
            WITH a AS (UPDATE testbed.aggregate t SET seq = seq + 1 WHERE t.n = $1 RETURNING *),
            o AS (INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
                SELECT type, id, 'Changed', jsonb_build_object('seq', seq, 'pad', repeat('x', 400))
                FROM a RETURNING *)
            INSERT INTO {COMMITTED} (id, aggregate_type, aggregate_id, seq, event_type, payload_bytes,
                payload_sha256)
            SELECT o.id, type, a.id, seq, event_type, octet_length(payload::text),
                sha256(convert_to(payload::text, 'UTF8')) FROM a, o $$"
    );
    session.batch_execute(&sql).await.context("cannot make testbed.event")
}
