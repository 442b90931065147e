//! The table of held events is missing when the router starts, is dropped, or is refused.

use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, create_event_function, text};
use serde_json::Value;
use testbed::checker::CheckResult;
use testbed::postgres::DatabaseSession;

use super::poison::{Poison, only_letter, write_among_innocents};
use super::{KEYS, builder, drop_letters, make_tables, started, states, wait_closed, write};

/// A router that a person has to help tries again every 30 s.
pub(super) const RECHECK_DEADLINE: Duration = Duration::from_secs(60);

/// The row that cannot be delivered, and its key.
const ROW: (Poison, i32) = (Poison::BadRow, 17);

/// What makes the tables.
const SETUP: &str = "--dead-letters, which may be repeated";

/// The router cannot use the table, and says what to type.
async fn expect_unusable(fixture: &mut Fixture, remedy: &str) {
    let is_reported = |status: &Value| {
        text(status, "/state") == Some("failed") && text(status, "/reason/code") == Some("P036")
    };
    let status = fixture.router.wait_status("P036", SHORT_DEADLINE, is_reported).await.unwrap();
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("outbox_router.held"), "{status}");
    assert!(text(&status, "/reason/hint").unwrap().contains(remedy), "{status}");
}

/// Writes a row that cannot be delivered where the table cannot take it: nothing is confirmed past
/// it, and nothing of its key is delivered.
async fn expect_unconfirmed(fixture: &mut Fixture, session: &DatabaseSession, remedy: &str) {
    let end = write_among_innocents(session, &[ROW]).await;
    write(session, KEYS * 2).await;
    expect_unusable(fixture, remedy).await;
    assert!(fixture.confirmed().await.unwrap() < end, "it was confirmed past the row");
}

/// The router goes on by itself: what is held is in the table, all else in Kafka, and after the row
/// was given up all is delivered.
async fn expect_goes_on(fixture: &mut Fixture, session: &DatabaseSession) -> CheckResult {
    fixture.router.wait_state("streaming", RECHECK_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(only_letter(session).await.code, ROW.0.code());
    let result = fixture.check().await.unwrap();
    let behind = states(session).await.get("held").unwrap() - 1;
    assert_eq!(i64::try_from(result.lost.count()).unwrap(), behind, "{result}");
    assert_eq!(drop_letters(session).await, 1);
    wait_closed(session).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0);
    result
}

async fn missing_at_start() -> CheckResult {
    let mut fixture = builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    fixture.router.start_again().unwrap();
    expect_unconfirmed(&mut fixture, &session, SETUP).await;
    assert_eq!(fixture.seen().await.unwrap().len(), 0);
    make_tables(&fixture).await;
    expect_goes_on(&mut fixture, &session).await
}

async fn dropped_while_it_runs() -> CheckResult {
    let (mut fixture, session) = started(builder()).await;
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    session.batch_execute("DROP SCHEMA outbox_router CASCADE").await.unwrap();
    // Nobody needs the table yet.
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    expect_unconfirmed(&mut fixture, &session, SETUP).await;
    make_tables(&fixture).await;
    expect_goes_on(&mut fixture, &session).await
}

async fn refused_while_it_runs() -> CheckResult {
    let (mut fixture, session) = started(builder()).await;
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let revoke = "REVOKE INSERT ON outbox_router.held FROM outbox_router";
    session.batch_execute(revoke).await.unwrap();
    let remedy = "grant select, insert, update on outbox_router.held, outbox_router.held_version \
                  to \"outbox_router\"";
    expect_unconfirmed(&mut fixture, &session, remedy).await;
    session.batch_execute(remedy).await.unwrap();
    expect_goes_on(&mut fixture, &session).await
}

/// Each of them waits for half a minute, so they wait together.
#[tokio::test]
async fn a_table_that_is_missing_dropped_or_refused_is_waited_for_and_nothing_passes_it() {
    let results =
        tokio::join!(missing_at_start(), dropped_while_it_runs(), refused_while_it_runs());
    println!("missing: {}\ndropped: {}\nrefused: {}", results.0, results.1, results.2);
}
