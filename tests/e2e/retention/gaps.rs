//! What is confirmed and not delivered.

use e2e::{PUBLICATION, SHORT_DEADLINE, SLOT, wait_committed};
use serde_json::Value;
use testbed::postgres::{DATABASE, SUPERUSER, create_slot};

use super::{
    DEADLINE, builder, check_gone_are_delivered, cleanup, count, load, started, wait_left,
    wait_swept, wait_waiting,
};

const A_GAP: &str = "a gap is open";

/// Writes while no router runs, does something to the slot, and expects that every row stays.
async fn rows_stay_after(what_happens: &str) {
    let (mut fixture, session) = started(builder()).await;
    let running = fixture.load(load());
    wait_committed(&running, 100).await.unwrap();
    fixture.wait_delivered(DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    wait_committed(&running, 100).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.postgres.wait_slot_free(SLOT, SHORT_DEADLINE).await.unwrap();
    let left = count(&session, "outbox").await;
    assert!(left >= 100);
    match what_happens {
        "advanced" => {
            let sql = format!("SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_lsn())");
            session.batch_execute(&sql).await.unwrap();
        }
        _ => {
            let sql = format!("SELECT pg_drop_replication_slot('{SLOT}')");
            session.batch_execute(&sql).await.unwrap();
            create_slot(&session, SLOT, "pgoutput").await.unwrap();
        }
    }
    fixture.router.start_again().unwrap();
    wait_waiting(&mut fixture, A_GAP).await;
    let delete = ["--set", "retention.mode=delete", "--wait", "5s"];
    let (code, text) = cleanup(&fixture, &delete).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("P014"), "{text}");
    assert_eq!(count(&session, "outbox").await, left, "nothing is removed");
    // A person gives the missing ones up, and what was delivered before goes, too.
    fixture.accept().await.unwrap();
    wait_left(&session, 0).await;
}

#[tokio::test]
async fn after_a_slot_was_advanced_by_hand_nothing_is_removed() {
    rows_stay_after("advanced").await;
}

#[tokio::test]
async fn after_a_slot_was_dropped_and_made_again_nothing_is_removed() {
    rows_stay_after("made again").await;
}

/// Until the monitor has seen it, the router confirms what the publication leaves out.
#[tokio::test]
async fn rows_that_the_publication_left_out_are_not_removed() {
    const ROUNDS: usize = 4;
    let (mut fixture, session) = started(builder().set("monitor.interval", "10s")).await;
    for _ in 0..ROUNDS {
        let running = fixture.load(load());
        wait_committed(&running, 50).await.unwrap();
        session
            .batch_execute(&format!("ALTER PUBLICATION {PUBLICATION} DROP TABLE outbox"))
            .await
            .unwrap();
        wait_committed(&running, 100).await.unwrap();
        wait_waiting(&mut fixture, A_GAP).await;
        running.stop().await.unwrap();
        check_gone_are_delivered(&fixture, &session).await;
        session
            .batch_execute(&format!(
                "ALTER PUBLICATION {PUBLICATION} ADD TABLE outbox; \
                 TRUNCATE outbox, testbed.committed"
            ))
            .await
            .unwrap();
        // While it streams, what it has found is in no witness yet.
        fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
        fixture.accept().await.unwrap();
    }
}

/// Its topic has no such name, so it is in none; the line that says so is gone with its table.
#[tokio::test]
async fn a_row_that_a_recovery_has_left_out_stays_while_nothing_says_which_that_is() {
    let (mut fixture, session) = started(builder()).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    fixture.postgres.wait_slot_free(SLOT, SHORT_DEADLINE).await.unwrap();
    let lost = format!(
        "SELECT pg_drop_replication_slot('{SLOT}'); \
         INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
           VALUES ('no such/topic', 'key', 'Changed')"
    );
    session.batch_execute(&lost).await.unwrap();
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = ["recover", "--skip-bad", "--yes", "--admin-url", &url];
    let output = fixture.router.command(&line).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fixture.restart().await.unwrap();
    wait_swept(&mut fixture).await;
    assert_eq!(count(&session, "outbox").await, 1);
    let refused = |what: &'static str| {
        move |status: &Value| {
            let failure = status.pointer("/retention/failure");
            failure.is_some_and(|failure| failure.to_string().contains(what))
        }
    };
    let taken_back = "DELETE FROM outbox_router.left_out; \
         UPDATE outbox_router.note_version SET writes = writes - 1";
    let gone = "UPDATE outbox_router.note_version SET writes = writes + 1; \
         DROP TABLE outbox_router.left_out";
    for (lost, what) in [(taken_back, "has 0 of 1 writes"), (gone, "left_out does not exist")] {
        session.batch_execute(lost).await.unwrap();
        fixture.router.wait_status("a refusal", SHORT_DEADLINE, refused(what)).await.unwrap();
    }
    // The next session of another process has it from the witness, too.
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    let refused = refused("left_out does not exist");
    fixture.router.wait_status("a refusal", SHORT_DEADLINE, refused).await.unwrap();
    assert_eq!(count(&session, "outbox").await, 1);
}
