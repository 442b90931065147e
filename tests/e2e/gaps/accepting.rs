//! A person closes a gap with the commands that the hints name, and the router continues by itself.

use std::{collections::HashSet, time::Duration};

use e2e::{Fixture, PUBLICATION, ROLE, SHORT_DEADLINE, SLOT, text};
use serde_json::Value;
use testbed::load::Load;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::reader::ConsumedRecord;
use testbed::wait::eventually;

use super::{WITHIN, count, damage, drop_slot, expect_gap, streaming_fixture, write};

/// A router that has halted reads the state topic every five seconds.
const RESUME_DEADLINE: Duration = Duration::from_secs(30);

/// Types a command, as the superuser where it takes one; its output.
async fn run_command(fixture: &Fixture, arguments: &[&str], exit_code: i32) -> String {
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let mut arguments = arguments.to_vec();
    if arguments.first() != Some(&"status") {
        arguments.extend(["--admin-url", admin.as_str()]);
    }
    let output = fixture.router.command(&arguments).await.unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert_eq!(output.status.code(), Some(exit_code), "{arguments:?}: {text}");
    text
}

/// Events flow again, and a restart changes nothing.
async fn expect_events_delivered(fixture: &mut Fixture) {
    fixture.router.wait_state("streaming", RESUME_DEADLINE).await.unwrap();
    // The monitor withdraws its finding with its next check.
    eventually(SHORT_DEADLINE, "a router that is ready", async || {
        Ok((fixture.router.get("/readyz").await?.status == 200).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(fixture.router.metric("outbox_gaps_open", "").await.unwrap(), Some(0.0));
    for _ in 0..2 {
        write(fixture, 50).await;
        fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
        fixture.check().await.unwrap().clean().unwrap();
        fixture.kill_router().await.unwrap();
        fixture.restart().await.unwrap();
    }
    let status = fixture.status().await.unwrap();
    let open = status.pointer("/witness/gaps").and_then(Value::as_array).unwrap();
    assert!(open.is_empty(), "{status}");
}

#[tokio::test]
async fn a_dropped_slot_is_recreated_and_the_gap_accepted() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let done = damage(&fixture, &drop_slot()).await;
    expect_gap(&mut fixture, &["P010"], &done).await;
    let status = fixture.status().await.unwrap();
    let name = text(&status, "/witness/gaps/0/name").unwrap().to_owned();
    assert_eq!(fixture.router.metric("outbox_gap_recorded", "").await.unwrap(), Some(1.0));
    // Not even a restart forgets it, nor a new slot.
    fixture.router.kill9().await.unwrap();
    let refused = run_command(&fixture, &["accept", "--yes"], 1).await;
    assert!(refused.contains("outbox-router setup --apply"), "{refused}");
    let setup = run_command(&fixture, &["setup", "--apply"], 0).await;
    assert!(setup.contains(&format!("{name} is open")), "{setup}");
    fixture.router.start_again().unwrap();
    let status = fixture.router.wait_state("failed", WITHIN).await.unwrap();
    assert_eq!(text(&status, "/witness/gaps/0/name"), Some(name.as_str()), "{status}");
    let status = run_command(&fixture, &["status"], 1).await;
    assert!(status.contains(&format!("    outbox-router accept --gap {name}\n")), "{status}");

    let accepted =
        run_command(&fixture, &["accept", "--gap", &name, "--yes", "--by", "ann"], 0).await;
    assert!(accepted.contains(&format!("accepted {name} by ann\n")), "{accepted}");
    // The one that the test wrote to see that nothing moves.
    assert!(accepted.contains(" in public.outbox with created_at since then\n"), "{accepted}");
    expect_events_delivered(&mut fixture).await;
    let log = fixture.router.log();
    assert!(log.contains(&format!("{name} was accepted by ann")), "{log}");
    // That it began without a witness is another matter, and still open.
    let status = run_command(&fixture, &["status"], 1).await;
    assert!(status.contains(&format!("accepted  {name} by ann, ")), "{status}");
    assert!(status.contains("open      K022@"), "{status}");
}

#[tokio::test]
async fn a_recreated_publication_needs_another_slot() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let again = format!(
        "DROP PUBLICATION {PUBLICATION}; CREATE PUBLICATION {PUBLICATION} FOR TABLE {} \
         WITH (publish = 'insert', publish_via_partition_root = true)",
        fixture.schema.table
    );
    let done = damage(&fixture, &again).await;
    expect_gap(&mut fixture, &["P020", "P026"], &done).await;
    let refused = run_command(&fixture, &["accept", "--yes"], 1).await;
    assert!(refused.contains("P026: the slot stands at "), "{refused}");
    let dropped = run_command(&fixture, &["teardown", "--apply", "--yes"], 0).await;
    assert!(dropped.contains("witness: kept, so that this is not forgotten: P02"), "{dropped}");
    run_command(&fixture, &["setup", "--apply"], 0).await;
    run_command(&fixture, &["accept", "--yes"], 0).await;
    expect_events_delivered(&mut fixture).await;
}

/// Names of what the router says is open.
async fn open(fixture: &Fixture) -> Vec<String> {
    let status = fixture.status().await.unwrap();
    let gaps = status.pointer("/witness/gaps").and_then(Value::as_array).unwrap();
    gaps.iter().map(|gap| gap["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_gap_that_is_not_accepted_stays_open() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    fixture.router.kill9().await.unwrap();
    let table = &fixture.schema.table;
    let session = fixture.session().await.unwrap();
    let out_and_back = format!(
        "ALTER PUBLICATION {PUBLICATION} DROP TABLE {table}; \
         ALTER PUBLICATION {PUBLICATION} ADD TABLE {table}"
    );
    session.batch_execute(&out_and_back).await.unwrap();
    eventually(SHORT_DEADLINE, "the slot to be free", async || {
        let held = format!("pg_replication_slots WHERE slot_name = '{SLOT}' AND active");
        Ok((count(&session, &held).await == 0).then_some(()))
    })
    .await
    .unwrap();
    let advance = format!("SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_lsn())");
    session.batch_execute(&advance).await.unwrap();

    // No router has written anything down yet.
    let shown = run_command(&fixture, &["accept"], 2).await;
    assert!(shown.contains("open      P014@") && shown.contains("open      P021@"), "{shown}");

    fixture.router.start_again().unwrap();
    fixture.router.wait_state("failed", WITHIN).await.unwrap();
    let [moved, left] = &open(&fixture).await[..] else { panic!("{:?}", open(&fixture).await) };
    assert!(moved.starts_with("P014@") && left.starts_with("P021@"), "{moved} {left}");
    let text = run_command(&fixture, &["accept", "--gap", moved, "--yes"], 0).await;
    assert!(text.contains(&format!("still open: {left}\n")), "{text}");
    let stays = async || Ok((open(&fixture).await == [left.as_str()]).then_some(()));
    eventually(RESUME_DEADLINE, "one gap to stay open", stays).await.unwrap();
    run_command(&fixture, &["accept", "--gap", left, "--yes"], 0).await;
    expect_events_delivered(&mut fixture).await;
}

/// The fixture creates its slot by SQL, without `setup`.
#[tokio::test]
async fn a_start_without_a_witness_is_accepted_while_events_flow() {
    let mut fixture = streaming_fixture(Fixture::builder()).await;
    let status = fixture.status().await.unwrap();
    let began = text(&status, "/witness/began_without/lsn").unwrap().to_owned();
    assert_eq!(fixture.router.metric("outbox_witness_missing", "").await.unwrap(), Some(1.0));
    assert!(fixture.router.log().contains("without a witness, the record in the state topic"));
    let status = run_command(&fixture, &["status"], 1).await;
    assert!(status.contains(&format!("outbox-router accept --gap K022@{began}\n")), "{status}");
    // The witness advances between any two reads.
    let load = fixture.load(Load { events: Some(20_000), ..Load::default() });
    let accepted = run_command(&fixture, &["accept", "--yes"], 0).await;
    assert!(accepted.contains(&format!("accepted K022@{began} by ")), "{accepted}");
    assert!(!accepted.contains("P0"), "{accepted}");
    let journal = load.finished().await.unwrap();
    fixture.note(journal);
    let router = &fixture.router;
    eventually(SHORT_DEADLINE, "the router to take note of it", async || {
        let missing = router.metric("outbox_witness_missing", "").await?;
        Ok((missing == Some(0.0)).then_some(()))
    })
    .await
    .unwrap();
    write(&mut fixture, 50).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    assert_eq!(fixture.router.metric("outbox_witness_missing", "").await.unwrap(), Some(0.0));
    run_command(&fixture, &["status"], 0).await;
    expect_events_delivered(&mut fixture).await;
}

/// After `teardown` and `setup`, the witness contains nothing of the earlier pipeline.
#[tokio::test]
async fn teardown_removes_everything_that_setup_created() {
    let mut fixture = Fixture::builder().empty_database().prepare().await.unwrap();
    let setup = ["setup", "--apply", "--create-table", "--role", ROLE];
    for _ in 0..2 {
        let made = run_command(&fixture, &setup, 0).await;
        assert!(made.contains("witness: created in "), "{made}");
        fixture.restart().await.unwrap();
        let status = fixture.status().await.unwrap();
        assert_eq!(status["witness"]["began_without"], Value::Null, "{status}");
        let session = fixture.session().await.unwrap();
        let row = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES ('order', 'a', 'A')";
        session.batch_execute(row).await.unwrap();
        fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
        fixture.router.sigterm().unwrap();
        assert_eq!(fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap().code(), Some(0));
        let dropped = run_command(&fixture, &["teardown", "--apply", "--yes"], 0).await;
        assert!(dropped.contains("witness: deleted\n"), "{dropped}");
        assert_eq!(
            count(&session, &format!("pg_replication_slots WHERE slot_name = '{SLOT}'")).await,
            0
        );
    }
}

/// All rows of a transaction have one time, and those of such sizes do not lie in the order in
/// which they were written.
async fn write_two_transactions(session: &DatabaseSession) {
    for transaction in 0..2 {
        let rows = format!(
            "DO $$ BEGIN FOR n IN 1..1000 LOOP \
               INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
               VALUES ('order', 'many', 'Left out', json_build_object('n', {transaction} * 1000 + n, \
                 'filled', repeat('x', n * 7919 % 300))); \
             END LOOP; END $$"
        );
        session.batch_execute(&rows).await.unwrap();
    }
}

/// The README's statement that inserts rows again.
fn recipe(from: &str, to: &str) -> String {
    format!(
        "with placed as (
           select id, cmin::text::bigint as nth, ctid as place from outbox
           where created_at between '{from}'::timestamptz - interval '1 hour' and '{to}'),
         again as (
           delete from outbox using placed where outbox.id = placed.id returning outbox.*, nth, place)
         insert into outbox
           (id, aggregate_type, aggregate_id, event_type, payload, headers, created_at)
         select id, aggregate_type, aggregate_id, event_type, payload, headers, created_at
         from again order by created_at, nth, place"
    )
}

/// Of the rows of [`write_two_transactions`], in the order in which they arrived.
fn numbers(seen: &[ConsumedRecord]) -> Vec<u64> {
    let many = seen.iter().filter(|record| record.key.as_deref() == Some(b"many"));
    many.map(|record| {
        let value: Value = serde_json::from_slice(record.value.as_deref().unwrap()).unwrap();
        value.get("n").and_then(Value::as_u64).unwrap()
    })
    .collect()
}

/// Follows the README: after the gap is repaired, the missing rows are inserted again, for the
/// interval that `accept` shows, with its beginning moved back by the longest transaction. One such
/// transaction was open at the last check without a finding.
#[tokio::test]
async fn rows_left_out_until_the_table_was_mended_are_published_by_the_readmes_recipe() {
    let mut fixture = streaming_fixture(Fixture::builder().track_commits()).await;
    let row = |id: &str| {
        format!(
            "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
             VALUES ('order', '{id}', 'Left out')"
        )
    };
    let long = fixture.session().await.unwrap();
    long.batch_execute(&format!("BEGIN; {}", row("begun before"))).await.unwrap();
    // The monitor finds all well once more.
    let checked = fixture.postgres.current_wal_lsn().await.unwrap();
    write(&mut fixture, 50).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let out = format!("ALTER PUBLICATION {PUBLICATION} DROP TABLE {}", fixture.schema.table);
    let done = damage(&fixture, &out).await;
    assert!(done.latest_from > checked);
    expect_gap(&mut fixture, &["P021"], &done).await;
    let session = fixture.session().await.unwrap();
    long.batch_execute("COMMIT").await.unwrap();
    for id in ["found", "an hour later"] {
        session.batch_execute(&row(id)).await.unwrap();
    }
    write_two_transactions(&session).await;
    let status = fixture.status().await.unwrap();
    let hint = text(&status, "/reason/hint").unwrap();
    let (remedy, _) = hint.split_once("commit;").unwrap();
    session.batch_execute(&format!("{remedy}commit")).await.unwrap();

    let shown = run_command(&fixture, &["accept"], 2).await;
    let time = |end: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(end)).unwrap();
        line.split(['(', ')']).nth(1).unwrap().to_owned()
    };
    let (from, to) = (time("from "), time("to "));
    session.batch_execute(&recipe(&from, &to)).await.unwrap();
    run_command(&fixture, &["accept", "--yes"], 0).await;
    fixture.router.wait_state("streaming", RESUME_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let truth = fixture.truth().await.unwrap().events;
    let seen = fixture.seen().await.unwrap();
    let there: HashSet<String> =
        seen.iter().map(|record| record.header("id").unwrap().to_owned()).collect();
    let missing = truth.iter().filter(|event| !there.contains(&event.id.to_string())).count();
    assert_eq!((missing, truth.is_empty()), (0, false), "of {} events", truth.len());
    let left_out = session.query("SELECT id::text FROM outbox", &[]).await.unwrap();
    let missing = left_out.iter().filter(|row| !there.contains(row.get::<_, &str>(0))).count();
    assert_eq!((missing, left_out.len() > 2_000), (0, true), "of {} rows", left_out.len());
    assert_eq!(numbers(&seen), (1..=2_000).collect::<Vec<u64>>());
}
