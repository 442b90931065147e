//! Tables of the kinds that docs/tables.md has: each is polled and marked as its owner expects.

use e2e::{Fixture, FixtureBuilder};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::{DEADLINE, set_up, wait_polling};

/// A table of another kind under the name of the outbox, with some rows.
async fn polled(builder: FixtureBuilder, table: &str, rows: &str) -> (Fixture, DatabaseSession) {
    let mut fixture = builder.set("postgres.source", "polling").prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let sql = format!("drop table outbox cascade; {table}; {rows}");
    session.batch_execute(&sql).await.unwrap();
    set_up(&fixture, &[]).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    (fixture, session)
}

async fn wait_rows(session: &DatabaseSession, condition: &str, wanted: i64) {
    let query = format!("select count(*) from outbox where {condition}");
    eventually(DEADLINE, format!("{wanted} rows with {condition}"), async || {
        let rows: i64 = session.query_one(&query, &[]).await?.try_get(0)?;
        Ok((rows == wanted).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_table_with_a_flag_and_a_time_gets_both() {
    let topic = Fixture::builder();
    let (_fixture, session) = polled(
        topic.set_outbox("topic", "polled.flag").set("kafka.create_topics.partitions", 3),
        "create table outbox (id int primary key generated always as identity, \
         payload bytea not null, headers json not null, created_at timestamp not null default now(), \
         published boolean not null default false, published_at timestamp)",
        r#"insert into outbox (payload, headers) select '\x7b7d', '{"tenant": "acme"}'
           from generate_series(1, 250)"#,
    )
    .await;
    wait_rows(&session, "published and published_at is not null", 250).await;
}

#[tokio::test]
async fn a_table_with_an_ordering_key_goes_from_pending_to_published() {
    let (_fixture, session) = polled(
        Fixture::builder()
            .set_outbox("topic", "polled.ordering")
            .set("kafka.create_topics.partitions", 3),
        "create table outbox (id bigint primary key generated always as identity, \
         outbox_route text not null, event_id uuid not null default gen_random_uuid(), \
         event_type text not null, tenant_id text, execution_id text, correlation_id text, \
         causation_id text, occurred_at timestamptz not null default now(), payload jsonb not null, \
         status text not null default 'pending', created_at timestamptz not null default now(), \
         published_at timestamptz, processing_at timestamptz, last_error text, \
         attempts int not null default 0, available_at timestamptz not null default now(), \
         ordering_key text, hlc text)",
        "insert into outbox (outbox_route, event_type, payload, ordering_key, hlc) \
         select 'x', 'Made', '{}', 'k' || n % 5, lpad(n::text, 8, '0') \
         from generate_series(1, 250) n",
    )
    .await;
    wait_rows(&session, "status = 'published' and published_at is not null", 250).await;
    wait_rows(&session, "attempts > 0 or last_error is not null", 0).await;
}

#[tokio::test]
async fn a_table_with_locks_respects_those_of_others_until_they_expire() {
    let (_fixture, session) = polled(
        Fixture::builder()
            .set_outbox("preset", "stream")
            .set_outbox("topic", "polled.locks")
            .set("kafka.create_topics.partitions", 3),
        "create table outbox (id bigint primary key generated always as identity, \
         stream_name text not null, aggregate_id text not null, event_type text not null, \
         payload jsonb not null, metadata jsonb, status text not null default 'pending', \
         locked_by text, locked_until timestamptz, created_at timestamptz not null default now())",
        "insert into outbox (stream_name, aggregate_id, event_type, payload, status, locked_by, \
           locked_until) values \
           ('s', 'held', 'Made', '{}', 'processing', 'somebody', now() + interval '1 hour'); \
         insert into outbox (stream_name, aggregate_id, event_type, payload) \
         select 's', case when n % 10 = 0 then 'held' else 'k' || n % 7 end, 'Made', '{}' \
         from generate_series(1, 250) n",
    )
    .await;
    wait_rows(&session, "status = 'published'", 225).await;
    wait_rows(&session, "status = 'published' and aggregate_id = 'held'", 0).await;
    let expire =
        "update outbox set locked_until = now() - interval '1 s' where locked_by = 'somebody'";
    session.batch_execute(expire).await.unwrap();
    wait_rows(&session, "status = 'published'", 251).await;
    wait_rows(&session, "locked_until > now()", 0).await;
}

#[tokio::test]
async fn published_rows_are_deleted_where_that_is_the_mark() {
    let (_fixture, session) = polled(
        Fixture::builder()
            .set_outbox("topic", "polled.delete")
            .set_outbox("mark.how", "delete")
            .set("kafka.create_topics.partitions", 3),
        "create table outbox (id uuid primary key default gen_random_uuid(), \
         aggregate_type text not null, aggregate_id text not null, event_type text not null, \
         payload jsonb, created_at timestamptz not null default now())",
        "insert into outbox (aggregate_type, aggregate_id, event_type, payload) \
         select 'order', n::text, 'Made', '{}' from generate_series(1, 250) n",
    )
    .await;
    wait_rows(&session, "true", 0).await;
}

#[tokio::test]
async fn eventuates_messages_are_marked_by_their_number() {
    let (_fixture, session) = polled(
        Fixture::builder().set("kafka.create_topics.partitions", 3),
        "create table outbox (id varchar(1000) primary key, destination text not null, \
         headers text not null, payload text not null, published smallint default 0, \
         message_partition smallint, creation_time bigint)",
        r#"insert into outbox (id, destination, headers, payload, creation_time)
           select n::text, 'polled.eventuate', '{"PARTITION_ID": "k' || n % 5 || '"}', '{}', n
           from generate_series(1, 250) n"#,
    )
    .await;
    wait_rows(&session, "published = 1", 250).await;
}
