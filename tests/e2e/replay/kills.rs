//! SIGKILL in the middle of a run.

use e2e::{Fixture, wait_settled};
use testbed::process::{Signal, signal};

use super::{line, missing_and_repeated, replay, steps_back, write};

const ROWS: i32 = 50_000;
/// Rows past the last place that the table of runs has: what a kill may repeat.
const PAST_JOURNAL: usize = 20_000;

#[tokio::test]
async fn a_run_that_is_killed_twice_is_gone_on_with_and_leaves_nothing_out() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    write(&fixture, &session, ROWS, 100).await;
    let mut ends = vec![0];
    for (place, settled) in [10_000, 30_000].into_iter().enumerate() {
        let more: &[&str] = if place == 0 { &[] } else { &["--resume"] };
        let line = line(&fixture, &[&["--all", "--rate", "10000"], more].concat());
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut run = fixture.router.start_command(&line).unwrap();
        wait_settled(&session, settled).await.unwrap();
        run.kill().await.unwrap();
        ends.push(fixture.seen().await.unwrap().len());
    }
    assert!(ends.is_sorted_by(|one, next| one < next), "{ends:?}");
    assert!(ends[2] < usize::try_from(ROWS).unwrap(), "it was over before: {ends:?}");

    let (exit, answer, errors) = replay(&fixture, &["--all", "--resume"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{errors}");
    assert_eq!((&answer["run"], &answer["resumed"]), (&1.into(), &1.into()));
    let seen = fixture.seen().await.unwrap();
    let (missing, repeated) = missing_and_repeated(&seen, ROWS);
    println!("records at each kill: {ends:?}, repeated: {repeated}");
    assert_eq!(missing, 0);
    assert!(repeated <= 2 * PAST_JOURNAL, "{repeated}");
    for partition in 0..3 {
        assert!(steps_back(&seen, partition) <= 2, "partition {partition} is out of order");
    }
    let sql = "SELECT settled, outcome, finished_at IS NOT NULL, decided_by \
               FROM outbox_router.republication";
    let row = session.query_one(sql, &[]).await.unwrap();
    let settled: i64 = row.get(0);
    assert!((i64::from(ROWS)..i64::from(ROWS) + 10).contains(&settled), "{settled}");
    assert!(row.get::<_, &str>(1).starts_with("complete: "));
    assert!(row.get::<_, bool>(2) && row.get::<_, &str>(3).starts_with("ann as "));
}

#[tokio::test]
async fn ctrl_c_ends_a_run_so_that_nothing_is_sent_twice_but_its_last_row() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    write(&fixture, &session, ROWS, 100).await;
    let line = line(&fixture, &["--all", "--rate", "10000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let run = fixture.router.start_command(&line).unwrap();
    wait_settled(&session, 5_000).await.unwrap();
    signal(&run, Signal::INT).unwrap();
    let output = run.wait_with_output().await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{answer:#}");
    assert_eq!(
        (&answer["outcome"], &answer["unacknowledged"]),
        (&"interrupted".into(), &0.into()),
        "{answer:#}"
    );
    let (exit, answer, errors) = replay(&fixture, &["--all", "--resume"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{errors}");
    let (missing, repeated) = missing_and_repeated(&fixture.seen().await.unwrap(), ROWS);
    assert_eq!(missing, 0);
    assert!(repeated <= 1, "{repeated}");
}
