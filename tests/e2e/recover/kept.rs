//! A slot that is healthy, and sessions that wait, are kept for as long as they are needed.

use e2e::{Fixture, PUBLICATION, SHORT_DEADLINE, SLOT};
use testbed::postgres::DATABASE;

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
