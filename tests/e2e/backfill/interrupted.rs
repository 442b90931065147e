//! SIGKILL in the middle, and what follows.

use std::collections::BTreeSet;

use e2e::{
    Fixture, LONG_DEADLINE, PUBLICATION, ROLE, SHORT_DEADLINE, SLOT, wait_committed, wait_settled,
};
use serde_json::Value;
use testbed::kafka::KafkaOptions;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER, ShutdownMode};
use testbed::wait::eventually;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{line, load, prepared, setup, typed, write};

/// Rows past the last place that the table of runs has: what a kill may repeat.
const PAST_JOURNAL: usize = 20_000;

async fn killed_at(fixture: &Fixture, session: &DatabaseSession, settled: i64) {
    let line = line(fixture, &["--backfill", "--drop-slot", "--rate", "10000"]);
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
    let (exit, said) = setup(&fixture, &["--backfill", "--drop-slot"]).await;
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

/// A first run has produced to the topic, and a second one alone to that which took its place.
#[tokio::test]
async fn a_topic_that_is_made_again_between_two_runs_of_a_back_fill_is_noted() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 40_000).await;
    killed_at(&fixture, &session, 10_000).await;
    let topic = fixture.topics.first().unwrap().clone();
    fixture.kafka.delete_topic(&topic).await.unwrap();
    fixture.kafka.create_topic(&topic, 3, &[]).await.unwrap();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    fixture.restart().await.unwrap();
    let is_noted = |status: &Value| {
        status.pointer("/witness/lost_topics/0/topic").and_then(Value::as_str) == Some(&topic)
    };
    fixture.router.wait_status("the note", SHORT_DEADLINE, is_noted).await.unwrap();
}

/// Starts the command, and kills it when it says this.
async fn killed_when(fixture: &Fixture, what: &str) {
    let line = line(fixture, &["--backfill", "--drop-slot", "--rate", "10000"]);
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
    let (exit, said) = setup(&fixture, &["--backfill", "--drop-slot"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("witness: created"), "{said}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (missing, doubled) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!((missing, sent), (0, 2_020));
    assert!(doubled <= sent, "{doubled}");
}

/// What it had before counts as a row of the table from then on, also where it is older than the
/// place at which the back-fill stopped.
#[tokio::test]
async fn a_partition_that_is_attached_between_two_runs_is_sent_and_one_attached_later_is_not() {
    let (mut fixture, session) = prepared().await;
    let sql = format!(
        "DROP PUBLICATION {PUBLICATION}; CREATE TABLE again (LIKE outbox INCLUDING DEFAULTS, \
           PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at); \
         DROP TABLE outbox; ALTER TABLE again RENAME TO outbox; \
         CREATE TABLE today PARTITION OF outbox FOR VALUES FROM ('2020-01-01') TO (MAXVALUE); \
         CREATE TABLE between (LIKE outbox INCLUDING ALL); CREATE TABLE later (LIKE between INCLUDING ALL); \
         CREATE PUBLICATION {PUBLICATION} FOR TABLE outbox \
           WITH (publish = 'insert', publish_via_partition_root = true); \
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO {ROLE}"
    );
    session.batch_execute(&sql).await.unwrap();
    write(&fixture, &session, 30_000).await;
    let aggregate_type = fixture.schema.types.first().unwrap().clone();
    let fill = async |table: &str, year: i32| {
        let sql = format!(
            "INSERT INTO {table} (aggregate_type, aggregate_id, event_type, created_at) \
             SELECT '{aggregate_type}', 'key-1', '{table}', '{year}-07-01' FROM generate_series(1, 5)"
        );
        session.batch_execute(&sql).await.unwrap();
    };
    let attach = async |table: &str, year: i32| {
        let sql = format!(
            "ALTER TABLE outbox ATTACH PARTITION {table} \
             FOR VALUES FROM ('{year}-01-01') TO ('{year}-12-31')"
        );
        session.batch_execute(&sql).await.unwrap();
    };
    fill("between", 2011).await;
    fill("later", 2012).await;
    killed_at(&fixture, &session, 10_000).await;
    attach("between", 2011).await;
    let line = line(&fixture, &["--backfill", "--rate", "10000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let run = fixture.router.start_command(&line).unwrap();
    wait_settled(&session, 15_000).await.unwrap();
    attach("later", 2012).await;
    let output = run.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    fixture.config.set("retention.mode", "delete");
    fixture.config.set("retention.keep", "0s");
    fixture.config.set("retention.interval", "1s");
    fixture.config.set("retention.pause", "0s");
    session
        .batch_execute(&format!(
            "CREATE INDEX ON outbox (created_at); GRANT DELETE ON outbox TO {ROLE}"
        ))
        .await
        .unwrap();
    fixture.rewrite_config().unwrap();
    fixture.restart().await.unwrap();
    let left = "SELECT coalesce(string_agg(DISTINCT event_type, ' '), '') FROM outbox";
    eventually(LONG_DEADLINE, "only rows that were not sent", async || {
        let left: String = session.query_one(left, &[]).await?.get(0);
        Ok((left == "later").then_some(()))
    })
    .await
    .unwrap();
    let seen = fixture.seen().await.unwrap();
    let id = |(name, value): &(String, Option<Vec<u8>>)| (name == "id").then(|| value.clone());
    let ids: BTreeSet<_> =
        seen.iter().filter_map(|record| record.headers.iter().find_map(id)).collect();
    assert_eq!(ids.len(), 30_005);
    // What is kept is said.
    let status = fixture.router.status().await.unwrap();
    assert_eq!(status.pointer("/retention/tables/0/older"), Some(&5.into()), "{status}");
}

/// What was done to the publication between the last row and the witness, nothing shows: the
/// snapshot of another slot has the rows.
#[tokio::test]
async fn a_back_fill_that_is_complete_and_has_no_witness_goes_on() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 10).await;
    let (exit, said) = setup(&fixture, &["--backfill", "--skip-kafka"]).await;
    assert_eq!(exit, Some(0), "{said}");
    let take_out = format!("ALTER PUBLICATION {PUBLICATION} DROP TABLE outbox");
    session.batch_execute(&take_out).await.unwrap();
    write(&fixture, &session, 1).await;
    let put_back = format!("ALTER PUBLICATION {PUBLICATION} ADD TABLE outbox");
    session.batch_execute(&put_back).await.unwrap();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("goes on with run 1") && !said.contains("K022@"), "{said}");
    fixture.restart().await.unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    // It goes on at the place of its last row, which comes again.
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 1));
}

/// A row that is committed while its table is out of the publication is in neither snapshot nor
/// stream; the snapshot of another slot shows it.
#[tokio::test]
async fn a_table_that_leaves_the_publication_meanwhile_and_comes_back_loses_no_row() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 20_000).await;
    let line = line(&fixture, &["--backfill", "--rate", "5000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let run = fixture.router.start_command(&line).unwrap();
    wait_settled(&session, 5_000).await.unwrap();
    let take_out = format!("ALTER PUBLICATION {PUBLICATION} DROP TABLE outbox");
    session.batch_execute(&take_out).await.unwrap();
    write(&fixture, &session, 1).await;
    let put_back = format!("ALTER PUBLICATION {PUBLICATION} ADD TABLE outbox");
    session.batch_execute(&put_back).await.unwrap();
    let output = run.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("was altered in the publication while rows were divided"), "{said}");
    assert!(said.contains("P013") && said.contains("the same command goes on"), "{said}");

    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("goes on with run 1") && said.contains("witness: created"), "{said}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (missing, doubled) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!(missing, 0);
    assert!(doubled <= PAST_JOURNAL, "{doubled}");
}

/// Of a table that ALTER TABLE has rewritten an older snapshot shows no row. This one has no TOAST
/// table, which would be another one.
#[tokio::test]
async fn a_table_that_is_rewritten_before_its_rows_are_read_loses_none() {
    let (fixture, session) = prepared().await;
    let second = "CREATE TABLE second (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), \
                    aggregate_type varchar(40), aggregate_id varchar(40), event_type varchar(40), \
                    payload varchar(100), n int); \
                  INSERT INTO second (aggregate_type, aggregate_id, event_type, payload) \
                    SELECT 'x', n, 'Changed', '{}' FROM generate_series(1, 3) n";
    session.batch_execute(second).await.unwrap();
    session.batch_execute(&format!("GRANT SELECT ON second TO {ROLE}")).await.unwrap();
    let (config, topic) = (fixture.config.to_string(), fixture.topics.first().unwrap());
    let both = format!("{config}\n[[outbox]]\ntable = \"public.second\"\ntopic = \"{topic}\"\n");
    fixture.router.set_config(&both).unwrap();
    write(&fixture, &session, 10_000).await;
    let line = line(&fixture, &["--backfill", "--rate", "5000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let run = fixture.router.start_command(&line).unwrap();
    wait_settled(&session, 2_000).await.unwrap();
    session.batch_execute("ALTER TABLE second ALTER n TYPE bigint").await.unwrap();
    let output = run.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("P013") && said.contains("second was rewritten (ALTER TABLE"), "{said}");

    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(
        said.contains("goes on with run 1") && said.contains("3 rows of public.second"),
        "{said}"
    );
}

#[tokio::test]
async fn no_router_takes_the_slot_of_a_back_fill_that_is_not_complete() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 30_000).await;
    killed_at(&fixture, &session, 5_000).await;
    fixture.router.start_again().unwrap();
    let is_refused = |status: &Value| {
        status.pointer("/reason/code").and_then(Value::as_str) == Some("P013")
            && status.pointer("/reason/hint").and_then(Value::as_str).is_some_and(|hint| {
                hint.contains("outbox-router setup --apply --backfill --admin-url")
            })
    };
    fixture.router.wait_status("P013", LONG_DEADLINE, is_refused).await.unwrap();
    let (_, said) = typed(&fixture, &["doctor"]).await;
    assert!(said.contains("P013") && said.contains("a back-fill is not complete"), "{said}");

    // The router that waits takes the slot once it is complete, and not before.
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    fixture.wait_streaming().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (missing, _) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!(missing, 0);
    let (_, said) = typed(&fixture, &["doctor"]).await;
    assert!(!said.contains("P013"), "{said}");
}

#[tokio::test]
async fn a_router_that_moved_the_slot_ends_the_division_and_replay_sends_the_rest() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 30_000).await;
    killed_at(&fixture, &session, 5_000).await;
    // As where another role than the router's has made the table, and may not grant it.
    let revoke = format!("REVOKE SELECT ON outbox_router.republication FROM {ROLE}");
    session.batch_execute(&revoke).await.unwrap();
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    let (_, said) = typed(&fixture, &["doctor"]).await;
    assert!(said.contains("may not read outbox_router.republication"), "{said}");
    session.batch_execute(&revoke.replace("REVOKE", "GRANT").replace("FROM", "TO")).await.unwrap();
    let remedy = "outbox-router replay --table public.outbox --all --admin-url";
    let (_, said) = typed(&fixture, &["doctor"]).await;
    assert!(said.contains("P013") && said.contains(remedy), "{said}");
    for more in [&["--backfill"][..], &[]] {
        let (exit, said) = setup(&fixture, more).await;
        assert_eq!(exit, Some(1), "{said}");
        assert!(said.contains("P013") && said.contains(remedy), "{said}");
    }

    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let replay = ["replay", "--table", "public.outbox", "--all", "--yes", "--admin-url", &url];
    let (exit, said) = typed(&fixture, &replay).await;
    assert_eq!(exit, Some(0), "{said}");
    let end = "update outbox_router.republication set finished_at = now(), outcome = 'given up' \
               where id = 1";
    session.batch_execute(end).await.unwrap();
    fixture.restart().await.unwrap();
    let (missing, _) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!(missing, 0);
    let (_, said) = typed(&fixture, &["doctor"]).await;
    assert!(!said.contains("P013"), "{said}");
    let (exit, said) = setup(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{said}");
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
    let (exit, said) = setup(&fixture, &["--backfill", "--drop-slot"]).await;
    assert_eq!(exit, Some(0), "{said}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (missing, doubled) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!(missing, 0);
    assert!(doubled <= PAST_JOURNAL, "{doubled}");
}

/// An event whose row was written and deleted since is in this slot, and would be in no other.
#[tokio::test]
async fn a_slot_that_alone_has_an_event_is_not_dropped_and_the_hint_leads_to_all_rows() {
    let (mut fixture, session) = prepared().await;
    write(&fixture, &session, 30_000).await;
    killed_at(&fixture, &session, 5_000).await;
    let (aggregate_type, id) =
        (fixture.schema.types.first().unwrap(), "00000000-0000-4000-8000-000000000001");
    let brief = format!(
        "BEGIN; INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type) \
         VALUES ('{id}', '{aggregate_type}', 'key-1', 'Brief'); \
         DELETE FROM outbox WHERE id = '{id}'; COMMIT"
    );
    session.batch_execute(&brief).await.unwrap();
    let before = fixture.postgres.slot(SLOT).await.unwrap().unwrap();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P013") && said.contains("has rows to send"), "{said}");
    assert!(said.contains("setup --apply --backfill --drop-slot --admin-url"), "{said}");
    let after = fixture.postgres.slot(SLOT).await.unwrap().unwrap();
    assert_eq!(after.confirmed_flush_lsn, before.confirmed_flush_lsn);

    let start = said.find("update outbox_router.republication").unwrap();
    let end = said.find(", start the router").unwrap();
    session.batch_execute(&said[start..end]).await.unwrap();
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let seen = fixture.seen().await.unwrap();
    let is_brief = |(name, value): &(String, Option<Vec<u8>>)| {
        name == "id" && value.as_deref() == Some(id.as_bytes())
    };
    assert!(seen.iter().any(|record| record.headers.iter().any(is_brief)), "the deleted event");
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let replay = ["replay", "--table", "public.outbox", "--all", "--yes", "--admin-url", &url];
    let (exit, said) = typed(&fixture, &replay).await;
    assert_eq!(exit, Some(0), "{said}");
    let (missing, _) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!(missing, 0);
}

/// By the place in one order nothing is known of the rows before it in another.
#[tokio::test]
async fn a_back_fill_that_reads_its_table_in_another_order_than_before_sends_all_of_it() {
    let (fixture, session) = prepared().await;
    write(&fixture, &session, 30_000).await;
    let other = "ALTER TABLE outbox ADD made_at timestamptz; \
                 UPDATE outbox SET made_at = created_at - interval '1 year'";
    session.batch_execute(other).await.unwrap();
    killed_at(&fixture, &session, 10_000).await;
    let config = fixture.config.to_string();
    let table = "table = \"public.outbox\"";
    assert!(config.contains(table), "{config}");
    let timed = format!("{table}\ntimestamp = \"column\"\ncolumns.timestamp = \"made_at\"");
    fixture.router.set_config(&config.replacen(table, &timed, 1)).unwrap();
    let (exit, said) = setup(&fixture, &["--backfill"]).await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("goes on with run 1"), "{said}");
    assert!(said.contains("30000 rows of public.outbox"), "{said}");
    let (missing, _) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!(missing, 0);
}

/// A broker whose disk is put back to a copy from before the run knows no producer of it, and takes
/// its next records as if it had those before.
#[tokio::test]
async fn a_back_fill_begins_again_where_kafka_was_taken_back_meanwhile() {
    let builder = Fixture::builder().own_kafka(KafkaOptions::default());
    let mut fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.execute("SELECT pg_drop_replication_slot($1)", &[&SLOT]).await.unwrap();
    write(&fixture, &session, 600).await;
    let line = line(&fixture, &["--backfill", "--rate", "20"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let (exit, said) = fixture.taken_back_during(&line, 30).await.unwrap();
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("Kafka was taken back") || said.contains("K014"), "{said}");
    // Such a broker may give a producer the id of a former one, whose sequence numbers it has.
    let mut again = setup(&fixture, &["--backfill", "--drop-slot"]).await;
    for _ in 0..4 {
        if again.0 == Some(0) {
            break;
        }
        assert!(again.1.contains("error: K0"), "{}", again.1);
        again = setup(&fixture, &["--backfill", "--drop-slot"]).await;
    }
    let (exit, said) = again;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("goes on with run 1"), "{said}");
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap().0, 0);
}
