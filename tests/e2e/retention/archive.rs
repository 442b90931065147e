//! The archive, and a router that is killed in the middle of a sweep.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use e2e::{ROLE, SHORT_DEADLINE, wait_committed};
use tokio::time::sleep;

use super::{DEADLINE, NEEDED, builder, check_gone_are_delivered, count, load, wait_left};

/// Another moment of the sweep each time: only the process is waited for, nothing that it does.
pub(super) fn random_moment() -> Duration {
    Duration::from_millis(RandomState::new().hash_one(0) % 1_500)
}

#[tokio::test]
async fn the_archive_has_exactly_what_was_removed_although_the_router_is_killed_during_sweeps() {
    const KILLS: usize = 12;
    let builder = builder()
        .set("retention.mode", "archive")
        .set("retention.batch", 20)
        .set("retention.pause", "2ms");
    let mut fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(NEEDED).await.unwrap();
    session
        .batch_execute(&format!(
            "CREATE TABLE outbox_archive (LIKE outbox); \
             GRANT SELECT, DELETE ON outbox TO {ROLE}; GRANT INSERT ON outbox_archive TO {ROLE}"
        ))
        .await
        .unwrap();
    fixture.start_accepted().await.unwrap();
    let running = fixture.load(load());
    for _ in 0..KILLS {
        wait_committed(&running, 100).await.unwrap();
        sleep(random_moment()).await;
        fixture.kill_router().await.unwrap();
        check_gone_are_delivered(&fixture, &session).await;
        // Each row is in one of the two tables, once.
        let whole = "(SELECT id FROM outbox UNION ALL SELECT id FROM outbox_archive) o";
        let distinct = format!("(SELECT DISTINCT id FROM {whole}) d");
        let sql = format!(
            "SELECT (SELECT count(*) FROM {whole}), (SELECT count(*) FROM {distinct}), \
             (SELECT count(*) FROM testbed.committed)"
        );
        let row = session.query_one(&sql, &[]).await.unwrap();
        let counts: [i64; 3] = [row.get(0), row.get(1), row.get(2)];
        assert!(counts.iter().all(|count| *count == counts[2]), "{counts:?}");
        fixture.restart().await.unwrap();
    }
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    wait_left(&session, 0).await;
    assert_eq!(count(&session, "outbox_archive").await, count(&session, "testbed.committed").await);
    fixture.check().await.unwrap().clean().unwrap();
}
