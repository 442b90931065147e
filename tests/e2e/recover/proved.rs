//! What counts as delivered: no time, no zone, no copy, and no decision about another row.

use e2e::{Fixture, SHORT_DEADLINE, SLOT};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::wait::eventually;

use super::{drop_slot, line, recover, streaming, write};

#[tokio::test]
async fn neither_the_zone_nor_the_time_of_a_writer_hides_a_missing_row() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let unzoned = format!(
        "ALTER TABLE outbox ALTER created_at TYPE timestamp; \
         CREATE INDEX ON outbox (created_at); \
         ALTER DATABASE {DATABASE} SET timezone = 'America/New_York'"
    );
    session.batch_execute(&unzoned).await.unwrap();
    let writer = fixture.session().await.unwrap();
    fixture.start_accepted().await.unwrap();
    write(&fixture, &writer, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &writer, 10).await;
    let past = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, created_at) \
         SELECT aggregate_type, 'past', 'Changed', '1999-01-01' FROM outbox LIMIT 5";
    writer.batch_execute(past).await.unwrap();
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 15, "{answer:#}{said}");
    // The next loss comes before the next event: the gap begins at no known time.
    drop_slot(&session).await;
    write(&fixture, &writer, 3).await;
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 3, "{answer:#}{said}");
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!((exit, &answer["gaps"]), (Some(0), &serde_json::json!([])), "{said}");
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
    // What a person leaves out is named, so that retention keeps it.
    drop_slot(&session).await;
    let bad = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
         VALUES ('no such/topic', 'key', 'Changed') RETURNING id::text";
    let id: String = writer.query_one(bad, &[]).await.unwrap().get(0);
    for on_error in ["halt", "dead_letter"] {
        let set = ["--set", &format!("on_error.unroutable={on_error}")];
        let (exit, answer, said) = recover(&fixture, &set).await;
        assert_eq!(exit, Some(1), "{answer:#}{said}");
        assert!(said.contains("R003") && said.contains("--skip-bad"), "{said}");
        // The command stops there by either setting.
        assert!(!said.contains("[on_error]"), "{said}");
    }
    let (exit, answer, said) = recover(&fixture, &["--skip-bad"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    let kept = "SELECT event_id, code FROM outbox_router.left_out \
         WHERE table_oid = 'outbox'::regclass AND pipeline IS NOT NULL";
    let kept = session.query_one(kept, &[]).await.unwrap();
    assert_eq!(
        (kept.get::<_, String>(0), kept.get::<_, String>(1)),
        (id.clone(), "R003".to_owned())
    );
    // The witness has that rows were left out, whatever becomes of the table.
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let delete = ["--set", "retention.mode=delete", "--set", "retention.keep=0s"];
    let line = [&["cleanup", "--yes", "--older", "--admin-url", &url][..], &delete].concat();
    let cleaned = fixture.router.command(&line).await.unwrap();
    assert_eq!(cleaned.status.code(), Some(0), "{}", String::from_utf8_lossy(&cleaned.stderr));
    let left = async || -> String {
        session.query_one("SELECT string_agg(id::text, ' ') FROM outbox", &[]).await.unwrap().get(0)
    };
    assert_eq!(left().await, id);
    session.batch_execute("DROP TABLE outbox_router.left_out").await.unwrap();
    let gone = "the table outbox_router.left_out does not exist";
    let cleaned = fixture.router.command(&line).await.unwrap();
    let said = String::from_utf8_lossy(&cleaned.stderr);
    assert_eq!(cleaned.status.code(), Some(1), "{said}");
    assert!(said.contains("P038") && said.contains(gone), "{said}");
    drop_slot(&session).await;
    let (exit, answer, said) = recover(&fixture, &["--skip-bad"]).await;
    assert_eq!(exit, Some(1), "no other table is made in its place: {answer:#}{said}");
    assert!(said.contains(gone), "{said}");
    assert_eq!(left().await, id);
}

#[tokio::test]
async fn neither_a_copy_nor_a_skip_of_another_table_stands_for_a_missing_row() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let tables = ["setup", "--apply", "--dead-letters", "--admin-url", &url];
    let made = fixture.router.command(&tables).await.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    write(&fixture, &session, 5).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 12).await;
    let ids = "SELECT id::text FROM outbox ORDER BY created_at DESC, id LIMIT 12";
    let ids: Vec<String> =
        session.query(ids, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", fixture.kafka.bootstrap()).create().unwrap();
    let own = fixture.topics.first().unwrap();
    // The template could make this name, of another row.
    let other = &format!("{own}-for-audit");
    fixture.kafka.create_topic(other, 1, &[]).await.unwrap();
    let copy = |topic: &str, id: &str, marker: Option<&str>| {
        let mut headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(id) });
        if let Some(marker) = marker {
            headers = headers.insert(Header { key: marker, value: Some("1") });
        }
        let record = BaseRecord::<str, str>::to(topic).key("key").payload("{}").headers(headers);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    };
    ids[..3].iter().for_each(|id| copy(other, id, None));
    ids[3..6].iter().for_each(|id| copy(own, id, Some("outbox_replay")));
    // It is there, unless a former row had the id.
    copy(own, &ids[6], None);
    producer.flush(SHORT_DEADLINE).unwrap();
    let skip = "INSERT INTO outbox_router.decision \
         (pipeline, slot, commit_lsn, event_id, action, table_name, system_id) \
         SELECT $4, $1, pg_current_wal_lsn(), $2, 'skip', $3, system_identifier::text \
         FROM pg_control_system()";
    let pipeline = "outbox-router";
    let tables = [None, Some("public.b"), Some("public.outbox")];
    for (id, table) in ids[7..].iter().zip(tables) {
        session.execute(skip, &[&SLOT, id, &table, &pipeline]).await.unwrap();
    }
    session.batch_execute("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey").await.unwrap();
    let (exit, _, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("no unique index of public.outbox is on its id alone"), "{said}");
    assert!(said.contains("recover --ids-unique"), "{said}");
    let decided = async |fixture: &Fixture, more: &[&str]| {
        let dry = recover(fixture, &[&["--all", "--dry-run"], more].concat()).await;
        ["decided", "decided_sent"].map(|figure| dry.1["tables"][0][figure].as_u64())
    };
    // The skip may have been of another row with that id, which is deleted by now.
    assert_eq!(decided(&fixture, &[]).await, [Some(0), Some(1)]);
    assert_eq!(decided(&fixture, &["--ids-unique"]).await, [Some(1), Some(0)]);
    session.batch_execute("ALTER TABLE outbox ADD PRIMARY KEY (id)").await.unwrap();
    // An index does not reach over deleted rows, and a skip has the id alone.
    assert_eq!(decided(&fixture, &[]).await, [Some(0), Some(1)]);
    let (exit, _, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("with another record in their topic under the same id"), "{said}");
    let (exit, answer, said) = recover(&fixture, &["--ids-unique"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    let table = &answer["tables"][0];
    let figures = ["missing", "elsewhere", "differing", "decided", "sent"];
    let found = figures.map(|figure| table[figure].as_u64());
    assert_eq!(found, [11, 3, 1, 1, 10].map(Some), "{answer:#}{said}");
    assert_eq!(answer["closed"], true, "{answer:#}");
}

/// A walsender that waits for open transactions does not notice that its client is gone.
#[tokio::test]
async fn a_dead_run_that_still_makes_the_slot_is_ended_and_the_gap_is_closed() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 7).await;
    let open = fixture.session().await.unwrap();
    open.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    let line = line(&fixture, &[]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let mut run = fixture.router.start_command(&line).unwrap();
    let holder = "SELECT active_pid FROM pg_replication_slots \
         WHERE slot_name = $1 AND active_pid IS NOT NULL";
    let dead: i32 = eventually(SHORT_DEADLINE, "the slot is being made", async || {
        Ok(session.query_opt(holder, &[&SLOT]).await?.map(|row| row.get(0)))
    })
    .await
    .unwrap();
    run.kill().await.unwrap();
    // It makes the slot itself, and waits for the same transaction.
    let second = fixture.router.start_command(&line).unwrap();
    eventually(SHORT_DEADLINE, "the slot is being made by the second run", async || {
        let row = session.query_opt(holder, &[&SLOT]).await?;
        Ok(row.filter(|row| row.get::<_, i32>(0) != dead).map(drop))
    })
    .await
    .unwrap();
    open.batch_execute("COMMIT").await.unwrap();
    let output = second.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{answer}{said}");
    assert!(answer.contains("\"closed\": true"), "{answer}{said}");
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap().0, 0);
}
