//! `switch polling`: which rows it marks that no slot has sent.

use outbox_router::{cli::Exit, held::schema};
use relay::{
    Lsn,
    held::{TableMark, TableVersion},
    witness::Notes,
};

use crate::{
    cleanup::{DECIDED, leave_out},
    kafka::StateCluster,
    server::{CommandOutput, Server},
};

const TABLE: &str = "\
    create table outbox (id bigint primary key, aggregate_type text not null default 'order', \
      aggregate_id text not null default 'a', event_type text not null default 'E', \
      payload jsonb default '{}', created_at timestamptz not null default now(), \
      published_at timestamptz)";

const STREAMED: [&str; 2] = ["--set", "outbox.0.table=public.outbox"];

/// A stream whose table has two rows from before, and two that the slot has confirmed.
struct Fixture {
    server: Server,
    kafka: StateCluster,
}

impl Fixture {
    async fn start() -> Self {
        Self::of(TABLE).await
    }

    async fn of(table: &str) -> Self {
        let fixture = Self { server: Server::start(), kafka: StateCluster::start() };
        let (server, kafka) = (&fixture.server, &fixture.kafka);
        server.sql(table);
        server.sql("insert into outbox (id) values (1), (2)");
        let setup = kafka.with(&[&["setup", "--apply"], &STREAMED[..]].concat());
        let setup: Vec<&str> = setup.iter().map(String::as_str).collect();
        let made = server.run_command(&setup).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        server.sql("insert into outbox (id) values (3), (4)");
        server.sql(
            "select pg_replication_slot_advance('outbox_router', pg_current_wal_insert_lsn())",
        );
        let mut known = kafka.record().await.expect("a record");
        let confirmed = server.sql("select confirmed_flush_lsn from pg_replication_slots");
        (known.generation, known.position) =
            (known.generation + 1, confirmed.parse().expect("a position"));
        kafka.put("router", &known).await;
        fixture
    }

    async fn switch(&self, more: &[&str]) -> CommandOutput {
        let line = [&["switch", "polling", "--yes"], more, &STREAMED[..]].concat();
        let line = self.kafka.with(&[&line[..], &["--set", "postgres.source=polling"]].concat());
        self.server.run_command(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    fn pending(&self) -> String {
        let pending = "select string_agg(id::text, ' ' order by id) from outbox \
                       where published_at is null";
        self.server.sql(pending)
    }

    fn slots(&self) -> String {
        self.server.sql("select count(*) from pg_replication_slots")
    }
}

#[tokio::test]
async fn rows_from_before_are_marked_only_where_a_person_gives_them_up() {
    let fixture = Fixture::start().await;
    let refused = fixture.switch(&[]).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    for part in [
        "P043",
        "2 pending rows of public.outbox",
        "outbox-router switch polling --older send --admin-url",
        "outbox-router switch polling --older give-up --admin-url",
    ] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    assert_eq!((fixture.pending().as_str(), fixture.slots().as_str()), ("1 2 3 4", "1"));

    let given_up = fixture.switch(&["--older", "give-up"]).await;
    assert_eq!((given_up.exit, given_up.err.as_str()), (Exit::Done, ""), "{given_up:?}");
    assert!(given_up.out.contains("rows: 2 of public.outbox from before"), "{given_up:?}");
    assert_eq!((fixture.pending().as_str(), fixture.slots().as_str()), ("", "0"));
}

#[tokio::test]
async fn rows_from_before_stay_pending_where_a_person_lets_workers_send_them() {
    let fixture = Fixture::start().await;
    let sent = fixture.switch(&["--older", "send"]).await;
    assert_eq!((sent.exit, sent.err.as_str()), (Exit::Done, ""), "{sent:?}");
    assert!(sent.out.contains("rows: 2 are marked as delivered"), "{sent:?}");
    assert!(sent.out.contains("rows: 2 of public.outbox from before"), "{sent:?}");
    assert_eq!((fixture.pending().as_str(), fixture.slots().as_str()), ("1 2", "0"));
}

/// Rows of events that wait in it would be marked, and nothing else has these events.
#[tokio::test]
async fn nothing_is_marked_while_the_table_is_gone_in_which_events_were_open() {
    let fixture = Fixture::start().await;
    let mut known = fixture.kafka.record().await.expect("a record");
    known.generation += 1;
    known.held_table = TableMark { version: Some(TableVersion { origin: 7, writes: 3 }), open: 1 };
    fixture.kafka.put("router", &known).await;
    let refused = fixture.switch(&["--older", "give-up"]).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    let gone = "P036: the table outbox_router.held does not exist; it had 1 open events";
    assert!(refused.err.contains(gone), "{refused:?}");
    assert_eq!((fixture.pending().as_str(), fixture.slots().as_str()), ("1 2 3 4", "1"));
    assert_eq!(fixture.kafka.record().await, Some(known.clone()), "the witness is as it was");

    for statement in schema::statements(None) {
        fixture.server.sql(&statement.sql);
    }
    let refused = fixture.switch(&["--older", "give-up"]).await;
    assert!(refused.err.contains("P037"), "made again, it has none of them: {refused:?}");
    assert_eq!((fixture.pending().as_str(), fixture.slots().as_str()), ("1 2 3 4", "1"));

    (known.generation, known.held_table.open) = (known.generation + 1, 0);
    fixture.kafka.put("router", &known).await;
    fixture.server.sql("drop schema outbox_router cascade");
    let given_up = fixture.switch(&["--older", "give-up"]).await;
    assert_eq!((given_up.exit, given_up.err.as_str()), (Exit::Done, ""), "{given_up:?}");
}

/// Which rows are in no topic, that table alone says.
#[tokio::test]
async fn nothing_is_marked_while_the_table_of_rows_that_were_left_out_is_gone() {
    let fixture = Fixture::start().await;
    let note = fixture.kafka.record().await.expect("a record").noting(Notes {
        any_left_out: true,
        by: Lsn::from_u64(8),
        writes: 2,
    });
    fixture.kafka.put("left-out", &note.expect("no row was left out before")).await;
    let refused = fixture.switch(&["--older", "give-up"]).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    let gone = "P038: the table outbox_router.left_out does not exist";
    assert!(refused.err.contains(gone), "{refused:?}");
    leave_out(&fixture.server, "none");
    fixture.server.sql(&format!(
        "{DECIDED}; create table outbox_router.note_version \
           (pipeline text primary key, writes bigint not null); \
         insert into outbox_router.note_version values ('outbox-router', 1)"
    ));
    let refused = fixture.switch(&["--older", "give-up"]).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    assert!(refused.err.contains("1 of 2 writes"), "{refused:?}");
    assert_eq!((fixture.pending().as_str(), fixture.slots().as_str()), ("1 2 3 4", "1"));
}

/// Its rows came with it, past every slot.
#[tokio::test]
async fn what_a_partition_had_before_it_was_attached_is_from_before() {
    let table = TABLE.replace("bigint primary key", "bigint not null");
    let partitioned = format!(
        "{table} partition by list (aggregate_type); \
         create table orders partition of outbox for values in ('order'); \
         alter table orders add primary key (id); alter table outbox add unique (id, aggregate_type)"
    );
    let fixture = Fixture::of(&partitioned).await;
    fixture.server.sql(
        "update outbox set published_at = now() where id < 3; \
         create table bills (like outbox including all); \
         insert into bills (id, aggregate_type) values (5, 'bill'); \
         alter table outbox attach partition bills for values in ('bill')",
    );
    let refused = fixture.switch(&[]).await;
    assert!(refused.err.contains("1 pending rows of public.outbox are from before"), "{refused:?}");
    let sent = fixture.switch(&["--older", "send"]).await;
    assert_eq!((sent.exit, sent.err.as_str()), (Exit::Done, ""), "{sent:?}");
    assert_eq!(fixture.pending(), "5");
}

#[tokio::test]
async fn rows_with_an_array_in_their_key_are_found_again() {
    let table = TABLE
        .replace("bigint primary key", "bigint not null")
        .replace("payload jsonb", "tags text[] not null default '{a,\"b c\"}', payload jsonb");
    let table = format!("{}, primary key (id, tags))", table.strip_suffix(')').expect("a table"));
    let fixture = Fixture::of(&table).await;
    fixture.server.sql("insert into outbox (id, tags) values (5, '{}'), (6, '{NULL}')");
    let sent = fixture.switch(&["--older", "send"]).await;
    assert_eq!((sent.exit, sent.err.as_str()), (Exit::Done, ""), "{sent:?}");
    assert_eq!((fixture.pending().as_str(), fixture.slots().as_str()), ("1 2 5 6", "0"));
}

/// The catalog shows that the publication was altered, and not that it withheld inserts meanwhile.
#[tokio::test]
async fn rows_from_before_an_alteration_of_the_publication_are_not_marked() {
    let fixture = Fixture::start().await;
    fixture.server.sql("update outbox set published_at = now() where id < 3");
    fixture.server.sql("alter publication outbox_router set (publish = 'update')");
    fixture.server.sql("insert into outbox (id) values (5)");
    fixture.server.sql("alter publication outbox_router set (publish = 'insert, truncate')");
    let refused = fixture.switch(&[]).await;
    assert!(refused.err.contains("3 pending rows of public.outbox are from before"), "{refused:?}");
    let sent = fixture.switch(&["--older", "send"]).await;
    assert_eq!((sent.exit, sent.err.as_str()), (Exit::Done, ""), "{sent:?}");
    assert_eq!((fixture.pending().as_str(), fixture.slots().as_str()), ("3 4 5", "0"));
}
