//! What a switch refuses because a row would be lost, sent twice or passed, and what leads out.

use e2e::{Fixture, ROLE, SHORT_DEADLINE, SLOT, wait_committed};
use testbed::postgres::{DATABASE, DatabaseSession};
use testbed::router::RouterProcess;
use testbed::wait::eventually;

use super::super::{COLUMNS, DEADLINE, insert, load, wait_none, wait_polling};
use super::command::{Command, wait_for_row};
use super::{
    begun, begun_with, configure, is_refused, killed_when, run, set_up, stop, switch, switched,
};

/// What a table needs so that a row can be abandoned.
const ATTEMPTS: &str = "add attempts int not null default 0, add last_error text, \
                        add available_at timestamptz, add abandoned_at timestamptz";

async fn count(session: &DatabaseSession, of: &str) -> i64 {
    session.query_one(&format!("select count(*) from {of}"), &[]).await.unwrap().get(0)
}

/// The command itself gives it up, as the last row that is older than the slot. Rows of its key
/// that come later would pass it in the stream.
#[tokio::test]
async fn a_row_that_is_abandoned_meanwhile_is_not_handed_over() {
    let builder =
        Fixture::builder().set("on_error.bad_row", "dead_letter").set("retry.max_attempts", 1);
    let (mut fixture, _) = begun_with(builder, &format!("{COLUMNS}, {ATTEMPTS}")).await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    insert(&session, "a", "{}").await;
    // Headers that are no object (R009).
    insert(&session, "a", "[1]").await;
    let (exit, said) = switch(&fixture, "stream", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P043") && said.contains("dead-letters requeue"), "{said}");
    assert_eq!(count(&session, "outbox_router.switch where state = 'closing'").await, 1);
    let (exit, said) = switch(&fixture, "stream", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");

    session.batch_execute("update outbox set headers = '{}'").await.unwrap();
    let (exit, said) = run(&fixture, &["dead-letters", "requeue", "--all", "--yes"]).await;
    assert_eq!(exit, Some(0), "{said}");
    let said = switched(&fixture, "stream").await;
    assert_eq!(count(&session, "outbox where published_at is null").await, 0, "{said}");
}

/// Workers go on: what the command may not make is known before they give back their keys.
#[tokio::test]
async fn whoever_may_not_make_the_streams_objects_is_refused_while_workers_poll() {
    let (mut fixture, _) = begun().await;
    let session = fixture.session().await.unwrap();
    let prepare = format!(
        "alter role {ROLE} noreplication; create role limited login replication; \
         alter table outbox owner to limited; alter schema outbox_router owner to limited; \
         grant create on database {DATABASE} to limited; \
         grant select, insert, update, delete on all tables in schema outbox_router to limited; \
         grant select on pg_catalog.pg_authid to limited"
    );
    session.batch_execute(&prepare).await.unwrap();
    let url = fixture.postgres.url("limited", DATABASE);
    let line = ["switch", "stream", "--yes", "--admin-url", &url];
    let output = fixture.router.command(&line).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("alter") && said.contains("42501"), "{said}");
    assert_eq!(count(&session, "outbox_router.switch").await, 0);
    let made = "(select from pg_publication union all select from pg_replication_slots) m";
    assert_eq!(count(&session, made).await, 0, "{said}");
    insert(&session, "a", "{}").await;
    wait_none(&session, "published_at is null").await.unwrap();
    stop(&mut fixture.router).await;
}

/// Slots are of all databases, and only its name is that of the configuration.
#[tokio::test]
async fn a_slot_of_another_database_is_not_taken_for_that_of_the_tables() {
    let (mut fixture, _) = begun().await;
    let session = fixture.session().await.unwrap();
    session.batch_execute("create database other").await.unwrap();
    let other = fixture.postgres.connect_to("other").await.unwrap();
    let make = format!("select pg_create_logical_replication_slot('{SLOT}', 'pgoutput')");
    other.batch_execute(&make).await.unwrap();
    for to in ["stream", "polling"] {
        let (exit, said) = switch(&fixture, to, "--yes").await;
        assert_eq!(exit, Some(1), "{said}");
        assert!(said.contains("it is of the database other, not shop"), "{said}");
        assert!(said.contains("name another one by postgres.slot"), "{said}");
    }
    stop(&mut fixture.router).await;
}

/// The role does not exist yet.
#[tokio::test]
async fn a_role_of_the_streams_own_is_made_by_the_switch() {
    let (mut fixture, _) = begun().await;
    stop(&mut fixture.router).await;
    let (exit, said) = run(&fixture, &["switch", "stream", "--yes", "--role", "streamer"]).await;
    assert_eq!(exit, Some(0), "{said}");
    let session = fixture.session().await.unwrap();
    let may = "pg_roles where rolname = 'streamer' and rolreplication";
    assert_eq!(count(&session, may).await, 1, "{said}");
}

/// A worker takes keys in the transaction in which it reads that the table is open.
#[tokio::test]
async fn a_table_is_closed_after_everybody_who_has_read_that_it_is_open() {
    let (mut fixture, _) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    session.batch_execute("begin; select from outbox_router.switch").await.unwrap();
    let command = Command::start(&fixture, "stream");
    let observer = fixture.session().await.unwrap();
    let waits = "pg_locks where not granted and mode = 'AccessExclusiveLock' \
                 and relation = 'outbox_router.switch'::regclass";
    wait_for_row(&observer, "the command to wait for the reader", waits).await;
    session.batch_execute("commit").await.unwrap();
    command.succeeds().await;
}

/// A router that is killed has acknowledged records of which the slot does not know, and the
/// witness does.
#[tokio::test]
async fn what_the_witness_has_counts_as_delivered_where_the_slot_is_behind_it() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    switched(&fixture, "stream").await;
    let session = fixture.session().await.unwrap();
    let copy = "select pg_copy_logical_replication_slot($1::text::name, $2::text::name)::text";
    session.query_one(copy, &[&SLOT, &"behind"]).await.unwrap();
    configure(&mut fixture, &configurations.stream);
    fixture.restart().await.unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 50).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    stop(&mut fixture.router).await;
    // The walsender of a router that has ended may hold it for a moment.
    eventually(SHORT_DEADLINE, "the slot is dropped", async || {
        let dropped = session.execute("select pg_drop_replication_slot($1)", &[&SLOT]).await;
        Ok(dropped.ok().map(drop))
    })
    .await
    .unwrap();
    session.query_one(copy, &[&"behind", &SLOT]).await.unwrap();
    session.execute("select pg_drop_replication_slot('behind')", &[]).await.unwrap();

    configure(&mut fixture, &configurations.polling);
    switched(&fixture, "polling").await;
    assert_eq!(count(&session, "outbox where published_at is null").await, 0);
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "{result}");
}

/// The slot is gone on purpose: what brings lost rows back, or gives them up, would send or lose
/// others.
#[tokio::test]
async fn what_a_switch_has_dropped_is_no_gap() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    switched(&fixture, "stream").await;
    configure(&mut fixture, &configurations.stream);
    fixture.restart().await.unwrap();
    stop(&mut fixture.router).await;
    configure(&mut fixture, &configurations.polling);
    killed_when(&fixture, "polling", "slot outbox_router: dropped").await;

    configure(&mut fixture, &configurations.stream);
    let lines =
        [vec!["recover", "--yes"], vec!["accept", "--yes"], vec!["teardown", "--apply", "--yes"]];
    for line in lines {
        let (exit, said) = run(&fixture, &line).await;
        assert_eq!(exit, Some(1), "{line:?}: {said}");
        assert!(said.contains("P043") && said.contains("switch polling"), "{line:?}: {said}");
    }
    let status = fixture.router.command(&["status"]).await.unwrap();
    let said = String::from_utf8_lossy(&status.stdout);
    assert!(said.contains("P043") && !said.contains("P010"), "{said}");
    fixture.router.start_again().unwrap();
    fixture.router.wait_status("refused", SHORT_DEADLINE, is_refused).await.unwrap();
    stop(&mut fixture.router).await;
    configure(&mut fixture, &configurations.polling);
    switched(&fixture, "polling").await;
}

/// Makes PostgreSQL invalidate the slot.
async fn lose_slot(session: &DatabaseSession) {
    let limit = "alter system set max_slot_wal_keep_size = '1MB'";
    session.batch_execute(limit).await.unwrap();
    session.batch_execute("select pg_reload_conf()").await.unwrap();
    eventually(SHORT_DEADLINE, "the slot to be lost", async || {
        let more = "create table if not exists filler (t text); \
                    insert into filler select repeat('x', 1000) from generate_series(1, 2000)";
        session.batch_execute(more).await?;
        for statement in ["select pg_switch_wal()", "checkpoint"] {
            session.batch_execute(statement).await?;
        }
        let lost = count(session, "pg_replication_slots where wal_status = 'lost'").await;
        Ok((lost == 1).then_some(()))
    })
    .await
    .unwrap();
}

/// Nothing shows what it has delivered. What each command says leads on, and not to the other one.
#[tokio::test]
async fn after_the_loss_of_the_slot_a_person_marks_the_rows_and_workers_poll_again() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    switched(&fixture, "stream").await;
    let session = fixture.session().await.unwrap();
    lose_slot(&session).await;
    let (exit, said) = run(&fixture, &["teardown", "--apply", "--yes"]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("switch polling"), "{said}");
    let drop = format!("select pg_drop_replication_slot('{SLOT}')");
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("is lost") && said.contains(&drop), "{said}");
    session.batch_execute(&drop).await.unwrap();
    let (exit, said) = run(&fixture, &["teardown", "--apply", "--yes"]).await;
    assert_eq!(exit, Some(0), "{said}");
    configure(&mut fixture, &configurations.polling);
    set_up(&fixture, &[]).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    insert(&session, "a", "{}").await;
    wait_none(&session, "published_at is null").await.unwrap();
}

/// Its publication has the tables, so workers do not take them: no switch tells what is delivered.
#[tokio::test]
async fn a_lost_slot_of_tables_that_were_always_streamed_is_no_reason_to_say_that_they_are_polled()
{
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    fixture.start_accepted().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(COLUMNS).await.unwrap();
    session.batch_execute("create index on outbox (created_at)").await.unwrap();
    stop(&mut fixture.router).await;
    insert(&session, "a", "{}").await;
    lose_slot(&session).await;
    let stream = fixture.config.clone();
    fixture.config.set("postgres.source", "polling").set_outbox("order_by", vec!["n"]);
    let polling = fixture.config.clone();
    configure(&mut fixture, &polling);
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("is lost") && said.contains("pg_drop_replication_slot"), "{said}");
    assert!(said.contains("outbox-router recover "), "{said}");

    // As the hint says.
    configure(&mut fixture, &stream);
    let (exit, said) = run(&fixture, &["recover", "--yes", "--drop-slot"]).await;
    assert_eq!(exit, Some(0), "{said}");
    configure(&mut fixture, &polling);
    switched(&fixture, "polling").await;
    assert_eq!(count(&session, "outbox where published_at is null").await, 0);
    assert_eq!(fixture.seen().await.unwrap().len(), 1);
}

/// Between the making of the slot and the last pending row that is older. Rows of the slot would
/// pass those.
#[tokio::test]
async fn a_stream_does_not_start_before_the_pending_rows_are_sent() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    let running = fixture.load(load());
    wait_committed(&running, 50).await.unwrap();
    killed_when(&fixture, "stream", "hold nothing any more").await;

    configure(&mut fixture, &configurations.stream);
    let (exit, said) = run(&fixture, &["setup", "--apply", "--role", ROLE]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P043") && said.contains("switch stream"), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none(), "nothing was made");

    configure(&mut fixture, &configurations.polling);
    killed_when(&fixture, "stream", "are older than the slot").await;
    let mut streaming = RouterProcess::start(&configurations.stream.to_string()).unwrap();
    streaming.wait_status("refused", SHORT_DEADLINE, is_refused).await.unwrap();
    wait_committed(&running, 20).await.unwrap();
    eventually(SHORT_DEADLINE, "the slot of the killed command to be free", async || {
        let slot = fixture.postgres.slot(SLOT).await?;
        Ok(slot.filter(|slot| slot.active_pid.is_none()))
    })
    .await
    .unwrap();
    switched(&fixture, "stream").await;
    streaming.wait_state("streaming", DEADLINE).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    stop(&mut streaming).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert!(result.duplicates <= super::BATCH, "{result}");
}

/// Somebody has set `postgres.source` to "stream" in place of the command.
#[tokio::test]
async fn a_table_that_was_polled_last_is_not_streamed_before_the_switch() {
    let (mut fixture, configurations) = begun().await;
    let mut streaming = RouterProcess::start(&configurations.stream.to_string()).unwrap();
    let status = streaming.wait_status("refused", SHORT_DEADLINE, is_refused).await.unwrap();
    assert!(status.to_string().contains("public.outbox is polled by 1 of"), "{status}");
    stop(&mut fixture.router).await;
    for line in ["status", "doctor"] {
        let output = streaming.command(&[line]).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("public.outbox was polled last"), "{line}: {said}");
        assert!(said.contains("switch stream"), "{line}: {said}");
        for wrong in ["P010", "P020", "K022"] {
            assert!(!said.contains(wrong), "{line}: {wrong}: {said}");
        }
    }
    switched(&fixture, "stream").await;
    streaming.wait_state("streaming", DEADLINE).await.unwrap();
    stop(&mut streaming).await;
}

/// They are pending, and would count as delivered.
#[tokio::test]
async fn held_events_are_not_marked_as_delivered() {
    let builder = Fixture::builder().set("on_error.bad_row", "dead_letter");
    let (mut fixture, mut configurations) =
        begun_with(builder, &format!("{COLUMNS}, {ATTEMPTS}")).await;
    configurations.stream.set("dead_letters.topic", "");
    switched(&fixture, "stream").await;
    stop(&mut fixture.router).await;
    configure(&mut fixture, &configurations.stream);
    set_up(&fixture, &["--dead-letters"]).await.unwrap();
    fixture.restart().await.unwrap();
    let session = fixture.session().await.unwrap();
    insert(&session, "a", "[1]").await;
    eventually(DEADLINE, "a held event", async || {
        Ok((count(&session, "outbox_router.held").await == 1).then_some(()))
    })
    .await
    .unwrap();
    stop(&mut fixture.router).await;
    configure(&mut fixture, &configurations.polling);
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P043") && said.contains("dead-letters list"), "{said}");
    assert_eq!(count(&session, "outbox where published_at is null").await, 1);

    // The witness has that they were open, whatever became of the table.
    session.batch_execute("ALTER TABLE outbox_router.held RENAME TO away").await.unwrap();
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P036") && said.contains("it had 1 open events"), "{said}");
    assert_eq!(count(&session, "outbox where published_at is null").await, 1);
    session.batch_execute("ALTER TABLE outbox_router.away RENAME TO held").await.unwrap();

    configure(&mut fixture, &configurations.stream);
    let line = ["dead-letters", "drop", "--all", "--yes", "--reason", "a test"];
    let (exit, said) = run(&fixture, &line).await;
    assert_eq!(exit, Some(0), "{said}");
    fixture.restart().await.unwrap();
    eventually(DEADLINE, "the event to be dropped", async || {
        Ok((count(&session, "outbox_router.held where state <> 'dropped'").await == 0)
            .then_some(()))
    })
    .await
    .unwrap();
    stop(&mut fixture.router).await;
    configure(&mut fixture, &configurations.polling);
    switched(&fixture, "polling").await;
}

/// How rows are marked is said by the keys that polling alone has.
#[tokio::test]
async fn the_configuration_of_the_stream_does_not_say_how_to_mark() {
    let (mut fixture, configurations) = begun().await;
    switched(&fixture, "stream").await;
    stop(&mut fixture.router).await;
    configure(&mut fixture, &configurations.stream);
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("postgres.source = \"polling\""), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_some(), "nothing was changed");
}

/// No witness says that the slot is theirs, so a person has to.
#[tokio::test]
async fn tables_whose_stream_keeps_no_witness_are_polled_when_a_person_says_that_it_was_theirs() {
    let mut fixture = Fixture::builder().set("kafka.state_topic", "").start().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(COLUMNS).await.unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 50).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    stop(&mut fixture.router).await;
    fixture.config.set("postgres.source", "polling").set_outbox("order_by", vec!["n"]);
    fixture.rewrite_config().unwrap();
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("--streamed"), "{said}");
    assert!(count(&session, "outbox where published_at is null").await > 0);
    let line = ["switch", "polling", "--yes", "--streamed"];
    let (exit, said) = run(&fixture, &line).await;
    // Nor does any say since when their rows are events.
    let to_type = "outbox-router switch polling --streamed --older give-up --admin-url";
    assert!(exit == Some(1) && said.contains(to_type), "{said}");
    let (exit, said) = run(&fixture, &[&line[..], &["--older", "give-up"]].concat()).await;
    assert_eq!(exit, Some(0), "{said}");
    assert_eq!(count(&session, "outbox where published_at is null").await, 0, "{said}");
    // The publication was made before, by somebody else.
    assert_eq!(count(&session, "pg_publication").await, 1, "{said}");
}
