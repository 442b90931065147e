//! `run --dry-run` and `explain --id`: what they print is what the router then produces.

mod same_record;

use std::collections::BTreeMap;

use e2e::{Fixture, SHORT_DEADLINE, SLOT};
use serde_json::{Value, json};
use testbed::load::Backlog;
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::reader::{ConsumedRecord, read_all};

const EVENTS: u64 = 300;

/// A fixture whose slot has events that no router has read.
async fn behind() -> Fixture {
    let fixture = Fixture::builder()
        .set_outbox("where.column", "event_type")
        .set_outbox("where.not_in", json!(["Filtered"]))
        .prepare()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    let size = Backlog {
        transactions: EVENTS / 10,
        rows_per_transaction: 10,
        payload_bytes: 40,
        first: 0,
    };
    testbed::load::backlog(&session, &fixture.schema, size).await.unwrap();
    fixture
}

async fn insert(fixture: &Fixture, aggregate_type: &str, event_type: &str, headers: Option<&str>) {
    let session = fixture.session().await.unwrap();
    let sql = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
               VALUES ($1, 'a', $2, '{}', $3::text::jsonb)";
    session.execute(sql, &[&aggregate_type, &event_type, &headers]).await.unwrap();
}

/// Runs the dry run, and returns its exit code, its lines and what it says beside them.
async fn dry_run(fixture: &Fixture, arguments: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let mut command = vec!["run", "--dry-run", "--json"];
    command.extend(arguments);
    let output = fixture.router.command(&command).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code(), lines, errors)
}

fn text(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| String::from_utf8(bytes.to_vec()).unwrap().into())
}

/// A record of Kafka as the dry run prints it, its position in the WAL left out.
fn as_printed(record: &ConsumedRecord) -> Value {
    let header = |(name, value): &(String, Option<Vec<u8>>)| json!({ "name": name, "value": text(value.as_deref()) });
    json!({
        "topic": &*record.topic,
        "partition": record.partition,
        "key": text(record.key.as_deref()),
        "value": text(record.value.as_deref()),
        "headers": record.headers.iter().map(header).collect::<Vec<_>>(),
        "timestamp_ms": record.timestamp,
    })
}

/// The records of each partition, in their order.
fn by_partition(records: impl IntoIterator<Item = Value>) -> BTreeMap<String, Vec<Value>> {
    let mut all = BTreeMap::<String, Vec<Value>>::new();
    for record in records {
        let partition = format!("{:?}-{:?}", record.get("topic"), record.get("partition"));
        all.entry(partition).or_default().push(record);
    }
    all
}

fn without_lsn(mut line: Value) -> Value {
    line.as_object_mut().unwrap().remove("commit_lsn").unwrap();
    line
}

#[tokio::test]
async fn what_is_printed_is_what_the_router_then_produces_and_the_slot_stays() {
    let mut fixture = behind().await;
    let [aggregate_type] = fixture.schema.types.as_slice() else { panic!("one type") };
    insert(&fixture, aggregate_type, "Filtered", None).await;
    insert(&fixture, aggregate_type, "Last", Some(r#"{"tenant": "ä"}"#)).await;
    let before = fixture.postgres.slot(SLOT).await.unwrap().unwrap();
    let (exit, lines, errors) = dry_run(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{errors}");
    assert!(
        errors.starts_with(
            "records: 301, filtered by `where`: 1, refused: 0, topics that cannot be used: 0; "
        ),
        "{errors}"
    );
    let after = fixture.postgres.slot(SLOT).await.unwrap().unwrap();
    assert_eq!(after.confirmed_flush_lsn, before.confirmed_flush_lsn);
    let session = fixture.session().await.unwrap();
    let slots = session.query("SELECT slot_name FROM pg_replication_slots", &[]).await.unwrap();
    assert_eq!(slots.len(), 1, "the copy is dropped");
    assert_eq!(fixture.seen().await.unwrap(), [], "nothing is produced");
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let topics: Vec<&str> = fixture.topics.iter().map(String::as_str).collect();
    let produced = read_all(&fixture.kafka.bootstrap(), &topics).await.unwrap();
    let printed = by_partition(lines.into_iter().map(without_lsn));
    assert_eq!(printed, by_partition(produced.iter().map(as_printed)));
}

#[tokio::test]
async fn it_follows_until_so_many_records_are_printed() {
    let fixture = behind().await;
    let (exit, lines, errors) = dry_run(&fixture, &["--records", "7"]).await;
    assert_eq!((exit, lines.len()), (Some(0), 7), "{errors}");
    let more = async {
        // The slot has no more yet: the rest comes while it waits.
        insert(&fixture, &fixture.schema.types[0], "Later", None).await;
    };
    let wanted = (EVENTS + 1).to_string();
    let arguments = ["--records", wanted.as_str()];
    let ((exit, lines, errors), ()) = tokio::join!(dry_run(&fixture, &arguments), more);
    assert_eq!((exit, lines.len()), (Some(0), 301), "{errors}");
}

#[tokio::test]
async fn a_refused_row_and_a_missing_topic_are_named_and_do_not_end_it() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    let aggregate_type = fixture.schema.types[0].clone();
    insert(&fixture, "no such topic", "A", None).await;
    insert(&fixture, "missing", "B", None).await;
    insert(&fixture, &aggregate_type, "C", Some("[]")).await;
    insert(&fixture, &aggregate_type, "D", None).await;
    let (exit, lines, errors) = dry_run(&fixture, &[]).await;
    assert_eq!((exit, lines.len()), (Some(1), 4), "{errors}");
    assert_eq!(lines[0]["refused"]["code"], "R003", "{:#}", lines[0]);
    assert_eq!((&lines[1]["partition"], &lines[1]["key"]), (&Value::Null, &json!("a")));
    assert!(errors.contains("K010") && errors.contains("missing does not exist"), "{errors}");
    assert_eq!(lines[2]["refused"]["code"], "R009", "{:#}", lines[2]);
    assert!(lines[2]["refused"]["hint"].is_string() && lines[2]["id"].is_string());
    assert!(lines[3]["partition"].is_i64(), "{:#}", lines[3]);
}

#[tokio::test]
async fn a_missing_topic_alone_gives_exit_code_1() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    insert(&fixture, "missing", "A", None).await;
    let (exit, lines, errors) = dry_run(&fixture, &[]).await;
    assert_eq!((exit, lines.len()), (Some(1), 1), "{errors}");
    assert!(errors.contains("refused: 0, topics that cannot be used: 1; "), "{errors}");
}

/// Nobody knows yet with how many partitions: the broker's num.partitions.
#[tokio::test]
async fn a_topic_that_the_router_would_create_by_the_brokers_default_refuses_no_row() {
    let fixture = Fixture::builder()
        .set("kafka.create_topics.replication_factor", 1)
        .prepare()
        .await
        .unwrap();
    let more = "extra_headers = [{ name = 'kind', column = 'event_type' }]";
    fixture.router.set_config(&format!("{}\n{more}\n", fixture.config)).unwrap();
    insert(&fixture, "missing", "A", None).await;
    let (exit, lines, errors) = dry_run(&fixture, &[]).await;
    assert_eq!((exit, lines.len()), (Some(0), 1), "{lines:?}: {errors}");
    assert_eq!((&lines[0]["partition"], &lines[0]["key"]), (&Value::Null, &json!("a")));
    let note = "missing does not exist; run would create it, with the broker's num.partitions";
    assert!(errors.contains(note), "{errors}");
    let session = fixture.session().await.unwrap();
    let id: String = session.query_one("SELECT id::text FROM outbox", &[]).await.unwrap().get(0);
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let arguments = ["--id", &id, "--admin-url", admin.as_str()];
    let (exit, answer, errors) = explain(&fixture, &arguments).await;
    assert_eq!((exit, &answer["partition"]["number"]), (Some(0), &Value::Null), "{errors}");
}

/// Runs `explain`, and returns its exit code, its answer and what it says beside that.
async fn explain(fixture: &Fixture, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = vec!["explain", "--json"];
    command.extend(arguments);
    let output = fixture.router.command(&command).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), answer, errors)
}

/// A record of Kafka as `explain` shows it, as far as both know it.
fn as_explained(record: &ConsumedRecord) -> Value {
    let mut shown = as_printed(record);
    let members = shown.as_object_mut().unwrap();
    members.insert("value".into(), record.value.as_ref().map(Vec::len).into());
    shown
}

/// An answer of `explain` without the sources.
fn explained_record(answer: &Value) -> Value {
    let of = |path: &str| answer.pointer(path).cloned().unwrap();
    let mut headers = of("/headers");
    for header in headers.as_array_mut().unwrap() {
        header.as_object_mut().unwrap().remove("source");
    }
    json!({
        "topic": of("/topic/name"),
        "partition": of("/partition/number"),
        "key": of("/key/value"),
        "value": of("/value/bytes"),
        "headers": headers,
        "timestamp_ms": of("/timestamp/milliseconds"),
    })
}

#[tokio::test]
async fn a_row_is_explained_as_the_router_has_put_it_into_kafka() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    // The last section of the file is that of the table.
    let more = "timestamp = 'column'\ncolumns.timestamp = 'due'\n\
                extra_headers = [{ name = 'on', column = 'urgent' }, \
                { name = 'at', column = 'due' }, { name = 'raw', column = 'raw' }]";
    fixture.router.set_config(&format!("{}\n{more}\n", fixture.config)).unwrap();
    let session = fixture.session().await.unwrap();
    session
        .batch_execute(
            "CREATE DOMAIN moment AS timestamptz(0); \
             ALTER TABLE outbox ADD COLUMN urgent bool, ADD COLUMN due moment, \
             ADD COLUMN raw bytea, ADD COLUMN dropped int, \
             ADD COLUMN twice text GENERATED ALWAYS AS (aggregate_id || aggregate_id) STORED; \
             ALTER TABLE outbox DROP COLUMN dropped",
        )
        .await
        .unwrap();
    let sql = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers, \
               urgent, due, raw) SELECT $1, 'key-' || n, 'Made', jsonb_build_object('n', n, \
               'total', 1.50), '{\"tenant\": \"acme\"}', true, '2026-07-01 12:00+02', '\\x00ff' \
               FROM generate_series(1, 5) n RETURNING id::text, to_jsonb(outbox)::text";
    let aggregate_type = fixture.schema.types[0].clone();
    session.batch_execute("SET TimeZone = 'Asia/Kolkata'").await.unwrap();
    let rows = session.query(sql, &[&aggregate_type]).await.unwrap();
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let topics: Vec<&str> = fixture.topics.iter().map(String::as_str).collect();
    let produced = read_all(&fixture.kafka.bootstrap(), &topics).await.unwrap();
    assert_eq!(produced.len(), rows.len());
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    for row in &rows {
        let (id, json): (String, String) = (row.get(0), row.get(1));
        let record = produced.iter().find(|record| record.headers[0].1 == Some(id.clone().into()));
        let record = as_explained(record.unwrap());
        let (exit, answer, errors) =
            explain(&fixture, &["--id", &id, "--admin-url", admin.as_str()]).await;
        assert_eq!(exit, Some(0), "{errors}");
        assert_eq!(explained_record(&answer), record, "{answer:#}");
        // The same row, without PostgreSQL: only the types that JSON does not tell are given. The
        // session's time zone is another than that of the stream.
        let typed = ["--row", &json, "--partitions", "3", "--type", "due=timestamptz"];
        let typed = [typed.as_slice(), &["--type", "raw=bytea", "--type", "id=uuid"]].concat();
        let (exit, answer, errors) = explain(&fixture, &typed).await;
        assert_eq!(exit, Some(0), "{errors}");
        assert_eq!(explained_record(&answer), record, "{answer:#}");
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_no_answer() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    let aggregate_type = fixture.schema.types[0].clone();
    insert(&fixture, &aggregate_type, "A", None).await;
    insert(&fixture, "missing", "B", None).await;
    let session = fixture.session().await.unwrap();
    let ids = session.query("SELECT id::text FROM outbox ORDER BY event_type", &[]).await.unwrap();
    let ids: Vec<String> = ids.iter().map(|row| row.get(0)).collect();
    // The router's own role may not read the table.
    let (exit, _, errors) = explain(&fixture, &["--id", &ids[0]]).await;
    assert_eq!(exit, Some(1), "{errors}");
    assert!(errors.contains("P002") && errors.contains("--admin-url"), "{errors}");
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let of = |id: &str| {
        let arguments = ["--id".to_owned(), id.to_owned(), "--admin-url".into(), admin.clone()];
        let fixture = &fixture;
        async move { explain(fixture, &arguments.each_ref().map(String::as_str)).await }
    };
    let (exit, answer, errors) = of(&ids[1]).await;
    assert_eq!((exit, &answer["partition"]["number"]), (Some(1), &Value::Null), "{errors}");
    assert!(errors.contains("K010") && answer["partition"]["hash"].is_i64(), "{errors}");
    let (exit, _, errors) = of("00000000-0000-0000-0000-000000000000").await;
    assert_eq!(exit, Some(1));
    assert!(errors.contains("public.outbox has no row whose id is 00000000"), "{errors}");
    let (exit, _, errors) = of("no uuid").await;
    assert_eq!(exit, Some(1));
    assert!(errors.contains("P008"), "{errors}");
    session.batch_execute("ALTER TABLE outbox RENAME TO gone").await.unwrap();
    let (exit, _, errors) = of(&ids[0]).await;
    assert_eq!(exit, Some(1));
    assert!(errors.contains("P028"), "{errors}");
}
