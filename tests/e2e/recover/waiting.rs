//! The new slot waits for an open transaction, which may be as long as a prepared one is forgotten.

use std::process::Output;

use e2e::{Fixture, SHORT_DEADLINE, SLOT};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::wait::eventually;
use tokio::process::Child;

use super::{drop_slot, line, recover, streaming, wait_failed, write};

/// Starts the command, and returns when its walsender makes the slot, with that one's pid.
async fn start(fixture: &Fixture, session: &DatabaseSession, former: Option<i32>) -> (Child, i32) {
    let line = line(fixture, &[]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let run = fixture.router.start_command(&line).unwrap();
    let holder = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1";
    let pid = eventually(SHORT_DEADLINE, "the slot is being made", async || {
        let row = session.query_opt(holder, &[&SLOT]).await?;
        Ok(row.and_then(|row| row.get::<_, Option<i32>>(0)).filter(|pid| Some(*pid) != former))
    });
    (run, pid.await.unwrap())
}

fn written(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[tokio::test]
async fn a_run_that_is_killed_beside_a_router_while_its_slot_waits_is_typed_again() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 5).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 7).await;
    fixture.router.start_again().unwrap();
    wait_failed(&mut fixture, "P010").await;
    let prepared = "BEGIN; INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
         SELECT aggregate_type, 'prepared', 'Changed' FROM outbox LIMIT 1; \
         PREPARE TRANSACTION 'forgotten'";
    session.batch_execute(prepared).await.unwrap();
    let (mut killed, dead) = start(&fixture, &session, None).await;
    killed.kill().await.unwrap();

    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let accept = ["accept", "--yes", "--admin-url", &url];
    let accepted = fixture.router.command(&accept).await.unwrap();
    let refused = written(&accepted);
    assert_eq!(accepted.status.code(), Some(1), "{refused}");
    let holder = format!("P012: the slot {SLOT} is in use by pid {dead}, outbox-router recover");
    assert!(refused.contains(&holder), "{refused}");
    let (second, _) = start(&fixture, &session, Some(dead)).await;
    let (exit, _, refused) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{refused}");
    let at_work = "nothing was changed: a command of this pipeline is at work in process ";
    assert!(refused.contains(at_work) && refused.contains("outbox-router recover"), "{refused}");
    session.batch_execute("COMMIT PREPARED 'forgotten'").await.unwrap();
    let output = second.wait_with_output().await.unwrap();
    let said = written(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("\"closed\": true") && said.contains("\"sent\": 8"), "{said}");
    let dead_run = format!("note: a run that was killed still made slot {SLOT}: ended");
    assert!(said.contains(&dead_run), "{said}");
    assert!(said.contains("prepared transaction forgotten, database shop"), "{said}");
    fixture.wait_streaming().await.unwrap();
    write(&fixture, &session, 3).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0), "{said}");
}
