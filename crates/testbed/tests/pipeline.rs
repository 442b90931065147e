//! The whole testbed without the product: writers, a commit tracker, a minimal relay over another
//! output plugin, a proxy, Kafka, readers and the checker. The minimal relay is correct, so the
//! checker must find no anomaly here; what it finds with the product is the product's.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "functions of a test fail by panicking, as the test itself does"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use testbed::checker::{CheckOptions, check, confirmed_ahead};
use testbed::commit_tracker::CommitTracker;
use testbed::kafka::{KafkaCluster, KafkaOptions};
use testbed::load::{
    Backlog, Load, Partitioning, PayloadBytes, Preset, Schema, backlog, big_transaction,
};
use testbed::postgres::{
    self, DatabaseSession, PostgresOptions, PostgresServer, SUPERUSER, create_slot,
};
use testbed::proxy::{Proxy, ProxyMode};
use testbed::reader::{Follower, read_all};
use testbed::truth::{Format, Mapping, Truth};
use testbed::wait::eventually;

const SOON: Duration = Duration::from_secs(60);

/// Rows inserted into the outbox as `test_decoding` prints them, in commit order.
async fn decoded(
    session: &DatabaseSession,
    slot: &str,
    table: &str,
) -> Vec<BTreeMap<String, String>> {
    let prefix = format!("table {table}");
    let rows = session
        .query(
            "SELECT data FROM pg_logical_slot_get_changes($1::text::name, NULL, NULL) \
             WHERE data LIKE $2 || '%: INSERT: %'",
            &[&slot, &prefix],
        )
        .await
        .unwrap();
    rows.iter()
        .map(|row| columns(row.get::<_, &str>(0).split_once(": INSERT: ").unwrap().1))
        .collect()
}

/// `name[type]:'quoted'` or `name[type]:bare`, separated by blanks; nulls are left out.
fn columns(mut text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    while let Some((name, rest)) = text.split_once('[') {
        let (_, rest) = rest.split_once("]:").unwrap();
        let (value, rest) = match rest.strip_prefix('\'') {
            Some(quoted) => {
                let bytes = quoted.as_bytes();
                let mut end = 0;
                while bytes[end] != b'\'' || bytes.get(end + 1) == Some(&b'\'') {
                    end += if bytes[end] == b'\'' { 2 } else { 1 };
                }
                (Some(quoted[..end].replace("''", "'")), &quoted[end + 1..])
            }
            None => {
                let (bare, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                ((bare != "null").then(|| bare.to_owned()), rest)
            }
        };
        found.extend(value.map(|value| (name.trim().to_owned(), value)));
        text = rest;
    }
    found
}

/// A relay in its simplest form: everything is produced in order, then flushed; what did not arrive
/// is for the checker to find.
async fn relay(bootstrap: &str, rows: &[BTreeMap<String, String>], names: [&'static str; 3]) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .set("partitioner", "murmur2_random")
        .create()
        .unwrap();
    let rows = rows.to_vec();
    let produce = move || {
        rows.iter().for_each(|row| produce(&producer, row, names));
        producer.flush(SOON).unwrap();
    };
    tokio::task::spawn_blocking(produce).await.unwrap();
}

fn produce(producer: &BaseProducer, row: &BTreeMap<String, String>, names: [&str; 3]) {
    let [aggregate_type, aggregate_id, event_type] = names;
    let topic = format!("outbox.event.{}", row[aggregate_type]);
    let mut headers = OwnedHeaders::new()
        .insert(Header { key: "id", value: Some(&row["id"]) })
        .insert(Header { key: "type", value: Some(&row[event_type]) });
    if let Some(own) = row.get("headers") {
        let own: BTreeMap<String, String> = serde_json::from_str(own).unwrap();
        for (name, value) in &own {
            headers = headers.insert(Header { key: name, value: Some(value) });
        }
    }
    let record =
        BaseRecord::to(&topic).key(&row[aggregate_id]).payload(&row["payload"]).headers(headers);
    producer.send(record).map_err(|(error, _)| error).unwrap();
}

#[tokio::test]
async fn a_correct_relay_has_no_anomaly_although_the_server_is_killed_under_load() {
    let mut postgres = PostgresServer::start(PostgresOptions::version(15)).await.unwrap();
    let kafka = KafkaCluster::start(KafkaOptions::default()).await.unwrap();
    for topic in ["outbox.event.order", "outbox.event.invoice"] {
        kafka.create_topic(topic, 3, &[]).await.unwrap();
    }
    let schema = Schema::new(Preset::Default).types(&["order", "invoice"]).aggregates(20);
    let schema = schema.partitioned(Partitioning::Hash);
    let session = postgres.connect().await.unwrap();
    schema.create(&session).await.unwrap();
    create_slot(&session, "relay", "test_decoding").await.unwrap();
    let mut tracker = CommitTracker::create(&session, "commits").await.unwrap();

    let load = Load { writers: 6, payload: PayloadBytes { min: 1, max: 2000 }, ..Load::default() };
    let running = load.start(&postgres.url(SUPERUSER, postgres::DATABASE), &schema);
    let committed = async |more: u64| {
        let wanted = running.committed() + more;
        eventually(SOON, "committed events", async || {
            Ok((running.committed() >= wanted).then_some(()))
        })
        .await
        .unwrap();
    };
    committed(300).await;
    postgres.kill9().await.unwrap();
    postgres.start_again().await.unwrap();
    committed(300).await;
    let session = postgres.connect().await.unwrap();
    let big = big_transaction(&session, &schema, 2000, 50).await.unwrap();
    assert_eq!(big, 2000);
    let journal = running.stop().await.unwrap();
    assert!(journal.failures > 0, "no writer noticed the kill");
    assert!(journal.rolled_back.len() > 20, "too few events were rolled back");

    let truth = Truth::from_committed(&session, &Mapping::default())
        .await
        .unwrap()
        .rolled_back(journal.rolled_back);
    tracker.drain(&session).await.unwrap();
    let rows = decoded(&session, "relay", "public.outbox").await;
    relay(&kafka.bootstrap(), &rows, ["aggregate_type", "aggregate_id", "event_type"]).await;

    let mut seen = read_all(&kafka.bootstrap(), &["outbox.event.order", "outbox.event.invoice"])
        .await
        .unwrap();
    let result = check(&truth, &seen, &CheckOptions::default()).clean().unwrap();
    assert_eq!((result.in_kafka, result.duplicates), (rows.len(), 0));
    assert!(result.sent >= usize::try_from(journal.committed + big).unwrap());

    let now = postgres.current_wal_lsn().await.unwrap();
    assert_eq!(confirmed_ahead(&truth, tracker.commits(), now, &seen).unwrap().len(), 0);
    seen.pop();
    assert_eq!(confirmed_ahead(&truth, tracker.commits(), now, &seen).unwrap().len(), 1);
    assert_eq!(check(&truth, &seen, &CheckOptions::default()).lost.count(), 1);
}

#[tokio::test]
async fn a_follower_reads_the_records_that_the_proxy_forwards() {
    let proxy = Proxy::start("127.0.0.1:1").unwrap();
    let options = KafkaOptions::default().advertise(proxy.address());
    let mut kafka = KafkaCluster::start(options).await.unwrap();
    proxy.set_target(kafka.broker(1).unwrap().proxied_address().unwrap());
    kafka.create_topic("outbox.event.order", 2, &[]).await.unwrap();
    let postgres = PostgresServer::start(PostgresOptions::version(15)).await.unwrap();
    let session = postgres.connect().await.unwrap();
    let schema = Schema::new(Preset::Debezium).aggregates(7);
    schema.create(&session).await.unwrap();
    create_slot(&session, "relay", "test_decoding").await.unwrap();

    let load = Load { writers: 2, events: Some(100), ..Load::default() };
    let url = postgres.url(SUPERUSER, postgres::DATABASE);
    let journal = load.start(&url, &schema).finished().await.unwrap();
    assert_eq!(journal.failures, 0);

    let follower = Follower::start(&kafka.bootstrap(), &["outbox.event.order"]).await.unwrap();
    proxy.set(ProxyMode::BlackHole).await.unwrap();
    let rows = decoded(&session, "relay", "public.outbox").await;
    let bootstrap = proxy.address();
    let relaying = relay(&bootstrap, &rows, ["aggregatetype", "aggregateid", "type"]);
    let healing = async {
        eventually(SOON, "an attempt to connect", async || {
            Ok((proxy.connections() > 0).then_some(()))
        })
        .await
        .unwrap();
        assert_eq!((follower.count(), proxy.request_bytes()), (0, 0));
        proxy.set(ProxyMode::Forward).await.unwrap();
    };
    tokio::join!(relaying, healing);
    assert!(proxy.request_bytes() > 0);

    eventually(SOON, "all records at the follower", async || {
        Ok((follower.count() >= rows.len()).then_some(()))
    })
    .await
    .unwrap();
    let seen = follower.stop().await.unwrap();
    let mapping = Mapping { format: Format::Plain, ..Mapping::default() };
    let truth =
        Truth::from_committed(&session, &mapping).await.unwrap().rolled_back(journal.rolled_back);
    let result = check(&truth, &seen, &CheckOptions::default()).clean().unwrap();
    assert_eq!(result.sent, usize::try_from(journal.committed).unwrap());
}

#[tokio::test]
async fn a_backlog_has_the_rows_that_were_asked_for() {
    let postgres = PostgresServer::start(PostgresOptions::version(15)).await.unwrap();
    let session = postgres.connect().await.unwrap();
    let schema = Schema::new(Preset::Debezium).aggregates(7);
    schema.create(&session).await.unwrap();
    create_slot(&session, "reader", "test_decoding").await.unwrap();
    let size = Backlog { transactions: 10, rows_per_transaction: 5, payload_bytes: 30, first: 0 };
    assert_eq!(backlog(&session, &schema, size).await.unwrap(), 50);
    assert_eq!(decoded(&session, "reader", "public.outbox").await.len(), 50);
}
