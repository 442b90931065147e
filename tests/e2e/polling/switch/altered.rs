//! Publication or tables are altered while a switch divides rows: some are in neither half.

use e2e::{Fixture, PUBLICATION};
use testbed::postgres::DatabaseSession;

use super::super::insert;
use super::command::{Command, wait_for_row};
use super::{begun, stop, switch, switched};

/// A row is committed that the slot does not have.
async fn insert_unpublished(session: &DatabaseSession) {
    let alter = |how| format!("alter publication {PUBLICATION} {how} table outbox");
    session.batch_execute(&alter("drop")).await.unwrap();
    insert(session, "a", "{}").await;
    session.batch_execute(&alter("add")).await.unwrap();
}

async fn pending(session: &DatabaseSession) -> i64 {
    let query = "select count(*) from outbox where published_at is null";
    session.query_one(query, &[]).await.unwrap().get(0)
}

async fn begun_without_worker() -> (Fixture, DatabaseSession) {
    let (mut fixture, _) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    (fixture, session)
}

#[tokio::test]
async fn rows_of_a_table_that_leaves_the_publication_during_the_way_back_are_not_marked() {
    let (fixture, session) = begun_without_worker().await;
    switched(&fixture, "stream").await;
    let writer = fixture.session().await.unwrap();
    writer.batch_execute("begin").await.unwrap();
    insert(&writer, "b", "{}").await;
    let mut command = Command::start(&fixture, "polling");
    command.says("waiting for them").await;
    insert_unpublished(&session).await;
    writer.batch_execute("commit").await.unwrap();
    let said = command.ends_refused().await;
    assert!(said.contains("P043") && said.contains("was altered in the publication"), "{said}");
    // From now on it is a gap, which is closed with the configuration of the stream.
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P021"), "{said}");
    assert_eq!(pending(&session).await, 2);
}

#[tokio::test]
async fn rows_of_a_table_that_leaves_the_publication_before_the_stream_begins_are_polled() {
    let (fixture, session) = begun_without_worker().await;
    insert(&session, "b", "{}").await;
    // A lock of the session: one of a transaction would keep the slot from being made.
    let hold = "select pg_advisory_lock(1); \
        create function public.hold() returns trigger language plpgsql as \
          $$ begin perform pg_advisory_xact_lock(1); return new; end $$; \
        create trigger hold before update of published_at on outbox \
          for each row execute function public.hold()";
    session.batch_execute(hold).await.unwrap();
    let command = Command::start(&fixture, "stream");
    let waits = "pg_locks where locktype = 'advisory' and not granted";
    wait_for_row(&session, "the mark to wait", waits).await;
    insert_unpublished(&session).await;
    session.batch_execute("select pg_advisory_unlock(1)").await.unwrap();
    let said = command.ends_refused().await;
    assert!(said.contains("P043") && said.contains("was altered in the publication"), "{said}");
    assert_eq!(pending(&session).await, 1);
    switched(&fixture, "stream").await;
    assert_eq!(pending(&session).await, 0);
}
