//! The database is restored to an earlier state. What is held is in the same database, so it goes
//! back with the rows.

use std::collections::BTreeSet;

use e2e::{Fixture, SHORT_DEADLINE, text};
use serde_json::Value;
use testbed::checker::{CheckOptions, CheckResult, check};
use testbed::postgres::{PostgresServer, ShutdownMode};

use super::poison::{Poison, only_letter, write_among_innocents};
use super::{KEYS, builder, drop_letters, open_of, started, states, wait_closed, write};

/// Keys of dead letters: of one that is dropped on the server that is lost, of one that comes into
/// being only there, and of one that is written after the restore.
const DROPPED: i32 = 5;
const FORGOTTEN: i32 = 6;
const LATER: i32 = 7;

/// Stops the router and the server, copies the server's files, and starts both again.
async fn back_up(fixture: &mut Fixture) -> PostgresServer {
    fixture.router.sigterm().unwrap();
    assert!(fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap().success());
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let backup = fixture.postgres.copied(&[]).await.unwrap();
    fixture.postgres.start_again().await.unwrap();
    fixture.restart().await.unwrap();
    backup
}

/// Loses the server, and puts the backup in its place. The router notices it, and goes on when a
/// person has accepted it.
async fn restore(fixture: &mut Fixture, backup: PostgresServer) {
    fixture.kill_router().await.unwrap();
    fixture.restore_from(backup).await.unwrap();
    fixture.router.start_again().unwrap();
    let is_noticed = |status: &Value| text(status, "/reason/code") == Some("P015");
    fixture.router.wait_status("P015", SHORT_DEADLINE, is_noticed).await.unwrap();
    fixture.accept().await.unwrap();
}

/// What the checker finds of the events that the restored server has. Kafka has the others, too.
async fn check_what_is_known(fixture: &Fixture) -> CheckResult {
    let truth = fixture.truth().await.unwrap();
    let known: BTreeSet<String> = truth.events.iter().map(|event| event.id.to_string()).collect();
    let mut seen = fixture.seen().await.unwrap();
    seen.retain(|record| record.header("id").is_some_and(|id| known.contains(id)));
    check(&truth, &seen, &CheckOptions::default())
}

#[tokio::test]
async fn what_is_held_goes_back_with_the_rows_when_the_database_is_restored() {
    let (mut fixture, session) = started(builder()).await;
    write(&session, KEYS * 2).await;
    write_among_innocents(&session, &[(Poison::BadRow, DROPPED)]).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open_of(&session, DROPPED).await, (3, 1));
    let held = only_letter(&session).await;
    drop(session);
    let backup = back_up(&mut fixture).await;

    // What the backup does not have: a decision, and another dead letter.
    let session = fixture.session().await.unwrap();
    assert_eq!(drop_letters(&session).await, 1);
    wait_closed(&session).await;
    write_among_innocents(&session, &[(Poison::BadRow, FORGOTTEN)]).await;
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open_of(&session, FORGOTTEN).await, (5, 1));
    drop(session);
    restore(&mut fixture, backup).await;

    // The dead letter is undecided again, what followed it is held again, and nothing else.
    let session = fixture.session().await.unwrap();
    assert_eq!(states(&session).await.into_iter().collect::<Vec<_>>(), [("held".into(), 3)]);
    assert_eq!(only_letter(&session).await.event_id, held.event_id);
    write_among_innocents(&session, &[(Poison::BadRow, LATER)]).await;
    write(&session, KEYS * 2).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(open_of(&session, DROPPED).await, (9, 1), "it holds what comes now");
    assert_eq!(open_of(&session, FORGOTTEN).await, (0, 0));
    assert_eq!(open_of(&session, LATER).await, (5, 1));
    let result = check_what_is_known(&fixture).await;
    // Two of the key had followed the dead letter on the server that is lost, and are in Kafka.
    assert_eq!(result.lost.count(), 6 + 4, "{result}");

    assert_eq!(drop_letters(&session).await, 2);
    wait_closed(&session).await;
    let result = check_what_is_known(&fixture).await.clean().unwrap();
    println!("{result}");
    let expected = [("delivered".to_owned(), 8 + 4), ("dropped".to_owned(), 2)];
    assert_eq!(states(&session).await.into_iter().collect::<Vec<_>>(), expected);
    // Those that were held when the backup was taken; and where the server had not saved the slot's
    // position, as those before 17 do not when they stop, all that the backup has.
    assert!((2..=300).contains(&result.duplicates), "{result}");
}
