//! Before a slot is lost, the router warns twice: how far behind the slot is, what it waits for,
//! and how much is left.

use e2e::{Fixture, SHORT_DEADLINE};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::streaming_fixture;

async fn write_wal(session: &DatabaseSession, megabytes: i32) {
    let sql = "SELECT pg_logical_emit_message(false, 'testbed', repeat('x', 1048576)) \
               FROM generate_series(1, $1)";
    session.execute(sql, &[&megabytes]).await.unwrap();
}

/// The log line, once it is there.
async fn logged(fixture: &Fixture, level: &str, what: &str) -> String {
    eventually(SHORT_DEADLINE, format!("{what} in the log"), async || {
        let log = fixture.router.log();
        let mut lines = log.lines().filter(|line| line.contains(level) && line.contains(what));
        Ok(lines.next().map(str::to_owned))
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_slot_that_cannot_advance_is_warned_of_twice_before_it_is_lost() {
    let mut fixture = streaming_fixture(
        Fixture::builder()
            .postgres("max_slot_wal_keep_size", "80MB")
            .set("monitor.bytes_behind.warning", "8MiB")
            .set("monitor.bytes_behind.critical", "24MiB"),
    )
    .await;
    let session = fixture.session().await.unwrap();
    // Nothing can be acknowledged: its topic does not exist.
    let stuck = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('stuck', 's-1', 'Stuck')";
    session.batch_execute(stuck).await.unwrap();
    fixture.router.wait_state("blocked", SHORT_DEADLINE).await.unwrap();

    for (megabytes, level, what) in [
        (12, "WARN", "more than warning (8.0 MiB)"),
        (20, "ERROR", "more than critical (24.0 MiB)"),
    ] {
        assert!(!fixture.router.log().contains(what), "the warning came too early");
        write_wal(&session, megabytes).await;
        let line = logged(&fixture, level, what).await;
        assert!(
            line.contains("it waits for Kafka"),
            "the warning does not name what the slot waits for: {line}"
        );
        assert!(
            line.contains("PostgreSQL invalidates the slot after"),
            "the warning does not say how much is left: {line}"
        );
        let slot = fixture.slot().await.unwrap();
        assert_ne!(
            slot.wal_status.as_deref(),
            Some("lost"),
            "the warning came after the slot was lost"
        );
        assert!(slot.safe_wal_size.is_some_and(|left| left > 0), "{slot:?}");
    }
    let behind = fixture.router.metric("outbox_slot_bytes_behind", "").await.unwrap().unwrap();
    assert!(behind >= 32.0 * 1_048_576.0, "{behind} B behind");
}
