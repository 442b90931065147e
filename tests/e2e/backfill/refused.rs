//! What is refused before anything is made.

use e2e::Fixture;
use e2e::SLOT;

use super::{prepared, setup, write};

#[tokio::test]
async fn a_slot_that_exists_and_a_condition_that_is_none_are_refused() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    write(&fixture, &session, 10).await;
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("older than the slot"), "{said}");
    assert!(said.contains("outbox-router teardown --apply"), "{said}");

    let (fixture, session) = prepared().await;
    write(&fixture, &session, 10).await;
    let (exit, said) = setup(&fixture, &["--backfill", "--where", "no_column is null"]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("no_column"), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none());
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(fixture.seen().await.unwrap().len(), 10);
}

#[tokio::test]
async fn a_transaction_that_stays_open_is_named_and_nothing_is_left_behind() {
    let (fixture, session) = prepared().await;
    write(&fixture, &session, 10).await;
    let other = fixture.session().await.unwrap();
    other.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    let (exit, said) = setup(&fixture, &["--backfill", "--wait", "3s"]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("the slot waits for transactions that are open"), "{said}");
    assert!(said.contains("was not created within 3 s"), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none());
    other.batch_execute("ROLLBACK").await.unwrap();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(fixture.seen().await.unwrap().len(), 10);
}
