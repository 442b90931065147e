//! What `cleanup` takes for delivered: slot and witness past a horizon of its own, and nothing
//! open. A lagging, moved, replaced or missing slot shows nothing, so nothing is removed.

use std::sync::Arc;

use outbox_router::{cli::Exit, held::schema};
use pgoutput::{Oid, PgTimestamp, Xid};
use relay::{
    Lsn,
    delivered::{AgeColumn, EventsSince, FullXid, OlderRows, Place},
    held::{TableMark, TableVersion},
    source::{Catalog, History},
    witness::{LastTransaction, Notes},
};

use crate::{
    cleanup::{HOUR_AGO, INDEX, SLOT, SOURCE, TABLE, ids, insert, leave_out, outbox},
    delivered::{confirm, typed_as},
    kafka::StateCluster,
    server::{CommandOutput, Server},
};

const NOW: [&str; 8] = [
    "--set",
    "outbox.0.table=public.outbox",
    "--set",
    "retention.mode=delete",
    "--set",
    "retention.keep=0s",
    "--wait",
    "2s",
];

async fn cleanup(server: &Server, more: &[&str]) -> CommandOutput {
    typed_as(server, "postgres", &[&["cleanup", "--yes"], &NOW[..], more].concat()).await
}

#[track_caller]
fn refused(output: &CommandOutput, what: &str) {
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    assert!(output.err.contains(what), "{what} is not in:\n{}", output.err);
}

#[tokio::test]
async fn rows_that_the_slot_has_not_sent_stay() {
    let server = outbox();
    insert(&server, "d1", "now()");
    confirm(&server);
    insert(&server, "u1", "now() - interval '9 days'");
    let output = cleanup(&server, &[]).await;
    refused(&output, "has committed rows that are not delivered, and no router streams");
    assert!(output.err.contains("outbox-router status shows who is behind"), "{}", output.err);
    assert_eq!(ids(&server, "outbox"), "u1 d1");
}

/// No slot decodes what is not flushed.
#[tokio::test]
async fn rows_that_are_committed_and_not_flushed_yet_stay() {
    let server = outbox();
    server.sql("alter system set wal_writer_delay = '10s'");
    server.sql("select pg_reload_conf()");
    insert(&server, "d1", "now()");
    confirm(&server);
    let row = "insert into outbox (id, created_at) values ('u1', now())";
    server.sql(&format!("set synchronous_commit = off; {row}"));
    let output = cleanup(&server, &[]).await;
    // By the server's checkpoints and other processes it may be flushed all the same.
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    assert_eq!(ids(&server, "outbox"), "d1 u1");
}

/// The slot has nothing to send, because the transaction is still open when the horizon is taken.
/// Under a savepoint its rows have another id than the transaction.
#[tokio::test]
async fn rows_of_a_transaction_that_was_open_stay() {
    let server = outbox();
    server.sql(
        "create function slowly() returns void language plpgsql as 'begin \
           begin insert into outbox (id) values (''s1''); exception when others then raise; end; \
           perform pg_advisory_xact_lock(7); end'",
    );
    let gate = server.transaction("gate", "create table gate (); select pg_advisory_xact_lock(7)");
    let writer = server.transaction_that_waits("writer", "select slowly()");
    insert(&server, "d1", "now()");
    server.sql("begin; insert into outbox (id) values ('p1'); prepare transaction 'p'");
    insert(&server, "d2", "now()");
    confirm(&server);
    let first = cleanup(&server, &[]).await;
    assert_eq!((first.exit, first.err.as_str()), (Exit::Done, ""), "{first:?}");
    // What was written after the oldest open transaction has begun waits for it.
    assert!(first.out.contains("0 rows deleted, 2 kept: 0 younger than 0ms, 2 not delivered yet"));
    server.end_transaction("gate");
    server.wait_until("select exists (select from outbox where id = 's1')");
    server.sql("commit prepared 'p'");
    refused(&cleanup(&server, &[]).await, "has committed rows that are not delivered");
    assert_eq!(server.sql("select count(*) from outbox"), "4");
    confirm(&server);
    let last = cleanup(&server, &[]).await;
    assert!(last.out.contains("4 rows deleted, 0 kept"), "{last:?}");
    drop((gate, writer));
}

#[tokio::test]
async fn a_process_that_streams_and_does_not_confirm_is_waited_for() {
    let server = outbox();
    insert(&server, "u1", "now()");
    let reader = server.read_slot("outbox_router", "outbox_router");
    let output = cleanup(&server, &[]).await;
    refused(&output, "slot and witness did not pass ");
    assert!(output.err.contains("waiting until slot and witness have passed "), "{}", output.err);
    assert_eq!(ids(&server, "outbox"), "u1");
    drop(reader);
}

#[tokio::test]
async fn without_a_slot_nothing_is_removed() {
    let server = outbox();
    insert(&server, "d1", "now()");
    confirm(&server);
    server.sql("select pg_drop_replication_slot('outbox_router')");
    refused(&cleanup(&server, &[]).await, "slot \"outbox_router\" does not exist");
    assert_eq!(ids(&server, "outbox"), "d1");
}

#[tokio::test]
async fn what_the_publication_leaves_out_is_not_delivered() {
    let server = outbox();
    server.sql("alter publication outbox_router drop table outbox");
    insert(&server, "u1", "now()");
    confirm(&server);
    refused(&cleanup(&server, &[]).await, "public.outbox");
    assert_eq!(ids(&server, "outbox"), "u1");
}

/// With a witness beside the slot, as `setup` makes both.
struct Fixture {
    server: Server,
    kafka: StateCluster,
}

impl Fixture {
    async fn start() -> Self {
        let fixture = Self { server: Server::start(), kafka: StateCluster::start() };
        for statement in [TABLE, INDEX, SOURCE] {
            fixture.server.sql(statement);
        }
        let made = fixture.run(&["setup", "--apply"]).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        fixture
    }

    async fn run(&self, line: &[&str]) -> CommandOutput {
        let line = self.kafka.with(line);
        self.server.run_command(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    /// Moves the slot to the end of WAL and the witness to the slot, which relies on a table with
    /// so many open events. `None`: on none.
    async fn confirm_with(&self, open: Option<u64>) {
        confirm(&self.server);
        let mut known = self.kafka.record().await.expect("a record");
        let confirmed = self.server.sql("select confirmed_flush_lsn from pg_replication_slots");
        let confirmed = confirmed.parse().expect("a position");
        (known.generation, known.position) = (known.generation + 1, confirmed);
        known.held_table = open.map_or_else(TableMark::default, |open| TableMark {
            version: Some(TableVersion { origin: 7, writes: 3 }),
            open,
        });
        self.kafka.put("router", &known).await;
    }

    async fn cleanup(&self) -> CommandOutput {
        self.run(&[&["cleanup", "--yes"], &NOW[..]].concat()).await
    }
}

#[tokio::test]
async fn a_slot_that_was_advanced_by_hand_shows_nothing() {
    let fixture = Fixture::start().await;
    insert(&fixture.server, "u1", "now()");
    confirm(&fixture.server);
    refused(&fixture.cleanup().await, "P014");
    assert_eq!(ids(&fixture.server, "outbox"), "u1");
}

#[tokio::test]
async fn a_slot_that_was_made_again_shows_nothing() {
    let fixture = Fixture::start().await;
    insert(&fixture.server, "u1", "now()");
    fixture.server.sql("select pg_drop_replication_slot('outbox_router')");
    fixture.server.sql(SLOT);
    refused(&fixture.cleanup().await, "P014");
    assert_eq!(ids(&fixture.server, "outbox"), "u1");
}

#[tokio::test]
async fn without_a_router_rows_go_that_witness_and_slot_have_passed() {
    let fixture = Fixture::start().await;
    let output = fixture.cleanup().await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    insert(&fixture.server, "u1", "now()");
    refused(&fixture.cleanup().await, "has committed rows that are not delivered");
    assert_eq!(ids(&fixture.server, "outbox"), "u1");
}

#[tokio::test]
async fn while_the_witness_is_unknown_or_something_is_open_nothing_is_removed() {
    let fixture = Fixture::start().await;
    insert(&fixture.server, "u1", "now()");
    let unreachable = ["--set", "kafka.bootstrap_servers=127.0.0.1:1"];
    let state = ["--set", "kafka.state_topic=outbox-router.state"];
    let line = [&["cleanup", "--yes"], &NOW[..], &unreachable, &state].concat();
    refused(&fixture.server.run_command(&line).await, "the witness cannot be read");
    let witness = fixture.kafka.record().await.unwrap();
    let mut open = witness.clone();
    open.generation += 1;
    open.began_without = witness.checked.clone();
    fixture.kafka.put("router", &open).await;
    refused(&fixture.cleanup().await, "K022@");
    let torn_down = ["teardown", "--apply", "--yes", "--forget"];
    let output = fixture.run(&torn_down).await;
    assert_eq!(output.exit, Exit::Done, "{output:?}");
    fixture.server.sql(SOURCE.split(';').next().unwrap());
    fixture.server.sql(SLOT);
    confirm(&fixture.server);
    refused(&fixture.cleanup().await, "there is none in outbox-router.state");
    assert_eq!(ids(&fixture.server, "outbox"), "u1");
}

/// A promoted server has rows that were in no stream, and its slot may be a new one.
#[tokio::test]
async fn on_another_server_or_timeline_than_the_witness_names_nothing_is_removed() {
    let fixture = Fixture::start().await;
    let known = fixture.kafka.record().await.unwrap();
    let history = known.history.clone().unwrap();
    for (timeline, system_id) in [(history.timeline + 1, "7"), (history.timeline, "7")] {
        let mut elsewhere = known.clone();
        elsewhere.generation += 1;
        let system_id = if timeline == history.timeline { system_id } else { &history.system_id };
        elsewhere.history = Some(History { system_id: system_id.to_owned(), timeline });
        fixture.kafka.put("router", &elsewhere).await;
        refused(&fixture.cleanup().await, "the acknowledged events come from another server");
    }
}

/// The server may have been taken back to an earlier state, in which it has written other rows.
#[tokio::test]
async fn a_slot_that_does_not_send_the_last_transaction_again_shows_nothing() {
    let fixture = Fixture::start().await;
    insert(&fixture.server, "d1", "now()");
    confirm(&fixture.server);
    let mut known = fixture.kafka.record().await.unwrap();
    let at: Lsn = fixture.server.sql("select pg_current_wal_lsn()").parse().unwrap();
    let committed = Lsn::from_u64(at.as_u64() - 1);
    known.last = Some(LastTransaction {
        commit_lsn: at,
        end_lsn: at,
        xid: Xid::from_u32(7),
        committed_at: PgTimestamp::from_micros(1),
    });
    (known.generation, known.position) = (known.generation + 1, at);
    assert!(committed < at);
    fixture.kafka.put("router", &known).await;
    fixture.server.sql("create table other ()");
    refused(&fixture.cleanup().await, "does not send it again");
    assert_eq!(ids(&fixture.server, "outbox"), "d1");
}

/// The slot sends nothing that was written before the table was in the publication.
/// No slot sends what was written before the first one was made, which is when `setup` looks.
#[tokio::test]
async fn rows_older_than_the_first_slot_stay_until_a_person_gives_them_up() {
    let fixture = Fixture { server: Server::start(), kafka: StateCluster::start() };
    let server = &fixture.server;
    for statement in [TABLE, INDEX, SOURCE] {
        server.sql(statement);
    }
    insert(server, "lost", HOUR_AGO);
    insert(server, "updated", HOUR_AGO);
    let made = fixture.run(&["setup", "--apply"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    insert(server, "sent", "now()");
    // The transaction is an event's by its id alone.
    server.sql("update outbox set event_type = 'd' where id = 'updated'");
    fixture.confirm_with(None).await;
    let output = fixture.cleanup().await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    assert!(output.out.contains("1 rows deleted, 2 kept"), "{output:?}");
    assert!(output.out.contains("2 from before the table was an outbox"), "{output:?}");
    assert_eq!(ids(server, "outbox"), "lost updated");
    let output = fixture.run(&[&["cleanup", "--yes", "--older"], &NOW[..]].concat()).await;
    assert!(output.out.contains("2 rows deleted"), "{output:?}");
}

/// The catalog shows that the publication was altered, and not that it withheld inserts meanwhile.
#[tokio::test]
async fn rows_from_before_an_alteration_stay_until_a_person_gives_them_up() {
    let fixture = Fixture::start().await;
    let server = &fixture.server;
    insert(server, "sent", "now()");
    server.sql("alter publication outbox_router set (publish = 'update')");
    insert(server, "lost", "now()");
    server.sql("alter publication outbox_router set (publish = 'insert, truncate')");
    confirm(server);
    let mut known = fixture.kafka.record().await.unwrap();
    known.generation += 1;
    known.position =
        server.sql("select confirmed_flush_lsn from pg_replication_slots").parse().unwrap();
    fixture.kafka.put("router", &known).await;
    let output = fixture.cleanup().await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    assert!(output.out.contains("2 from before the table was an outbox"), "{output:?}");
    assert_eq!(ids(server, "outbox"), "sent lost");
    let output = fixture.run(&[&["cleanup", "--yes", "--older"], &NOW[..]].concat()).await;
    assert!(output.out.contains("2 rows deleted"), "{output:?}");
}

#[tokio::test]
async fn rows_of_a_table_that_joined_later_stay_until_a_person_gives_them_up() {
    let fixture = Fixture::start().await;
    let server = &fixture.server;
    server.sql(&TABLE.replace("table outbox", "table outbox_b"));
    server.sql("create index on outbox_b (created_at)");
    server.sql("insert into outbox_b (id) values ('lost')");
    let both = ["--set", "outbox.1.table=public.outbox_b"];
    let of_first = &NOW[..2];
    let joined = fixture.run(&[&["setup", "--apply"], of_first, &both].concat()).await;
    assert_eq!(joined.exit, Exit::Done, "{joined:?}");
    // What the first session of a router that knows the table writes.
    let mut known = fixture.kafka.record().await.unwrap();
    let oid: u32 = server.sql("select 'outbox_b'::regclass::oid").parse().unwrap();
    known.generation += 1;
    known.tables.push(Oid::from_u32(oid));
    let [next, micros] = [
        "select pg_snapshot_xmax(pg_current_snapshot())",
        "select (extract(epoch from now() - timestamptz '2000-01-01 00:00+00') * 1000000)::int8",
    ]
    .map(|sql| server.sql(sql));
    let number = "select attnum from pg_attribute where attrelid = 'outbox_b'::regclass \
                  and attname = 'created_at'";
    let number = server.sql(number).parse().unwrap();
    let by = AgeColumn::Column { number, type_oid: 1_184, is_never_null: true };
    let at = PgTimestamp::from_micros(micros.parse().unwrap());
    let older = Some(OlderRows { at, by });
    let since = EventsSince { xid: FullXid::from_u64(next.parse().unwrap()), older };
    Arc::make_mut(&mut known.since).insert(Place::table(Oid::from_u32(oid)), since);
    known.catalog = Catalog::default();
    server.sql("insert into outbox_b (id) values ('sent')");
    // An UPDATE gives it a transaction that looks like an event's; its time stays.
    server.sql("update outbox_b set event_type = 'd' where id = 'lost'");
    confirm(server);
    known.position =
        server.sql("select confirmed_flush_lsn from pg_replication_slots").parse().unwrap();
    fixture.kafka.put("router", &known).await;
    let typed = |more| [&["cleanup", "--yes"], &NOW[..], &both, more].concat();
    let output = fixture.run(&typed(&[])).await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    assert!(output.out.contains("1 from before the table was an outbox"), "{output:?}");
    assert_eq!(ids(server, "outbox_b"), "lost");
    for altered in [
        // NOT NULL is another, and an UPDATE gave rows their times.
        "alter column created_at drop not null; update outbox_b set created_at = now()",
        // The times are other ones.
        "alter column created_at drop default, \
         alter column created_at type bigint using (extract(epoch from now()) * 1000)::bigint",
        // The column is another one, in which each row has the time of this.
        "drop column created_at, add column created_at timestamptz not null default now()",
    ] {
        server.sql(&format!(
            "alter table outbox_b {altered}; create index on outbox_b (created_at); \
             update outbox_b set event_type = 'e'"
        ));
        confirm(server);
        known.position =
            server.sql("select confirmed_flush_lsn from pg_replication_slots").parse().unwrap();
        known.generation += 1;
        fixture.kafka.put("router", &known).await;
        let output = fixture.run(&typed(&[])).await;
        assert!(output.out.contains("1 from before the table was an outbox"), "{output:?}");
        assert_eq!(ids(server, "outbox_b"), "lost");
    }
    let ann = ["--by", "ann", "--reason", "tried in May"];
    let output = fixture.run(&typed(&[&["--older"], &ann[..]].concat())).await;
    assert!(output.out.contains("public.outbox_b: 1 rows deleted"), "{output:?}");
    assert_eq!(ids(server, "outbox_b"), "");
    let noted = "select concat_ws(' | ', command, selection::json ->> 'tables', decided_by, reason, \
                 outcome) from outbox_router.republication";
    assert_eq!(
        server.sql(noted),
        "cleanup | [\"public.outbox\",\"public.outbox_b\"] | ann as postgres | tried in May | \
         complete: 1 rows removed, those from before among them"
    );
}

/// Nothing but that table has the events.
#[tokio::test]
async fn rows_stay_while_the_table_is_gone_in_which_their_events_were_open() {
    let fixture = Fixture::start().await;
    let server = &fixture.server;
    fixture.confirm_with(None).await;
    insert(server, "u1", "now()");
    fixture.confirm_with(Some(1)).await;
    let more = [&[][..], &["--older"], &["--set", "retention.mode=drop_partitions"]];
    for more in more {
        let output = fixture.run(&[&["cleanup", "--yes"], &NOW[..], more].concat()).await;
        refused(&output, "P036: the table outbox_router.held does not exist; it had 1 open events");
        assert!(output.err.contains("setup --apply --admin-url"), "{}", output.err);
    }
    // It is made again, and has nothing of what it had.
    for statement in schema::statements(None) {
        server.sql(&statement.sql);
    }
    refused(&fixture.cleanup().await, "P037@");
    server.sql("drop table outbox_router.held");
    refused(&fixture.cleanup().await, "P036: the table outbox_router.held does not exist");
    assert_eq!(ids(server, "outbox"), "u1");
    // Every event has left the table since.
    fixture.confirm_with(Some(0)).await;
    let output = fixture.cleanup().await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    assert_eq!(ids(server, "outbox"), "");
}

/// An acceptance has taken back what the witness had of the table, or no router has written it.
#[tokio::test]
async fn rows_stay_while_the_table_is_gone_and_what_counts_its_events_is_there() {
    let fixture = Fixture::start().await;
    let server = &fixture.server;
    for statement in schema::statements(None) {
        server.sql(&statement.sql);
    }
    insert(server, "u1", "now()");
    fixture.confirm_with(None).await;
    server.sql(
        "insert into outbox_router.held_version (pipeline, slot, system_id, writes, open) \
         values ('outbox-router', 'outbox_router', 'x', 7, 2); drop table outbox_router.held",
    );
    let gone = "P036: the table outbox_router.held does not exist; it had 2 open events";
    refused(&fixture.cleanup().await, gone);
    assert_eq!(ids(server, "outbox"), "u1");
}

/// No line says any more which rows are in no topic.
#[tokio::test]
async fn rows_stay_while_the_table_of_those_that_were_left_out_is_gone() {
    let fixture = Fixture::start().await;
    let server = &fixture.server;
    insert(server, "bad", HOUR_AGO);
    insert(server, "o1", HOUR_AGO);
    leave_out(server, "bad");
    fixture.confirm_with(None).await;
    let note = fixture
        .kafka
        .record()
        .await
        .unwrap()
        .noting(Notes { any_left_out: true, by: Lsn::from_u64(8), writes: 0 })
        .unwrap();
    fixture.kafka.put("left-out", &note).await;
    let output = fixture.cleanup().await;
    assert!(output.out.contains("1 rows deleted, 1 kept"), "{output:?}");
    server.sql("drop schema outbox_router cascade");
    for more in [&[][..], &["--older"], &["--set", "retention.mode=drop_partitions"]] {
        let output = fixture.run(&[&["cleanup", "--yes"], &NOW[..], more].concat()).await;
        refused(&output, "P038");
    }
    let output = fixture.cleanup().await;
    refused(&output, "the table outbox_router.left_out does not exist, and rows were noted in it");
    assert_eq!(ids(server, "outbox"), "bad");
    // A person says that nothing is missing.
    let (_, make) = output.err.split_once("this says so: ").expect("a statement");
    server.sql(make.lines().next().unwrap());
    let output = fixture.cleanup().await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    assert_eq!(ids(server, "outbox"), "");
}

/// A copy of the server from before two notes has taken its place.
#[tokio::test]
async fn rows_stay_while_the_witness_counts_more_notes_than_the_server_has() {
    let fixture = Fixture::start().await;
    let server = &fixture.server;
    insert(server, "o1", HOUR_AGO);
    fixture.confirm_with(None).await;
    let noted = Notes { writes: 2, ..Notes::default() };
    let note = fixture.kafka.record().await.unwrap().noting(noted).unwrap();
    fixture.kafka.put("left-out", &note).await;
    for writes in [None, Some(1)] {
        if let Some(writes) = writes {
            server.sql(&format!(
                "create schema outbox_router; create table outbox_router.note_version \
                   (pipeline text primary key, writes bigint not null); \
                 insert into outbox_router.note_version values ('outbox-router', {writes})"
            ));
        }
        let what = format!("the server has {} of 2 writes of notes", writes.unwrap_or(0));
        refused(&fixture.cleanup().await, &what);
        assert_eq!(ids(server, "outbox"), "o1");
    }
    server.sql("update outbox_router.note_version set writes = 2");
    let output = fixture.cleanup().await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    assert_eq!(ids(server, "outbox"), "");
}

/// Rows of an earlier slot, or of a back-fill before there is a witness.
#[tokio::test]
async fn the_first_witness_has_that_rows_were_left_out() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.kafka.record().await.unwrap().notes, Notes::default());
    leave_out(&fixture.server, "bad");
    let again = fixture.run(&["setup", "--apply"]).await;
    assert_eq!(again.exit, Exit::Done, "{again:?}");
    let notes = fixture.kafka.record().await.unwrap().notes;
    assert!(notes.any_left_out && notes.by > Lsn::ZERO, "{notes:?}");
    let forgotten = fixture.run(&["teardown", "--apply", "--yes", "--forget"]).await;
    assert_eq!(forgotten.exit, Exit::Done, "{forgotten:?}");
    let made = fixture.run(&["setup", "--apply"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let after = fixture.kafka.record().await.unwrap().notes;
    assert!(after.any_left_out && after.by > notes.by, "{after:?}, and {notes:?} before");
}
