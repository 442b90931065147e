//! Rows whose key is changed, or that are deleted or detached, while a switch is between the slot
//! and their table: they are in a topic, or the switch is refused.

use e2e::{Fixture, SLOT};
use testbed::load::{Partitioning, Preset, Schema};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::super::{BATCH, COLUMNS, DEADLINE, insert};
use super::command::{Command, wait_for_row};
use super::{Configurations, begun, begun_with, configure, stop, switch, switched};

async fn pending(session: &DatabaseSession) -> i64 {
    let query = "select count(*) from outbox where published_at is null";
    session.query_one(query, &[]).await.unwrap().get(0)
}

/// A router streams until everything is delivered.
async fn stream(fixture: &mut Fixture, configurations: &Configurations, session: &DatabaseSession) {
    configure(fixture, &configurations.stream);
    fixture.restart().await.unwrap();
    let end = "select pg_current_wal_insert_lsn()::text";
    let end: String = session.query_one(end, &[]).await.unwrap().get(0);
    let passed = "select from pg_replication_slots \
                  where slot_name = $1 and confirmed_flush_lsn >= $2::text::pg_lsn";
    eventually(DEADLINE, format!("the slot to be at {end}"), async || {
        Ok(session.query_opt(passed, &[&SLOT, &end]).await?.map(drop))
    })
    .await
    .unwrap();
    stop(&mut fixture.router).await;
    configure(fixture, &configurations.polling);
}

async fn refused(fixture: &Fixture) -> String {
    let (exit, said) = switch(fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P043") && said.contains("no router has delivered"), "{said}");
    assert!(said.contains("postgres.source = \"stream\""), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_some(), "{said}");
    said
}

/// Only a router can deliver them, so it may stream again.
#[tokio::test]
async fn rows_that_only_the_slot_has_are_delivered_from_it_before_it_is_dropped() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    switched(&fixture, "stream").await;
    insert(&session, "stays", "{}").await;
    let alter = [
        "update outbox set id = gen_random_uuid() where aggregate_id = 'changed'",
        "delete from outbox where aggregate_id = 'deleted'",
    ];
    for (key, alter) in ["changed", "deleted"].into_iter().zip(alter) {
        session.batch_execute("begin").await.unwrap();
        insert(&session, key, "{}").await;
        session.batch_execute(&format!("{alter}; commit")).await.unwrap();
    }
    let said = refused(&fixture).await;
    assert!(said.contains("2 of public.outbox ("), "{said}");
    assert_eq!(pending(&session).await, 2, "nothing was marked");

    stream(&mut fixture, &configurations, &session).await;
    switched(&fixture, "polling").await;
    assert_eq!(pending(&session).await, 0);
}

/// An event is the row as it was inserted; no worker reads it as it is now.
#[tokio::test]
async fn an_event_that_an_update_has_filtered_since_is_delivered_from_the_slot() {
    let builder =
        Fixture::builder().set_outbox("where.column", "stage").set_outbox("where.in", vec!["new"]);
    let columns = format!("{COLUMNS}; alter table outbox add stage text not null default 'new'");
    let (mut fixture, _) = begun_with(builder, &columns).await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    switched(&fixture, "stream").await;
    insert(&session, "stays", "{}").await;
    insert(&session, "filtered", "{}").await;
    // It was none, and is none.
    session.batch_execute("alter table outbox alter stage set default 'none'").await.unwrap();
    insert(&session, "none", "{}").await;
    let update = "update outbox set stage = 'done' where aggregate_id = 'filtered'";
    session.batch_execute(update).await.unwrap();
    let said = refused(&fixture).await;
    assert!(said.contains("1 of public.outbox ("), "{said}");
}

/// Another insert of the same key takes its place, and the slot has both.
#[tokio::test]
async fn a_row_that_has_the_key_of_a_deleted_one_does_not_stand_for_it() {
    let (mut fixture, _) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    switched(&fixture, "stream").await;
    insert(&session, "first", "{}").await;
    let again = "create temporary table kept as select * from outbox; \
         alter table kept drop column n; delete from outbox; \
         insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, headers) \
         select id, aggregate_type, 'second', event_type, payload, headers from kept";
    session.batch_execute(again).await.unwrap();
    let said = refused(&fixture).await;
    assert!(said.contains("1 of public.outbox ("), "{said}");
}

#[tokio::test]
async fn rows_of_a_detached_partition_keep_their_slot() {
    let schema = Schema::new(Preset::Default).partitioned(Partitioning::Hash);
    let columns = "create sequence numbers; grant usage on sequence numbers to public; \
        alter table outbox add n bigint not null default nextval('numbers'), \
        add published_at timestamptz";
    let (mut fixture, _) = begun_with(Fixture::builder().schema(schema), columns).await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    switched(&fixture, "stream").await;
    insert(&session, "a", "{}").await;
    let partition = "select tableoid::regclass::text from outbox";
    let partition: String = session.query_one(partition, &[]).await.unwrap().get(0);
    let detach = format!("alter table outbox detach partition {partition}");
    session.batch_execute(&detach).await.unwrap();
    refused(&fixture).await;
}

#[tokio::test]
async fn a_row_whose_key_is_changed_while_older_rows_are_sent_is_not_left_behind() {
    let (mut fixture, _) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    // One more than a batch has, and all of one key.
    let write = format!(
        "insert into outbox (aggregate_type, aggregate_id, event_type, payload) \
         select 'order', 'b', 'Made', '{{}}' from generate_series(0, {BATCH})"
    );
    session.batch_execute(&write).await.unwrap();
    // A lock of the session: one of a transaction would keep the slot from being made.
    let hold = "select pg_advisory_lock(1); \
        create function public.hold() returns trigger language plpgsql as \
          $$ begin perform pg_advisory_xact_lock(1); return new; end $$; \
        create trigger hold before update of published_at on outbox \
          for each row execute function public.hold()";
    session.batch_execute(hold).await.unwrap();
    let command = Command::start(&fixture, "stream");
    let waits = "pg_locks where locktype = 'advisory' and not granted";
    wait_for_row(&session, "the mark to wait", waits).await;
    let change = "update outbox set id = gen_random_uuid() \
                  where n = (select max(n) from outbox)";
    session.batch_execute(change).await.unwrap();
    session.batch_execute("select pg_advisory_unlock(1)").await.unwrap();
    let said = command.ends_refused().await;
    assert!(said.contains("P043") && said.contains("neither among those"), "{said}");
    assert_eq!(pending(&session).await, 1);
    switched(&fixture, "stream").await;
    assert_eq!(pending(&session).await, 0);
}

/// A key says which row it is only while rows keep theirs.
#[tokio::test]
async fn a_row_that_the_slot_has_is_sent_though_its_key_is_another_rows_now() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    switched(&fixture, "stream").await;
    for key in ["first", "second"] {
        insert(&session, key, "{}").await;
    }
    stream(&mut fixture, &configurations, &session).await;
    session.batch_execute("begin; savepoint s").await.unwrap();
    insert(&session, "third", "{}").await;
    session.batch_execute("release s; commit").await.unwrap();
    let said = switched(&fixture, "polling").await;
    assert!(!said.contains("written again"), "a savepoint changes no key: {said}");
    assert_eq!(pending(&session).await, 1);

    switched(&fixture, "stream").await;
    for key in ["fourth", "fifth"] {
        insert(&session, key, "{}").await;
    }
    stream(&mut fixture, &configurations, &session).await;
    insert(&session, "last", "{}").await;
    let exchange = "create temporary table kept as select n, lead(id) over (order by n desc) id \
           from outbox where published_at is null; \
         update kept set id = (select id from outbox o where o.aggregate_id = 'last') \
           where id is null; \
         update outbox set id = gen_random_uuid() where published_at is null; \
         update outbox o set id = k.id from kept k where o.n = k.n";
    session.batch_execute(exchange).await.unwrap();
    let said = switched(&fixture, "polling").await;
    assert!(said.contains("note: rows of public.outbox that the slot has were written"), "{said}");
    let last = "select count(*) from outbox \
                 where published_at is null and aggregate_id = 'last'";
    let last: i64 = session.query_one(last, &[]).await.unwrap().get(0);
    assert_eq!(last, 1, "{said}");
}
