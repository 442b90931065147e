//! Which rows a switch sends and marks: those of every table that is named, and no others.

use e2e::{Fixture, SLOT, wait_committed};
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession};
use testbed::wait::eventually;

use super::super::{COLUMNS, DEADLINE, load, wait_none, wait_polling};
use super::{begun, begun_with, configure, set_up, stop, switch, switched};

/// Another outbox, like the first.
async fn make(session: &DatabaseSession, table: &str) {
    let sql = format!(
        "create table {table} (like outbox including all); \
         grant select, update on {table} to public"
    );
    session.batch_execute(&sql).await.unwrap();
}

async fn write(session: &DatabaseSession, table: &str, rows: i32) {
    let sql = format!(
        "insert into {table} (aggregate_type, aggregate_id, event_type, payload) \
         select 'order', '{table}-' || i, 'Made', '{{}}' from generate_series(1, $1) i"
    );
    session.execute(&sql, &[&rows]).await.unwrap();
}

async fn pending(session: &DatabaseSession, table: &str) -> i64 {
    let query = format!("select count(*) from {table} where published_at is null");
    session.query_one(&query, &[]).await.unwrap().get(0)
}

/// The stream has delivered everything that is committed.
async fn wait_streamed(session: &DatabaseSession) {
    let end = "select pg_current_wal_insert_lsn()::text";
    let end: String = session.query_one(end, &[]).await.unwrap().get(0);
    let query = "select from pg_replication_slots \
                 where slot_name = $1 and confirmed_flush_lsn >= $2::text::pg_lsn";
    eventually(DEADLINE, format!("the slot to be at {end}"), async || {
        Ok(session.query_opt(query, &[&SLOT, &end]).await?.map(drop))
    })
    .await
    .unwrap();
}

/// The configuration with another outbox, whose rows go to the topic of the first.
fn with(fixture: &Fixture, config: &str, table: &str, order: &str) -> String {
    let topic = fixture.topics.first().unwrap();
    format!("{config}\n[[outbox]]\ntable = \"public.{table}\"\ntopic = \"{topic}\"\n{order}\n")
}

const BY_NUMBER: &str = "order_by = [\"n\"]";

/// A time is another text in another zone, and the rows that the slot's snapshot sees are known by
/// the texts of their primary keys.
#[tokio::test]
async fn rows_are_sent_whose_key_has_a_time_in_a_database_of_another_time_zone() {
    let columns = format!(
        "{COLUMNS}; \
         alter table outbox drop constraint outbox_pkey, add primary key (id, created_at); \
         alter database {DATABASE} set timezone = 'Europe/Berlin'"
    );
    let (mut fixture, configurations) = begun_with(Fixture::builder(), &columns).await;
    stop(&mut fixture.router).await;
    let running = fixture.load(load());
    wait_committed(&running, 2_000).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    let session = fixture.session().await.unwrap();
    assert!(pending(&session, "outbox").await > 0);

    let said = switched(&fixture, "stream").await;
    assert_eq!(pending(&session, "outbox").await, 0, "{said}");
    configure(&mut fixture, &configurations.stream);
    fixture.restart().await.unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 200).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    stop(&mut fixture.router).await;

    configure(&mut fixture, &configurations.polling);
    switched(&fixture, "polling").await;
    assert_eq!(pending(&session, "outbox").await, 0);
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "{result}");
}

/// Its rows were never sent, whatever the publication has.
#[tokio::test]
async fn a_polled_table_beside_a_streamed_one_is_neither_marked_nor_handed_over() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    switched(&fixture, "stream").await;
    make(&session, "audit").await;
    write(&session, "audit", 3).await;
    let both = with(&fixture, &configurations.polling.to_string(), "audit", BY_NUMBER);
    fixture.router.set_config(&both).unwrap();
    for change in ["select", "alter publication outbox_router add table audit"] {
        session.batch_execute(change).await.unwrap();
        let (exit, said) = switch(&fixture, "polling", "--yes").await;
        assert_eq!(exit, Some(1), "{change}: {said}");
        assert!(said.contains("no router has streamed table public.audit"), "{change}: {said}");
        assert_eq!(pending(&session, "audit").await, 3);
    }
    let (exit, said) = switch(&fixture, "stream", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    let apart = "public.outbox is streamed, public.audit is polled";
    assert!(said.contains(apart) && said.contains("with those alone that are streamed"), "{said}");
    session.batch_execute("alter publication outbox_router drop table audit").await.unwrap();
    configure(&mut fixture, &configurations.polling);
    switched(&fixture, "polling").await;
}

/// A table that was added to the stream later has no row in `outbox_router.switch`.
#[tokio::test]
async fn every_table_of_the_slot_is_switched_and_none_is_left_out() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    let [alone, stream] =
        [&configurations.polling, &configurations.stream].map(ToString::to_string);
    let (polling, stream) =
        (with(&fixture, &alone, "audit", BY_NUMBER), with(&fixture, &stream, "audit", ""));
    make(&session, "audit").await;
    fixture.router.set_config(&polling).unwrap();
    set_up(&fixture, &[]).await.unwrap();
    write(&session, "audit", 3).await;
    let running = fixture.load(load());
    wait_committed(&running, 200).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    switched(&fixture, "stream").await;
    for table in ["outbox", "audit"] {
        assert_eq!(pending(&session, table).await, 0, "{table}");
    }

    make(&session, "later").await;
    fixture.router.set_config(&with(&fixture, &stream, "later", "")).unwrap();
    set_up(&fixture, &[]).await.unwrap();
    let known = "select count(*) from outbox_router.switch where state = 'stream'";
    let known: i64 = session.query_one(known, &[]).await.unwrap().get(0);
    assert_eq!(known, 3, "no worker takes the table that was added");
    // As a version before would have left it.
    let forget = "delete from outbox_router.switch where relation = 'later'::regclass";
    session.batch_execute(forget).await.unwrap();
    fixture.restart().await.unwrap();
    write(&session, "audit", 2).await;
    write(&session, "later", 2).await;
    wait_streamed(&session).await;
    stop(&mut fixture.router).await;
    // Nobody has sent it: the slot has it.
    write(&session, "later", 1).await;

    for (config, missing) in [(&alone, "public.audit"), (&polling, "public.later")] {
        fixture.router.set_config(config).unwrap();
        let (exit, said) = switch(&fixture, "polling", "--yes").await;
        assert_eq!(exit, Some(1), "{said}");
        assert!(said.contains("P043") && said.contains(missing), "{missing}: {said}");
    }
    fixture.router.set_config(&with(&fixture, &polling, "later", BY_NUMBER)).unwrap();
    let said = switched(&fixture, "polling").await;
    assert_eq!(pending(&session, "audit").await, 0, "{said}");
    assert_eq!(pending(&session, "later").await, 1, "{said}");
    set_up(&fixture, &[]).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    wait_none(&session, "published_at is null").await.unwrap();
    eventually(DEADLINE, "the row to be sent", async || {
        Ok((pending(&session, "later").await == 0).then_some(()))
    })
    .await
    .unwrap();
}

/// The first session has produced nothing: only the command has.
#[tokio::test]
async fn a_topic_that_is_made_again_behind_the_switch_is_noted() {
    let (mut fixture, configurations) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    write(&session, "outbox", 1).await;
    switched(&fixture, "stream").await;
    let topic = fixture.topics.first().unwrap().clone();
    assert_eq!(fixture.seen().await.unwrap().len(), 1);
    fixture.kafka.delete_topic(&topic).await.unwrap();
    fixture.kafka.create_topic(&topic, 3, &[]).await.unwrap();
    configure(&mut fixture, &configurations.stream);
    fixture.restart().await.unwrap();
    let is_noted = |status: &Value| {
        status.pointer("/witness/lost_topics/0/topic").and_then(Value::as_str) == Some(&topic)
    };
    fixture.router.wait_status("the note", DEADLINE, is_noted).await.unwrap();
}

/// The slot and the witness of a switch are those of all tables with which it has begun.
#[tokio::test]
async fn a_switch_goes_on_and_back_with_all_tables_with_which_it_has_begun() {
    let (mut fixture, _) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    make(&session, "second").await;
    let first = fixture.config.to_string();
    let both = with(&fixture, &first, "second", BY_NUMBER);
    fixture.router.set_config(&both).unwrap();
    set_up(&fixture, &[]).await.unwrap();
    switched(&fixture, "stream").await;
    // As a kill leaves it.
    session.batch_execute("update outbox_router.switch set state = 'sent'").await.unwrap();
    fixture.router.set_config(&first).unwrap();
    for to in ["stream", "polling"] {
        let (exit, said) = switch(&fixture, to, "--yes").await;
        assert_eq!(exit, Some(1), "{said}");
        assert!(said.contains("P043") && said.contains("has table public.second, too"), "{said}");
        assert!(said.contains("name public.second in an [[outbox]] again"), "{said}");
        assert!(fixture.postgres.slot(SLOT).await.unwrap().is_some(), "{said}");
    }
    fixture.router.set_config(&both).unwrap();
    switched(&fixture, "polling").await;
}
