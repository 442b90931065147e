//! SIGKILL in the middle, and two at once.

use e2e::{Fixture, LONG_DEADLINE, SHORT_DEADLINE};
use testbed::wait::eventually;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{drop_slot, line, recover, streaming, wait_failed, write};

/// Starts the command, and kills it when it says this of its slot.
async fn killed_at(fixture: &Fixture, step: &str) {
    let line = line(fixture, &["--rate", "10000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let mut run = fixture.router.start_command(&line).unwrap();
    let mut said = BufReader::new(run.stderr.take().unwrap()).lines();
    loop {
        let line = said.next_line().await.unwrap();
        let line = line.unwrap_or_else(|| panic!("it ended before it said {step}"));
        if line.starts_with("slot ") && line.contains(step) {
            break;
        }
    }
    run.kill().await.unwrap();
}

#[tokio::test]
async fn a_recovery_that_is_killed_at_each_step_is_completed_by_the_next() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 1_000).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 30_000).await;
    fixture.router.start_again().unwrap();
    wait_failed(&mut fixture, "P010").await;

    // As soon as the slot is there, as soon as that of the first run is dropped, and when the one
    // after that is there.
    for step in ["created at", "dropped", "created at"] {
        killed_at(&fixture, step).await;
    }
    let mut sent = Vec::new();
    for at_least in [5_000, 15_000] {
        let line = line(&fixture, &["--rate", "10000"]);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut run = fixture.router.start_command(&line).unwrap();
        eventually(LONG_DEADLINE, format!("{at_least} records"), async || {
            Ok((fixture.seen().await?.len() > 1_000 + at_least).then_some(()))
        })
        .await
        .unwrap();
        run.kill().await.unwrap();
        sent.push(fixture.seen().await.unwrap().len());
    }
    assert!(sent[1] < 31_000, "it was over before: {sent:?}");
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    fixture.wait_streaming().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(LONG_DEADLINE).await.unwrap();
    println!("records at each kill: {sent:?}");
    // What an interrupted run has sent, the next one finds in the topics.
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}

/// Once its slot is made, nothing else shows what the former one has lost.
#[tokio::test]
async fn a_recovery_that_is_killed_before_a_router_has_read_leaves_its_gap_open() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 100).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 20_000).await;
    killed_at(&fixture, "created at").await;
    fixture.router.start_again().unwrap();
    wait_failed(&mut fixture, "P010").await;
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    fixture.wait_streaming().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(LONG_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap().0, 0);
}

#[tokio::test]
async fn of_two_at_once_one_is_refused() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 20_000).await;
    let first = line(&fixture, &["--rate", "1500"]);
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    let run = fixture.router.start_command(&first).unwrap();
    eventually(LONG_DEADLINE, "the first records", async || {
        Ok((fixture.seen().await?.len() > 100).then_some(()))
    })
    .await
    .unwrap();
    let (exit, _, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("a command of this pipeline is at work in process"), "{said}");
    let output = run.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(LONG_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}
