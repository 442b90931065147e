//! Keys in SQL, and the rows whose keys are passed over.

use std::{num::NonZeroI32, time::Duration};

use outbox_router::polling::sql::{Stuck, StuckFilter, stuck};
use pgoutput::{Insert, TupleData};
use relay::{
    ColumnName, HoldKeys, Moment, Now, OnFailed, Outboxes, PgTimestamp, Role, TopicFacts,
    TopicTemplate,
    polling::{
        LeaseLength, PollAction, PollInput, Poller, PollerSettings, Produced, RetryPolicy, RowKey,
        ShardSet,
    },
    testing::{MemorySink, ProducedRecord},
};

use crate::fixture::{
    Connector, Fixture, Polling, ROUTER, TABLE, Worker, default_table, ids, keys, polling,
};

const MARK: &str = ", published_at timestamptz";

#[tokio::test]
async fn keys_with_any_characters_are_read_and_passed_over() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    let odd = ["it's", "\"q\"", r"back\slash", r"\", "", "n", "k", "NULL", "ü{,}", "a\tb\nc"];
    let session = fixture.session().await;
    for key in odd.iter().map(Some).chain([None]) {
        let insert = "insert into outbox (aggregate_id) values ($1)";
        session.execute(insert, &[&key]).await.unwrap();
    }
    let mut worker = fixture.worker(polling()).await;
    let fetched = worker.fetch(100).await;
    let expected: Vec<Option<&str>> = odd.into_iter().map(Some).chain([None]).collect();
    assert_eq!(keys(&fetched.rows), expected);
    for passed in &fetched.rows {
        let rest = worker.fetch_of(ShardSet::ALL, 100, std::slice::from_ref(&passed.key)).await;
        let others: Vec<_> = expected.iter().filter(|key| **key != passed.key.as_deref()).collect();
        assert_eq!(keys(&rest.rows).iter().collect::<Vec<_>>(), others, "{:?}", passed.key);
    }
    let all: Vec<RowKey> = fetched.rows.iter().map(|row| row.key.clone()).collect();
    assert!(worker.fetch_of(ShardSet::ALL, 100, &all).await.rows.is_empty());
}

#[tokio::test]
async fn every_key_is_in_one_shard() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    let rows = "insert into outbox (aggregate_id) select nullif(i % 500, 7)::text \
                from generate_series(1, 2000) i";
    fixture.run(rows).await;
    let mut worker = fixture.worker(polling()).await;
    let mut all = Vec::new();
    let mut keys_of_shards = std::collections::BTreeMap::new();
    for shard in 0..relay::polling::SHARDS {
        let shards: ShardSet = [shard].into_iter().collect();
        for row in worker.fetch_of(shards, 3_000, &[]).await.rows {
            let known = keys_of_shards.insert(row.key.clone(), shard);
            assert!(known.is_none_or(|known| known == shard), "{:?}", row.key);
            all.push(row);
        }
    }
    let mut found = ids(&all);
    found.sort_unstable();
    found.dedup();
    assert_eq!((found.len(), keys_of_shards.len()), (2_000, 500));
    assert!(keys_of_shards.values().collect::<std::collections::BTreeSet<_>>().len() > 60);
    // Half of the shards have what their shards have.
    let half: ShardSet = (0..32).collect();
    let of_half = worker.fetch_of(half, 3_000, &[]).await.rows.len();
    let expected = all.iter().filter(|row| keys_of_shards[&row.key] < 32).count();
    assert_eq!(of_half, expected);
}

#[tokio::test]
async fn bytes_are_a_key_whatever_the_role_is_set_to() {
    let table = "create table outbox (id uuid primary key default gen_random_uuid(), \
        aggregate_type text not null, aggregate_id bytea, event_type text not null, payload bytea, \
        created_at timestamptz not null, published_at timestamptz)";
    let fixture = Fixture::new(table).await;
    fixture
        .run(
            "alter role router set bytea_output = 'escape'; \
             alter role router set datestyle = 'German'; \
             alter role router set timezone = 'Asia/Tokyo'; \
             alter role router set search_path = public; \
             alter role router set standard_conforming_strings = off; \
             alter role router set default_transaction_read_only = on; \
             alter role router set default_transaction_isolation = 'serializable'; \
             insert into outbox (aggregate_type, aggregate_id, event_type, payload, created_at) \
             values ('a', '\\x00ff5c27', 'e', '\\x7b7d', '2026-01-02 03:04:05.678901+00')",
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    let fetched = worker.fetch(10).await;
    assert_eq!(keys(&fetched.rows), [Some(r"\x00ff5c27")]);
    let row = &fetched.rows[0];
    assert_eq!(row.at.unix_millis(), 1_767_323_045_678);
    let insert = Insert::parse(&row.insert).unwrap().unwrap();
    let values: Vec<TupleData<'_>> = insert.tuple.iter().collect();
    assert_eq!(values[2], TupleData::Text(br"\x00ff5c27"));
    assert_eq!(values[5], TupleData::Text(b"2026-01-02 03:04:05.678901+00"));
    assert_eq!(values[6], TupleData::Null);
    let passed = worker.fetch_of(ShardSet::ALL, 10, std::slice::from_ref(&row.key)).await;
    assert!(passed.rows.is_empty());
    assert_eq!(worker.publish(&fetched.rows).await, 1);
}

#[tokio::test]
async fn a_template_is_the_key_of_its_alternatives() {
    let fixture = Fixture::new(
        "create table outbox (id bigint primary key generated always as identity, \
         outbox_route text not null default 'r', event_id uuid not null default gen_random_uuid(), \
         event_type text not null default 'e', payload jsonb not null default '{}', \
         occurred_at timestamptz, ordering_key text, tenant_id text, correlation_id text, \
         causation_id text, published_at timestamptz)",
    )
    .await;
    fixture.run("insert into outbox (ordering_key) values ('a'), (null), ('b'), ('a')").await;
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(10).await.rows;
    let found = keys(&rows);
    assert_eq!([found[0], found[2], found[3]], [Some("a"), Some("b"), Some("a")]);
    assert_eq!(found[1].unwrap().len(), 36, "the event's id");
}

#[tokio::test]
async fn a_value_within_json_is_a_key() {
    let fixture = Fixture::new(
        "create table outbox (id varchar(1000) primary key, destination text not null, \
         headers text not null, payload text not null default '{}', published smallint default 0, \
         message_partition smallint, creation_time bigint)",
    )
    .await;
    fixture
        .run(
            r#"insert into outbox (id, destination, headers, creation_time) values
            ('1', 'd', '{"PARTITION_ID": "4\"2"}', 1767323045678), ('2', 'd', '{"ID": "2"}', null),
            ('3', 'd', '{"PARTITION_ID": null}', 9223372036854775807)"#,
        )
        .await;
    let mut worker = fixture.worker(polling()).await;
    let rows = worker.fetch(10).await.rows;
    // A row without a time comes last.
    assert_eq!(keys(&rows), [Some("4\"2"), Some("3"), Some("2")]);
    assert_eq!(rows[0].at.unix_millis(), 1_767_323_045_678);
    assert_eq!(worker.publish(&rows).await, 3);
    assert_eq!(fixture.value("select string_agg(published::text, '') from outbox").await, "111");
    // What is no JSON is one row's fault where the server can tell, and else the table's.
    fixture.run("insert into outbox (id, destination, headers) values ('4', 'd', 'plain')").await;
    let request = relay::polling::FetchRequest {
        table: crate::fixture::TABLE,
        shards: ShardSet::ALL,
        limit: 10,
        passed_over: relay::polling::PassedOver::NOTHING,
    };
    match worker.database.fetch(&request).await {
        Ok(fetched) => assert_eq!(keys(&fetched.rows), [Some("4")]),
        Err(failure) => {
            assert_eq!(failure.code, relay::Code::Polling);
            assert!(failure.message.contains("aggregate_id"), "{failure}");
        }
    }
}

/// A text with escapes that no text of PostgreSQL can have, and a row whose key is within it.
struct Escaped {
    doc: &'static str,
    /// The key in SQL.
    key: &'static str,
    /// The record's key; `None` where the row has none, since half a character is none.
    record: Option<&'static str>,
}

const fn escaped(doc: &'static str, key: &'static str, record: Option<&'static str>) -> Escaped {
    Escaped { doc, key, record }
}

const ESCAPED: [Escaped; 12] = [
    escaped(r#"{"K": "4"}"#, "4", Some("4")),
    escaped(r#"{"K": "a\u0000b"}"#, "a\u{1a}b", Some("a\0b")),
    escaped(r#"{"K": "\ud83d"}"#, "\u{1a}", None),
    // What is wrong beside the key changes nothing.
    escaped(r#"{"K": "4", "other": "\u0000 \uDE00\ud83d"}"#, "4", Some("4")),
    escaped(r#"{"K": "5", "o": [{"\ud83d": "\uD83D."}]}"#, "5", Some("5")),
    escaped(r#"{"other": "\u0000"}"#, "OrderPlaced", Some("OrderPlaced")),
    // Whole characters, and backslashes that begin no such escape.
    escaped(r#"{"K": "\ud83d\ude00 \uD83D\uDE00"}"#, "😀 😀", Some("😀 😀")),
    escaped(
        r#"{"K": "\\u0000 \\ud83d \u00e9 \u20ac \"\/\n"}"#,
        "\\u0000 \\ud83d é € \"/\n",
        Some("\\u0000 \\ud83d é € \"/\n"),
    ),
    escaped(r#"{"K": "\\\u0000\u0000"}"#, "\\\u{1a}\u{1a}", Some("\\\0\0")),
    escaped(r#"{"K": "\\ud83d\ude00"}"#, "\\ud83d\u{1a}", None),
    escaped(r#"{"K": "\ud83d\\ude00"}"#, "\u{1a}\\ude00", None),
    escaped(r#"{"K": "\ud83d\ud83d\ude00\ude00"}"#, "\u{1a}😀\u{1a}", None),
];

async fn escapes_are_keys_of_their_own(kind: &str) {
    let columns = format!(", doc {kind}, published_at timestamptz, abandoned_at timestamptz");
    let fixture = Fixture::new(&default_table(&columns)).await;
    let session = fixture.session().await;
    let insert = format!("insert into outbox (doc) values ($1::text::{kind})");
    for row in &ESCAPED {
        session.execute(&insert, &[&row.doc]).await.unwrap();
    }
    let mut polling = polling().with_letters();
    let key = ColumnName::parse("${doc#/K|event_type}").unwrap();
    polling.config.outbox.columns.set(Role::AggregateId, vec![key]);
    let mut worker = fixture.worker(polling.clone()).await;
    let rows = worker.fetch(100).await.rows;
    let expected: Vec<_> = ESCAPED.iter().map(|row| Some(row.key)).collect();
    assert_eq!(keys(&rows), expected, "{kind}");

    // The core makes records of them, or abandons them.
    let records = deliver(&fixture, &mut worker, &polling).await;
    let expected = ESCAPED.iter().filter_map(|row| row.record.map(str::to_owned));
    assert_eq!(records, expected.collect::<Vec<_>>(), "{kind}");
    // Rows of one record's key have one key in SQL.
    for row in ESCAPED.iter().filter(|row| row.record.is_some()) {
        assert_eq!(row.record.map(|key| key.replace('\0', "\u{1a}")).as_deref(), Some(row.key));
    }
    let abandoned = "select count(*) from outbox where abandoned_at is not null";
    assert_eq!(fixture.value(abandoned).await, "4");
    let (table, all) = (worker.database.table(TABLE).unwrap(), StuckFilter::default());
    let listed = stuck(&session, table, Stuck::Abandoned, &all).await.unwrap().unwrap();
    assert_eq!(listed.len(), 4);
    // What has no such key goes on, and what has it waits.
    fixture
        .run(
            r#"insert into outbox (doc) values ('{"K": "\ud83d"}'), ('{"K": "4", "o": "\ud83d"}')"#,
        )
        .await;
    assert_eq!(keys(&worker.fetch(100).await.rows), [Some("4")]);
    let half: ShardSet = (0..32).collect();
    worker.fetch_of(half, 100, &[]).await;
}

#[tokio::test]
async fn escapes_that_no_text_can_have_are_keys_within_json() {
    escapes_are_keys_of_their_own("json").await;
}

#[tokio::test]
async fn escapes_that_no_text_can_have_are_keys_within_a_text() {
    escapes_are_keys_of_their_own("text").await;
}

/// Lets the core deliver what is pending of its first batch, or abandon it; the keys of the records
/// in the order of their rows.
async fn deliver(fixture: &Fixture, worker: &mut Worker, polling: &Polling) -> Vec<String> {
    let mut leases = fixture.leases(worker.id, polling.settings.lease);
    let settings = PollerSettings {
        outboxes: Outboxes { tables: vec![polling.config.outbox.clone()], ..Outboxes::default() },
        batch: 100,
        interval: Duration::from_secs(1),
        lease: LeaseLength::new(polling.settings.lease),
        retry: RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
        on_error: polling.settings.on_error,
        hold_keys: HoldKeys::Yes,
        keys_max: 100,
        row_bytes: 1 << 20,
        shutdown_limit: Duration::from_secs(1),
        on_failed: OnFailed::Stay,
        seed: 1,
    };
    let now = Now { at: Moment::default(), wall: PgTimestamp::from_micros(0) };
    let mut core = Poller::new(settings, now.at);
    let mut sink = MemorySink::new(1_000);
    for _ in 0..100 {
        let input = match core.next_action() {
            Some(PollAction::Describe(table)) => {
                PollInput::Described(table, worker.database.describe(table).await)
            }
            Some(PollAction::Lease(request)) => PollInput::Leased(leases.answer(&request).await),
            Some(PollAction::Fetch(request)) => {
                PollInput::Fetched(worker.database.fetch(&request).await)
            }
            Some(PollAction::Settle(request)) => {
                assert_eq!(worker.settle(request).await, sink.produced().len());
                let key = |record: &ProducedRecord| String::from_utf8(record.key.clone()).unwrap();
                return sink.produced().iter().map(key).collect();
            }
            Some(PollAction::ReplaceSink { .. }) => PollInput::SinkReady,
            Some(PollAction::LookUpTopic(topic, _)) => {
                let partitions = NonZeroI32::new(1).unwrap();
                PollInput::Topic(topic, Ok(TopicFacts { partitions, max_message_bytes: None }))
            }
            Some(PollAction::Exit(reason)) => panic!("it exits: {reason:?}"),
            None => {
                while core.produce(&mut sink, || now) == Produced::More {}
                core.handle(PollInput::Acks(&sink.ack_all()), now);
                PollInput::Tick
            }
        };
        core.handle(input, now);
    }
    panic!("nothing is marked: {:?}", core.report(now.at));
}

#[tokio::test]
async fn a_key_of_jsonb_that_is_configured_is_read() {
    let fixture = Fixture::new(&default_table(MARK)).await;
    fixture
        .run(r#"insert into outbox (payload) values ('{"o": {"id": 7}}'), ('{"o": {"id": "x"}}')"#)
        .await;
    let mut polling = polling();
    let key = ColumnName::parse("k-${payload#/o/id}").unwrap();
    polling.config.outbox.columns.set(Role::AggregateId, vec![key]);
    polling.config.outbox.topic = Some(TopicTemplate::parse("t").unwrap());
    let mut worker = fixture.worker(polling).await;
    assert_eq!(keys(&worker.fetch(10).await.rows), [Some("k-7"), Some("k-x")]);
}

/// JSON that the server itself cannot read, also beside the key.
#[tokio::test]
async fn json_that_the_server_cannot_read_ends_the_statement_until_it_is_corrected() {
    let table = default_table(", doc text, published_at timestamptz");
    let fixture = Fixture::new(&table).await;
    let create = "create database latin encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' \
                  template template0";
    fixture.run(create).await;
    let admin = fixture.server.connect_to("latin").await.unwrap();
    admin.batch_execute(&format!("{table}; grant all on outbox to {ROUTER}")).await.unwrap();
    let mut polling = polling();
    let key = ColumnName::parse("${doc#/K|event_type}").unwrap();
    polling.config.outbox.columns.set(Role::AggregateId, vec![key]);
    let url = format!("{}?sslmode=disable", fixture.server.url(ROUTER, "latin"));
    let mut worker = Worker::on(Connector(url), polling).await;
    let request = relay::polling::FetchRequest {
        table: TABLE,
        shards: ShardSet::ALL,
        limit: 10,
        passed_over: relay::polling::PassedOver::NOTHING,
    };
    for (doc, said) in [
        // Before 17 the server names its encoding, and later what it does not support.
        (r#"'{"K": "4", "o": "\u20ac"}'"#, "the encoding of this database is not UTF8"),
        ("repeat('[', 100000) || repeat(']', 100000)", "stack depth"),
    ] {
        let insert = format!("insert into outbox (doc) values ({doc}), ('{{\"K\": \"5\"}}')");
        admin.batch_execute(&insert).await.unwrap();
        let failure = worker.database.fetch(&request).await.unwrap_err();
        assert_eq!(failure.code, relay::Code::Polling, "{failure}");
        assert!(failure.message.contains(said), "{failure}");
        let correct = "update outbox set doc = '{\"K\": \"4\"}' where doc not like '%5%'";
        admin.batch_execute(correct).await.unwrap();
        let rows = worker.fetch(10).await.rows;
        assert_eq!(keys(&rows), [Some("4"), Some("5")]);
        assert_eq!(worker.publish(&rows).await, 2);
    }
}

/// Each session takes several numbers of it at a time.
#[tokio::test]
async fn a_sequence_with_cache_is_no_order() {
    for (cache, order) in [("cache 20", ["first", "second"]), ("cache 1", ["second", "first"])] {
        let fixture = Fixture::new(&default_table(MARK)).await;
        fixture.run(&format!("alter table outbox alter id set {cache}")).await;
        fixture
            .run(
                "insert into outbox (id, aggregate_id, created_at) overriding system value values \
                 (2, 'second', '2026-01-02'), (21, 'first', '2026-01-01')",
            )
            .await;
        let mut worker = fixture.worker(polling()).await;
        assert_eq!(keys(&worker.fetch(9).await.rows), order.map(Some), "{cache}");
    }
}

/// As an argument, a value of such a type is several.
#[tokio::test]
async fn a_row_is_found_by_no_key_with_a_composite_type() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let key = "create type pair as (a int, b text); create domain twin as pair; \
               alter table outbox drop constraint outbox_pkey, \
                 add column pair pair, add column twin twin, add primary key (id, pair), \
                 alter column twin set not null, add unique (twin)";
    fixture.run(key).await;
    let mut worker = Worker::new(fixture.connector(), polling());
    let failure = worker.database.describe(TABLE).await.unwrap_err();
    assert!(failure.message.contains("it has no primary key, by which a row is"), "{failure}");
    fixture.run("alter table outbox add unique (id)").await;
    worker.database.describe(TABLE).await.unwrap();
}
