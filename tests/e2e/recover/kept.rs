//! A slot that is healthy, sessions that wait, and what is noted, are kept for as long as they are
//! needed.

use e2e::{Fixture, PUBLICATION, SHORT_DEADLINE, SLOT};
use serde_json::{Value, json};
use testbed::kafka::KafkaOptions;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER, ShutdownMode};

use super::{drop_slot, recover, streaming, write};

/// Without a slot, nothing would keep an event whose row is deleted in its transaction.
#[tokio::test]
async fn a_slot_is_not_dropped_while_transactions_keep_another_from_being_made() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    for publish in ["update", "insert"] {
        let alter = format!("ALTER PUBLICATION {PUBLICATION} SET (publish = '{publish}')");
        session.batch_execute(&alter).await.unwrap();
    }
    let open = fixture.session().await.unwrap();
    open.batch_execute("BEGIN; CREATE TABLE opened ()").await.unwrap();
    let slot = fixture.postgres.slot(SLOT).await.unwrap().unwrap();
    let (exit, answer, said) = recover(&fixture, &["--wait", "1s"]).await;
    assert_eq!(exit, Some(1), "{answer:#}{said}");
    assert!(said.contains("transactions that were open did not end"), "{said}");
    let still = fixture.postgres.slot(SLOT).await.unwrap();
    let still = still.map(|slot| slot.confirmed_flush_lsn);
    assert_eq!(still, Some(slot.confirmed_flush_lsn), "{said}");
    open.batch_execute("ROLLBACK").await.unwrap();
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 0, "{answer:#}");
}

/// The session that has the lock of a run is idle while rows are sent.
#[tokio::test]
async fn a_run_is_not_ended_by_the_timeout_of_idle_sessions() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 5).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 12).await;
    let timeout = format!("ALTER DATABASE {DATABASE} SET idle_session_timeout = '1s'");
    session.batch_execute(&timeout).await.unwrap();
    let (exit, answer, said) = recover(&fixture, &["--rate", "4"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 12, "{answer:#}");
}

/// Where commits reach the disk later, a crash right behind the command must not lose what keeps a
/// row of a gap that is closed.
#[tokio::test]
async fn a_row_that_is_left_out_stays_noted_though_the_server_crashes() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    for setting in ["synchronous_commit = off", "wal_writer_delay = '10s'"] {
        session.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await.unwrap();
    }
    session.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    insert_bad(&session).await;
    let (exit, answer, said) = recover(&fixture, &["--skip-bad"]).await;
    assert_eq!((exit, &answer["closed"]), (Some(0), &true.into()), "{answer:#}{said}");
    fixture.postgres.kill9().await.unwrap();
    fixture.postgres.start_again().await.unwrap();
    assert_eq!(kept_rows(&fixture.session().await.unwrap()).await, 1);
}

/// A row that no topic can have, without a slot that has it.
async fn insert_bad(session: &DatabaseSession) {
    drop_slot(session).await;
    let bad = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
         VALUES ('no such/topic', 'key', 'Changed'); CHECKPOINT";
    session.batch_execute(bad).await.unwrap();
}

/// How many rows are noted as left out.
async fn kept_rows(session: &DatabaseSession) -> i64 {
    let kept = "SELECT count(*) FROM outbox_router.left_out JOIN outbox o ON o.id::text = event_id";
    session.query_one(kept, &[]).await.unwrap().get(0)
}

/// The gap is closed, and the server that takes over lacks the last commits: those of the notes.
#[tokio::test]
async fn notes_of_rows_that_were_left_out_are_missed_on_a_server_that_was_promoted_without_them() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    insert_bad(&session).await;
    let (exit, answer, said) = recover(&fixture, &["--skip-bad"]).await;
    assert_eq!((exit, &answer["closed"]), (Some(0), &true.into()), "{answer:#}{said}");
    insert_bad(&session).await;
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let standby = fixture.postgres.copied(&[]).await.unwrap();
    fixture.postgres.start_again().await.unwrap();
    let (exit, answer, said) = recover(&fixture, &["--skip-bad"]).await;
    assert_eq!((exit, &answer["closed"]), (Some(0), &true.into()), "{answer:#}{said}");
    fixture.restart().await.unwrap();
    fixture.kill_router().await.unwrap();

    fixture.fail_over_to(standby).await.unwrap();
    fixture.router.start_again().unwrap();
    let is_missed = |status: &Value| {
        let message = status.pointer("/reason/message").and_then(Value::as_str);
        status.pointer("/reason/code") == Some(&json!("P015"))
            && message.is_some_and(|message| message.contains("outbox_router.left_out"))
    };
    fixture.router.wait_status("P015 of notes", SHORT_DEADLINE, is_missed).await.unwrap();
    let since_ever = ["--skip-bad", "--since", "2000-01-01"];
    let (exit, answer, said) = recover(&fixture, &since_ever).await;
    assert_eq!((exit, &answer["closed"]), (Some(0), &true.into()), "{answer:#}{said}");
    assert_eq!(kept_rows(&fixture.session().await.unwrap()).await, 2);
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
}

/// A broker whose disk is put back to a copy from before the run has other sequence numbers of its
/// producer, or none.
#[tokio::test]
async fn a_gap_stays_open_where_kafka_was_taken_back_while_rows_were_sent() {
    let builder = Fixture::builder().own_kafka(KafkaOptions::default());
    let (mut fixture, session) = streaming(builder).await;
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 600).await;
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = ["recover", "--yes", "--rate", "20", "--admin-url", &url];
    let (exit, said) = fixture.taken_back_during(&line, 40).await.unwrap();
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("Kafka was taken back") || said.contains("K014"), "{said}");
    // Such a broker may give a producer the id of a former one, whose sequence numbers it has.
    let mut again = recover(&fixture, &[]).await;
    for _ in 0..4 {
        if again.0 == Some(0) {
            break;
        }
        assert!(again.2.contains("K0"), "{}", again.2);
        again = recover(&fixture, &[]).await;
    }
    let (exit, answer, said) = again;
    assert_eq!((exit, &answer["closed"]), (Some(0), &true.into()), "{answer:#}{said}");
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap().0, 0);
}
