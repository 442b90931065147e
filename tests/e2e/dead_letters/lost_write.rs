//! Writes to the table that the server has lost, although it has the events.

use e2e::{Fixture, ROLE, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession, PostgresServer, SUPERUSER, ShutdownMode};

use super::{
    builder, delivered_of, drop_letters, open_of, started, wait_closed, write, write_poison,
};

const POISONED: i32 = 9;
/// The aggregate of the event before the poisoned row, in its transaction.
const NEIGHBOUR: i32 = 11;

/// A copy of the server in which the poisoned row is committed, and its row in the table is not,
/// since a lock keeps the router from writing it. The server itself goes on, and the position of
/// the row is confirmed.
async fn copy_without_the_write(fixture: &mut Fixture, session: DatabaseSession) -> PostgresServer {
    let lock = fixture.session().await.unwrap();
    lock.batch_execute("BEGIN; LOCK TABLE outbox_router.held IN EXCLUSIVE MODE").await.unwrap();
    write_poison(&session, POISONED).await;
    testbed::wait::eventually(SHORT_DEADLINE, "the neighbour", async || {
        Ok((delivered_of(fixture, NEIGHBOUR).await > 0).then_some(()))
    })
    .await
    .unwrap();
    fixture.kill_router().await.unwrap();
    drop((session, lock));
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let copy = fixture.postgres.copied(&[]).await.unwrap();
    fixture.postgres.start_again().await.unwrap();
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    copy
}

async fn wait_for_gap(fixture: &mut Fixture) -> Value {
    let is_reported = |status: &Value| {
        text(status, "/state") == Some("failed") && text(status, "/reason/code") == Some("P037")
    };
    fixture.router.wait_status("P037", SHORT_DEADLINE, is_reported).await.unwrap()
}

#[tokio::test]
async fn a_promotion_that_lost_the_row_of_a_held_event_is_a_gap() {
    let (mut fixture, session) = started(builder()).await;
    write(&session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let copy = copy_without_the_write(&mut fixture, session).await;
    let session = fixture.session().await.unwrap();
    assert_eq!(open_of(&session, POISONED).await, (2, 1));
    drop(session);
    fixture.kill_router().await.unwrap();
    fixture.postgres.kill9().await.unwrap();
    fixture.postgres = copy;
    fixture.postgres.start_promoted().await.unwrap();
    fixture.config.set("postgres.url", fixture.postgres.url(ROLE, DATABASE));
    fixture.rewrite_config().unwrap();

    fixture.router.start_again().unwrap();
    let status = wait_for_gap(&mut fixture).await;
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("or a promotion lost them"), "{message}");
    fixture.accept().await.unwrap();

    // The slot of the promoted server stands before the event, so it comes again.
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let session = fixture.session().await.unwrap();
    assert_eq!(open_of(&session, POISONED).await, (2, 1));
    assert_eq!(drop_letters(&session).await, 1);
    wait_closed(&session).await;
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    println!("{}", fixture.check().await.unwrap().clean().unwrap());
}

#[tokio::test]
async fn a_table_that_is_made_again_with_events_in_it_is_a_gap_and_one_acceptance_closes_it() {
    let (mut fixture, session) = started(builder()).await;
    write_poison(&session, POISONED).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open_of(&session, POISONED).await, (2, 1));
    session.batch_execute("DROP SCHEMA outbox_router CASCADE").await.unwrap();
    super::make_tables(&fixture).await;
    fixture.kill_router().await.unwrap();
    fixture.router.start_again().unwrap();
    let status = wait_for_gap(&mut fixture).await;
    let message = text(&status, "/reason/message").unwrap();
    assert!(
        message.contains("was made again") && message.contains("2 events were open"),
        "{message}"
    );
    fixture.accept().await.unwrap();
    write(&session, 50).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    // While nothing is open, the table may be made again.
    session.batch_execute("DROP SCHEMA outbox_router CASCADE").await.unwrap();
    super::make_tables(&fixture).await;
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let output = fixture.router.command(&["accept", "--admin-url", &url]).await.unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("nothing"), "{output:?}");
}
