//! Somebody sets `postgres.source = "stream"` without `switch stream`, beside a slot that is there:
//! while workers of the old configuration poll, every row would come twice.

use std::time::Duration;

use e2e::{Fixture, ROLE, RouterConfig, SHORT_DEADLINE, SLOT, wait_committed};
use serde_json::Value;
use testbed::checker::LateReplays;
use testbed::load::Load;
use testbed::router::RouterProcess;
use testbed::wait::eventually;

use super::{
    BATCH, COLUMNS, DEADLINE, drop_slot, load, set_up, stop, wait_polling, wait_published,
};

/// A worker that polls, in the fixture, and a router of the changed configuration.
struct Changed {
    fixture: Fixture,
    streaming: RouterProcess,
}

/// Rows are published by the worker, and a slot is there that has none of them.
async fn changed() -> Changed {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    fixture.late_replays = LateReplays::Allowed;
    let stream: RouterConfig = fixture.config.clone();
    let session = fixture.session().await.unwrap();
    session.batch_execute(COLUMNS).await.unwrap();
    drop_slot(&session).await;
    fixture
        .config
        .set("postgres.source", "polling")
        .set("polling.batch", BATCH)
        .set("polling.lease", "4s")
        .set_outbox("order_by", vec!["n"]);
    fixture.rewrite_config().unwrap();
    set_up(&fixture, &[]).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    write(&mut fixture).await;
    wait_published(&fixture).await;
    let make = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')::text";
    session.execute(make, &[&SLOT]).await.unwrap();
    let streaming = RouterProcess::start(&stream.to_string()).unwrap();
    Changed { fixture, streaming }
}

async fn write(fixture: &mut Fixture) {
    let running = fixture.load(Load { think: Duration::from_millis(5), ..load() });
    wait_committed(&running, 50).await.unwrap();
    fixture.note(running.stop().await.unwrap());
}

fn is_refused(status: &Value) -> bool {
    status.pointer("/reason/code").and_then(Value::as_str) == Some("P043")
}

async fn said(router: &RouterProcess, line: &[&str]) -> String {
    let output = router.command(line).await.unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

#[tokio::test]
async fn a_stream_waits_for_the_workers_of_its_tables_and_starts_by_itself_when_they_stop() {
    let Changed { mut fixture, mut streaming } = changed().await;
    let status = streaming.wait_status("refused", SHORT_DEADLINE, is_refused).await.unwrap();
    assert!(status.to_string().contains("public.outbox is polled by"), "{status}");
    assert!(said(&streaming, &["status"]).await.contains("P043"));
    let doctor = said(&streaming, &["doctor"]).await;
    assert!(doctor.contains("P043") && doctor.contains("public.outbox is polled by"), "{doctor}");
    let slot = fixture.postgres.slot(SLOT).await.unwrap().unwrap();
    assert_eq!(slot.active_pid, None, "nobody streams");

    stop(&mut fixture.router).await;
    streaming.wait_state("streaming", DEADLINE).await.unwrap();
    assert!(!said(&streaming, &["doctor"]).await.contains("P043"));
    write(&mut fixture).await;
    fixture.wait_delivered(DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "{result}");
}

/// What a worker that was killed has left in the table of leases says nothing once it has ended.
#[tokio::test]
async fn leases_that_have_ended_keep_no_stream_from_starting_or_from_going_on() {
    let Changed { mut fixture, mut streaming } = changed().await;
    streaming.wait_status("refused", SHORT_DEADLINE, is_refused).await.unwrap();
    fixture.router.kill9().await.unwrap();
    streaming.wait_state("streaming", DEADLINE).await.unwrap();
    let session = fixture.session().await.unwrap();
    let left = "select count(*) from outbox_router.lease \
                where holder is not null and expires_at < now()";
    let left: i64 = session.query_one(left, &[]).await.unwrap().get(0);
    assert_eq!(left, 64, "the leases of the worker that was killed");

    let before = walsender(&fixture).await;
    session.execute("select pg_terminate_backend($1)", &[&before]).await.unwrap();
    eventually(DEADLINE, "another walsender", async || {
        let now = fixture.postgres.slot(SLOT).await?.and_then(|slot| slot.active_pid);
        Ok(now.filter(|pid| *pid != before))
    })
    .await
    .unwrap();
    write(&mut fixture).await;
    fixture.wait_delivered(DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "{result}");
}

async fn walsender(fixture: &Fixture) -> i32 {
    fixture.postgres.slot(SLOT).await.unwrap().unwrap().active_pid.unwrap()
}

/// Another pipeline has marks of its own, and sends to a Kafka of its own.
#[tokio::test]
async fn a_stream_does_not_wait_for_the_workers_of_another_pipeline() {
    let Changed { mut fixture, mut streaming } = changed().await;
    streaming.wait_status("refused", SHORT_DEADLINE, is_refused).await.unwrap();
    stop(&mut fixture.router).await;
    fixture.config.set("name", "audit").set("postgres.slot", "audit");
    fixture.rewrite_config().unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    streaming.wait_state("streaming", DEADLINE).await.unwrap();
    assert!(!said(&streaming, &["doctor"]).await.contains("P043"));
}

/// A role that is told nothing of leases streams as ever.
#[tokio::test]
async fn a_role_that_may_not_read_the_leases_streams() {
    let Changed { mut fixture, mut streaming } = changed().await;
    streaming.wait_status("refused", SHORT_DEADLINE, is_refused).await.unwrap();
    fixture.router.kill9().await.unwrap();
    let session = fixture.session().await.unwrap();
    let forbid = format!(
        "update outbox_router.lease set expires_at = now() + interval '1 hour'; \
         revoke all on outbox_router.lease from {ROLE}"
    );
    session.batch_execute(&forbid).await.unwrap();
    streaming.wait_state("streaming", DEADLINE).await.unwrap();
    write(&mut fixture).await;
    fixture.wait_delivered(DEADLINE).await.unwrap();
}
