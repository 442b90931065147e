//! SIGKILL in the middle, and what follows.

use e2e::{Fixture, LONG_DEADLINE, SHORT_DEADLINE, SLOT, wait_committed, wait_settled};
use testbed::postgres::{DatabaseSession, ShutdownMode};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{line, load, prepared, setup, write};

/// Rows past the last place that the table of runs has: what a kill may repeat.
const PAST_JOURNAL: usize = 20_000;

async fn killed_at(fixture: &Fixture, session: &DatabaseSession, settled: i64) {
    let line = line(fixture, &["--backfill", "--rate", "10000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let mut run = fixture.router.start_command(&line).unwrap();
    wait_settled(session, settled).await.unwrap();
    run.kill().await.unwrap();
}

#[tokio::test]
async fn a_back_fill_that_is_killed_twice_goes_on_and_leaves_nothing_out() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 40_000).await;
    let running = fixture.load(load());
    wait_committed(&running, 100).await.unwrap();
    killed_at(&fixture, &session, 10_000).await;
    wait_committed(&running, 200).await.unwrap();

    // Set-up without these rows would leave them behind.
    let (exit, said) = setup(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("a back-fill is not complete") && said.contains("P013"), "{said}");
    let (exit, said) = setup(&fixture, &["--backfill", "--where", "true"]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("of other rows is not complete"), "{said}");

    killed_at(&fixture, &session, 25_000).await;
    wait_committed(&running, 200).await.unwrap();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("goes on with run 1"), "{said}");
    fixture.restart().await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(LONG_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (missing, doubled) = fixture.missing_and_doubled(&session).await.unwrap();
    println!("doubled: {doubled}");
    assert_eq!(missing, 0);
    assert!(doubled <= 2 * PAST_JOURNAL, "{doubled}");
    let runs = "SELECT count(*) FROM outbox_router.republication WHERE finished_at IS NULL";
    assert_eq!(session.query_one(runs, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// Starts the command, and kills it when it says this.
async fn killed_when(fixture: &Fixture, what: &str) {
    let line = line(fixture, &["--backfill", "--rate", "10000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let mut run = fixture.router.start_command(&line).unwrap();
    let mut said = BufReader::new(run.stdout.take().unwrap()).lines();
    loop {
        let line = said.next_line().await.unwrap();
        let line = line.unwrap_or_else(|| panic!("it ended before it said {what}"));
        if line.contains(what) {
            break;
        }
    }
    run.kill().await.unwrap();
}

#[tokio::test]
async fn a_back_fill_that_is_killed_before_its_first_row_and_after_its_last_goes_on() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 2_000).await;
    killed_when(&fixture, "created at").await;
    write(&fixture, &session, 10).await;
    killed_when(&fixture, "back-fill: goes on with run 1").await;
    write(&fixture, &session, 10).await;
    // All rows were sent, and set-up was not completed.
    killed_when(&fixture, "records").await;
    let sent = fixture.seen().await.unwrap().len();
    write(&fixture, &session, 10).await;
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("witness: created"), "{said}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (missing, doubled) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!((missing, sent), (0, 2_020));
    assert!(doubled <= sent, "{doubled}");
}

#[tokio::test]
async fn a_router_that_moved_the_slot_ends_the_division() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 30_000).await;
    killed_at(&fixture, &session, 5_000).await;
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P013") && said.contains("outbox-router replay --where"), "{said}");
}

#[tokio::test]
async fn a_router_that_waits_takes_the_slot_only_when_all_rows_were_sent() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 30_000).await;
    let line = line(&fixture, &["--backfill", "--rate", "10000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let run = fixture.router.start_command(&line).unwrap();
    wait_settled(&session, 5_000).await.unwrap();
    fixture.router.start_again().unwrap();
    write(&fixture, &session, 100).await;
    let output = run.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    fixture.wait_streaming().await.unwrap();
    fixture.wait_delivered(LONG_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_some());
}

#[tokio::test]
async fn a_server_that_is_stopped_meanwhile_stops_and_the_back_fill_goes_on_afterwards() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 20_000).await;
    let line = line(&fixture, &["--backfill", "--rate", "5000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let run = fixture.router.start_command(&line).unwrap();
    wait_settled(&session, 5_000).await.unwrap();
    drop(session);
    // It waits until its walsenders have sent everything.
    fixture.postgres.stop(ShutdownMode::Fast, LONG_DEADLINE).await.unwrap();
    let output = run.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    fixture.postgres.start_again().await.unwrap();
    let session = fixture.session().await.unwrap();
    write(&fixture, &session, 10).await;
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (missing, doubled) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!(missing, 0);
    assert!(doubled <= PAST_JOURNAL, "{doubled}");
}
