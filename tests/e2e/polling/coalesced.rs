//! Outboxes with one row for each aggregate, which is overwritten while the worker reads, sends and
//! marks it: the last version of each key always arrives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use e2e::Fixture;
use serde_json::Value;
use testbed::postgres::DatabaseSession;
use testbed::reader::read_all;
use testbed::wait::eventually;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{DEADLINE, drop_slot, polling, set_up, wait_polling};

/// The tables, each named by its mark, with what makes a row of it pending again.
const TABLES: [(&str, &str); 3] = [
    ("marked_by_time", ", published_at = null"),
    ("claimed", ", status = 'PENDING'"),
    ("deleted", ""),
];

const CREATE: &str = "\
    create table row_of_key (id uuid primary key default gen_random_uuid(), \
      aggregate_type text not null, aggregate_id text not null unique, event_type text not null, \
      payload jsonb, created_at timestamptz not null default now(), \
      n bigint generated always as identity); \
    create table marked_by_time (like row_of_key including all, published_at timestamptz); \
    create table claimed (like row_of_key including all, \
      status text not null default 'PENDING', locked_by text, locked_until timestamptz, \
      published_at timestamptz); \
    create table deleted (like row_of_key including all); \
    create table version (of_table text, key text, v int not null default 0, \
      primary key (of_table, key))";

const KEYS: i32 = 20;
const WRITERS: usize = 4;
const THINK: Duration = Duration::from_millis(2);
/// So many rows of each table are changed while they are sent, before the writers stop.
const CHANGED: f64 = 5.0;

const COUNTER: &str = "outbox_polling_rows_changed_total";

/// A worker of the three tables.
async fn started() -> (Fixture, DatabaseSession) {
    let builder = polling().without_topics().set("kafka.create_topics.partitions", 3);
    let mut fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    drop_slot(&session).await;
    session.batch_execute(CREATE).await.unwrap();
    fixture.config.set_outbox("table", "public.marked_by_time");
    let mut config = fixture.config.to_string();
    for (table, _) in &TABLES[1..] {
        let topic = &fixture.mapping.topic_prefix;
        config += &format!(
            "\n[[outbox]]\ntable = \"public.{table}\"\norder_by = [\"n\"]\n\
             topic = \"{topic}${{aggregate_type}}\"\n"
        );
    }
    config += "mark.how = \"delete\"\n";
    fixture.router.set_config(&config).unwrap();
    for (table, _) in TABLES {
        let fill = format!(
            "insert into version (of_table, key) \
             select '{table}', 'key-' || k from generate_series(1, {KEYS}) k"
        );
        session.batch_execute(&fill).await.unwrap();
    }
    set_up(&fixture, &[]).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    (fixture, session)
}

/// Overwrites rows until it is told to stop. The lock of the version gives the versions of a key
/// the order of their commits.
async fn write(
    session: DatabaseSession,
    number: usize,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let statements: Vec<String> = TABLES
        .iter()
        .map(|(table, again)| {
            format!(
                "with next as (update version set v = v + 1 \
                   where of_table = '{table}' and key = $1 returning v) \
                 insert into {table} as t (aggregate_type, aggregate_id, event_type, payload) \
                   select '{table}', $1, 'Changed', jsonb_build_object('v', v) from next \
                 on conflict (aggregate_id) do update set payload = excluded.payload{again}"
            )
        })
        .collect();
    for turn in number.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // Each goes through the keys in an order of its own.
        let key = i32::try_from(turn * (2 * number + 1))? % KEYS + 1;
        for statement in &statements {
            session.execute(statement, &[&format!("key-{key}")]).await.context(turn)?;
        }
        sleep(THINK).await;
    }
    Ok(())
}

/// The version that a query, or the last record, has of each table and key.
type Versions = BTreeMap<(String, String), i64>;

async fn committed(session: &DatabaseSession) -> Versions {
    let query = "select of_table, key, v::bigint from version where v > 0";
    let rows = session.query(query, &[]).await.unwrap();
    rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect()
}

/// By the last records; a version that comes behind a later one is a failure.
async fn delivered(fixture: &Fixture) -> anyhow::Result<Versions> {
    let topics = TABLES.map(|(table, _)| format!("{}{table}", fixture.mapping.topic_prefix));
    let mut last = Versions::new();
    for (topic, (table, _)) in topics.iter().zip(TABLES) {
        for record in read_all(&fixture.kafka.bootstrap(), &[topic]).await? {
            let key = String::from_utf8(record.key.context("a key")?)?;
            let value: Value = serde_json::from_slice(&record.value.context("a value")?)?;
            let version = value.get("v").and_then(Value::as_i64).context("a version")?;
            let before = last.insert((table.to_owned(), key.clone()), version);
            assert!(before <= Some(version), "{table} {key}: {version} behind {before:?}");
        }
    }
    Ok(last)
}

#[tokio::test]
async fn the_last_version_of_each_key_arrives_whatever_the_mark_is() {
    let (fixture, session) = started().await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let session = fixture.session().await.unwrap();
        writers.spawn(write(session, number, Arc::clone(&stop)));
    }
    for (table, _) in TABLES {
        eventually(DEADLINE, format!("changed rows of {table}"), async || {
            let changed = fixture.router.metric(COUNTER, table).await?;
            Ok((changed >= Some(CHANGED)).then_some(()))
        })
        .await
        .unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for written in writers.join_all().await {
        written.unwrap();
    }
    let wanted = committed(&session).await;
    assert_eq!(wanted.len(), TABLES.len() * usize::try_from(KEYS).unwrap());
    let pending = "select (select count(*) from marked_by_time where published_at is null) \
        + (select count(*) from claimed where status <> 'PUBLISHED') \
        + (select count(*) from deleted)";
    eventually(DEADLINE, "no row is pending", async || {
        Ok((session.query_one(pending, &[]).await?.get::<_, i64>(0) == 0).then_some(()))
    })
    .await
    .unwrap();
    // A row is marked when it is in Kafka.
    assert_eq!(delivered(&fixture).await.unwrap(), wanted);
    let log = fixture.router.log();
    for (table, _) in TABLES {
        let is_said = |line: &&str| {
            line.contains("rows were changed while they were sent")
                && line.contains(&format!("public.{table}"))
        };
        assert_eq!(log.lines().filter(is_said).count(), 1, "{table}:\n{log}");
    }
}
