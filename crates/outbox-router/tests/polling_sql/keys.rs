//! Keys in SQL, and the rows whose keys are passed over.

use pgoutput::{Insert, TupleData};
use relay::{
    ColumnName, Role, TopicTemplate,
    polling::{RowKey, ShardSet},
};

use crate::fixture::{Fixture, default_table, ids, keys, polling};

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
