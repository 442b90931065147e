//! `cleanup` with `retention.mode = "drop_partitions"`: which partitions it drops, which stay, and
//! how it goes on where a process was killed. No router runs: a test moves the slot where a router
//! would have confirmed.

use std::sync::Arc;

use outbox_router::{cli::Exit, held::schema};
use relay::delivered::{EventsSince, FullXid};
use serde_json::Value;

use crate::{
    cleanup::{DECIDED, SLOT, SOURCE, ids, insert, leave_out},
    delivered::{confirm, confirm_since, typed_as},
    server::{CommandOutput, Server},
};

const TABLE: &str = "\
create table outbox (id text, aggregate_type text not null default 'a', \
  aggregate_id text not null default 'b', event_type text not null default 'c', payload jsonb, \
  created_at timestamptz not null default now(), primary key (id, created_at)) \
partition by range (created_at)";

/// An outbox with a partition for each of the three hours before the test began, named `old_3` to
/// `old_1` after how many hours ago they begin.
fn outbox() -> Server {
    with(&[])
}

fn with(more: &[&str]) -> Server {
    let server = Server::start();
    server.sql(TABLE);
    server.sql("create table beginning as select now() as at");
    for ago in [3, 2, 1] {
        let [from, to] = [ago, ago - 1].map(|hours| {
            server.sql(&format!("select at - interval '{hours} hours' from beginning"))
        });
        server.sql(&format!(
            "create table old_{ago} partition of outbox for values from ('{from}') to ('{to}')"
        ));
    }
    for statement in more {
        server.sql(statement);
    }
    server.sql(SOURCE);
    server.sql(SLOT);
    server
}

/// A row of that hour.
fn row(server: &Server, id: &str, ago: i32) {
    insert(server, id, &at(ago));
}

fn at(ago: i32) -> String {
    format!("(select at - interval '{ago} hours' + interval '1 minute' from beginning)")
}

const SETTINGS: [&str; 10] = [
    "--set",
    "outbox.0.table=public.outbox",
    "--set",
    "retention.mode=drop_partitions",
    "--set",
    "retention.keep=30m",
    "--set",
    "retention.partition_by=1h",
    "--set",
    "retention.lock_timeout=300ms",
];

async fn cleanup_as(server: &Server, user: &str, more: &[&str]) -> CommandOutput {
    let line = [&["cleanup"], &SETTINGS[..], more].concat();
    typed_as(server, user, &line).await
}

async fn cleanup(server: &Server) -> CommandOutput {
    cleanup_as(server, "postgres", &["--yes"]).await
}

#[track_caller]
fn done(output: &CommandOutput) -> &str {
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{}", output.out);
    &output.out
}

#[track_caller]
fn refused<'o>(output: &'o CommandOutput, what: &str) -> &'o str {
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    assert!(output.err.contains(what), "{what} is not in:\n{}", output.err);
    &output.err
}

/// Of these tables, those that exist.
fn existing(server: &Server) -> String {
    server.sql(
        "select coalesce(string_agg(relname, ' ' order by relname), '') from pg_class \
         where relkind in ('r', 'p') and relname like 'old%'",
    )
}

/// How many rows the slot has that were not confirmed.
fn sent(server: &Server) -> String {
    server.sql(
        "select count(*) from pg_logical_slot_peek_binary_changes('outbox_router', null, null, \
           'proto_version', '1', 'publication_names', 'outbox_router') \
         where get_byte(data, 0) = ascii('I')",
    )
}

#[tokio::test]
async fn a_row_that_was_left_out_keeps_its_partition_until_a_person_decides() {
    let server = outbox();
    row(&server, "a", 3);
    row(&server, "b", 3);
    confirm(&server);
    leave_out(&server, "b");
    for more in [&["--yes"][..], &["--yes", "--older"]] {
        let kept = cleanup_as(&server, "postgres", more).await;
        assert!(done(&kept).contains("2 held"), "{kept:?}");
        assert!(existing(&server).contains("old_3"), "{kept:?}");
        assert_eq!(ids(&server, "outbox"), "a b", "{more:?}");
    }
    server.sql(DECIDED);
    assert!(done(&cleanup(&server).await).contains("2 rows dropped with their partitions"));
    assert!(!existing(&server).contains("old_3"));
}

/// What an earlier version has written before it detached a partition.
fn mark(server: &Server, partition: &str) {
    server.sql(&format!(
        "do $$ begin execute format('comment on table {partition} is %L', \
         'outbox_router.retention of ' || 'outbox'::regclass::oid || ': is detached'); end $$"
    ));
}

#[tokio::test]
async fn delivered_partitions_are_dropped_when_they_are_old_and_others_are_made_ahead() {
    let server = outbox();
    for (id, ago) in [("a", 3), ("b", 3), ("c", 2), ("d", 1)] {
        row(&server, id, ago);
    }
    confirm(&server);
    let dry = cleanup_as(&server, "postgres", &["--dry-run"]).await;
    assert!(
        done(&dry).starts_with("public.outbox: 3 rows to drop with their partitions, 1 kept: 1 "),
        "{dry:?}"
    );
    assert_eq!(existing(&server), "old_1 old_2 old_3");
    let real = cleanup_as(&server, "postgres", &["--yes", "--json"]).await;
    let json: Value = serde_json::from_str(done(&real)).unwrap();
    let table = &json["tables"][0];
    assert_eq!((&json["mode"], &table["removed"]), (&"drop_partitions".into(), &3.into()));
    // The rest of this hour, and seven behind it.
    assert_eq!(table["partitions_made"], 8);
    assert_eq!(table["kept"]["young"], 1);
    assert_eq!((existing(&server), ids(&server, "outbox")), ("old_1".into(), "d".into()));
    let names = "select count(*) from pg_class c join pg_index i on i.indrelid = c.oid \
                 where c.relname ~ '^outbox_p[0-9]{8}(_[0-9]{6}){0,2}$' and i.indisprimary";
    assert_eq!(server.sql(names), "8");
    insert(&server, "now", "now()");
    insert(&server, "soon", "now() + interval '6 hours'");
    confirm(&server);
    let hour = "select date_trunc('hour', now())";
    let begun = server.sql(hour);
    let again = cleanup(&server).await;
    // At the turn of an hour there is one more.
    let is_over = server.sql(hour) != begun;
    assert!(is_over || !done(&again).contains("partitions made"), "{again:?}");
}

#[tokio::test]
async fn a_partition_with_a_row_that_is_not_confirmed_stays() {
    let server = outbox();
    row(&server, "a", 3);
    row(&server, "b", 2);
    confirm(&server);
    row(&server, "c", 3);
    // Everything behind the oldest transaction is not covered, whatever the slot says.
    let open = server.open_transaction("open");
    row(&server, "d", 2);
    confirm(&server);
    assert!(done(&cleanup(&server).await).contains("2 rows dropped"));
    assert_eq!(existing(&server), "old_1 old_2");
    server.end_transaction("open");
    drop(open);
    row(&server, "e", 1);
    let unconfirmed = cleanup(&server).await;
    refused(&unconfirmed, "has committed rows that are not delivered, and no router streams");
    confirm(&server);
    assert!(done(&cleanup(&server).await).contains("2 rows dropped"));
    assert_eq!(existing(&server), "old_1");
}

/// The first look does not see what a transaction has written that is open, and the lock before the
/// second one waits for it: for one that has written its row, or wrote it to the partition itself,
/// and for a statement that has written some of its rows.
#[tokio::test]
async fn a_row_that_is_committed_between_the_looks_is_kept_until_it_is_delivered() {
    let server = Arc::new(outbox());
    row(&server, "a", 3);
    confirm(&server);
    let (time, lock) = (at(3), "pg_advisory_xact_lock(1)");
    let into = |table: &str| {
        format!("insert into {table} (id, created_at) values ('{table}', {time}); select {lock}")
    };
    let middle = format!(
        "insert into outbox (id, created_at) select concat('s', n, \
           case n when 25 then (select {lock})::text end), {time} from generate_series(1, 50) n"
    );
    for (writer, statement, rows) in
        [("late", into("outbox"), 1), ("by_name", into("old_3"), 1), ("middle", middle, 50)]
    {
        let gate = format!("create table of_{writer} (); select pg_advisory_lock(1)");
        let held = server.transaction("locker", &gate);
        let late = server.transaction_that_waits(writer, &statement);
        let ends = |server: &Server| {
            server.end_transaction("locker");
            server
                .wait_until("select not exists (select from pg_locks where locktype = 'advisory')");
        };
        let meanwhile = Arc::clone(&server);
        let commit = tokio::task::spawn_blocking(move || {
            waits_for_writers(&meanwhile);
            ends(&meanwhile);
        });
        nothing_is_dropped(&server, rows, commit).await;
        drop((held, late));
    }
    let time = server.sql(&format!("select {time}"));
    let lines: String = (0..2_000).map(|n| format!("c{n}\t{time}\n")).collect();
    let copy = ("copy outbox (id, created_at) from stdin", &*lines);
    let mut copying = server.copy_of_which_more_comes("copy", copy, "old_3");
    let meanwhile = Arc::clone(&server);
    let commit = tokio::task::spawn_blocking(move || {
        waits_for_writers(&meanwhile);
        copying.end_input();
    });
    nothing_is_dropped(&server, 2_000, commit).await;
    assert!(done(&cleanup(&server).await).contains("2053 rows dropped"));
    assert_eq!(existing(&server), "old_1");
}

/// Waits until `cleanup` waits for a transaction that writes to the partition.
fn waits_for_writers(server: &Server) {
    server.wait_until(
        "select exists (select from pg_locks where relation = 'old_3'::regclass \
         and mode = 'ShareLock' and not granted)",
    );
}

/// That `cleanup` drops no partition while so many rows are committed, which the slot has then.
async fn nothing_is_dropped(server: &Server, rows: u32, commit: tokio::task::JoinHandle<()>) {
    let before = server.sql("select count(*) from old_3");
    // The slot is asked up to the end of WAL, which only a commit writes out at once.
    server.sql(&format!("create table flushed_{rows}_{before} ()"));
    let patient = ["--yes", "--set", "retention.lock_timeout=20s"];
    let output = cleanup_as(server, "postgres", &patient).await;
    commit.await.expect("committed");
    let kept = before.parse::<u32>().expect("a number") + rows;
    let expected = format!(
        "0 rows dropped with their partitions, {kept} kept: 0 younger than 30m, {kept} not"
    );
    assert!(done(&output).contains(&expected), "{output:?}");
    assert!(existing(server).contains("old_3"), "{output:?}");
    assert_eq!(
        (sent(server), server.sql("select count(*) from old_3")),
        (rows.to_string(), kept.to_string())
    );
    confirm(server);
}

/// A transaction of REPEATABLE READ writes to every partition of its snapshot, also to one that is
/// half detached, and pgoutput would not send what it writes there.
#[tokio::test]
async fn no_partition_is_detached_under_a_transaction_that_may_still_write_to_it() {
    let server = Arc::new(outbox());
    row(&server, "a", 3);
    confirm(&server);
    let gate = server.transaction("gate", "create table gate (); select pg_advisory_lock(1)");
    let write = format!(
        "set transaction isolation level repeatable read; select count(*) from outbox; \
         create table other (); select pg_advisory_xact_lock(1); \
         insert into outbox (id, created_at) values ('late', {})",
        at(3)
    );
    let writer = server.transaction_that_waits("writer", &write);
    refused(&cleanup(&server).await, "lock timeout");
    assert_eq!(server.sql("select count(*) from pg_inherits where inhdetachpending"), "0");
    server.end_transaction("gate");
    server.wait_until("select exists (select from old_3 where id = 'late')");
    drop((gate, writer));
    assert_eq!(sent(&server), "1", "the stream has the row");
    refused(&cleanup(&server).await, "has committed rows that are not delivered");
    assert_eq!(ids(&server, "old_3"), "a late");
    confirm(&server);
    assert!(done(&cleanup(&server).await).contains("2 rows dropped"));
    assert_eq!(existing(&server), "old_1");
}

#[tokio::test]
async fn a_partition_with_an_open_event_stays_and_others_go() {
    // The table of held events has the blanks of the id, which a cast to text would cut.
    let server = with(&["alter table outbox alter id type char(20)"]);
    for statement in schema::statements(None) {
        server.sql(&statement.sql);
    }
    for (id, ago) in [("a", 3), ("held", 3), ("c", 2)] {
        row(&server, id, ago);
    }
    confirm(&server);
    server.sql(
        "insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, committed_at, \
         key_hash, event_id, table_name, messages, state, closed_at) values ('outbox-router', \
         'outbox_router', '0/1', 0, now(), '', rpad('held', 20), 'public.outbox', '', 'held', \
         now())",
    );
    let output = cleanup(&server).await;
    assert!(
        done(&output).contains(
            "1 rows dropped with their partitions, 2 kept: 0 younger than 30m, 0 not delivered yet, \
             2 held"
        ),
        "{output:?}"
    );
    assert_eq!(existing(&server), "old_1 old_3");
    server.sql("update outbox_router.held set state = 'dropped'");
    done(&cleanup(&server).await);
    assert_eq!(existing(&server), "old_1");
}

/// What has no end, or no rows of a time, is never dropped.
#[tokio::test]
async fn the_default_partition_and_unbounded_and_divided_ones_stay() {
    let server = with(&[
        "create table old_default partition of outbox default",
        "create table old_first partition of outbox for values from (minvalue) \
         to ('2000-01-01 00:00:00+00')",
        "create table old_divided partition of outbox for values from ('2000-01-01 00:00:00+00') \
         to ('2001-01-01 00:00:00+00') partition by hash (id)",
        "create table old_divided_1 partition of old_divided for values with (modulus 1, \
         remainder 0)",
    ]);
    for (id, time) in [
        ("first", "'1999-01-01'"),
        ("divided", "'2000-06-01'"),
        ("default", "now() - interval '100 hours'"),
    ] {
        insert(&server, id, time);
    }
    row(&server, "a", 3);
    confirm(&server);
    // A default partition forbids DETACH CONCURRENTLY.
    assert!(done(&cleanup(&server).await).contains("1 rows dropped"));
    assert_eq!(existing(&server), "old_1 old_default old_divided old_divided_1 old_first");
    assert_eq!(ids(&server, "outbox"), "first divided default");
}

#[tokio::test]
async fn rows_in_the_default_partition_that_belong_into_a_new_one_are_named() {
    let server = with(&["create table old_default partition of outbox default"]);
    insert(&server, "now", "now()");
    row(&server, "a", 3);
    confirm(&server);
    let output = cleanup(&server).await;
    let err = refused(&output, "because the default partition has rows of its time");
    assert!(err.contains("P038") && err.contains("detach partition \"public\".\"old_default\""));
    // What is old goes all the same.
    assert_eq!(existing(&server), "old_1 old_default");
}

#[tokio::test]
async fn a_role_that_does_not_own_the_table_is_told_the_grant() {
    let server = outbox();
    server.sql("create role app; alter table outbox owner to app; alter table old_2 owner to app");
    row(&server, "a", 3);
    row(&server, "b", 2);
    confirm(&server);
    let output = cleanup_as(&server, "cleaner", &["--yes"]).await;
    let err = refused(&output, "table public.outbox is owned by \"app\"");
    assert!(err.contains("grant \"app\" to \"cleaner\""), "{err}");
    server.sql("grant app to cleaner");
    let output = cleanup_as(&server, "cleaner", &["--yes"]).await;
    refused(&output, "may not make its partitions in schema \"public\"");
    server.sql("grant usage, create on schema public to app");
    let output = cleanup_as(&server, "cleaner", &["--yes"]).await;
    let err = refused(&output, "partition public.old_3 is owned by \"postgres\"");
    assert!(err.contains("grant \"postgres\" to \"cleaner\""), "{err}");
    assert_eq!(existing(&server), "old_1 old_3");
    let owners = "select distinct pg_get_userbyid(relowner) from pg_class \
                  where relname like 'outbox_p%' and relkind = 'r'";
    assert_eq!(server.sql(owners), "app");
}

#[tokio::test]
async fn what_cannot_be_handled_is_refused_with_what_to_do() {
    let plain = crate::cleanup::outbox();
    refused(&cleanup(&plain).await, "public.outbox is not partitioned, so it has no partitions");
    for (key, told) in [
        ("list (created_at)", "is partitioned by LIST (created_at)"),
        ("hash (created_at)", "is partitioned by HASH (created_at)"),
        ("range (created_at, id)", "is partitioned by RANGE (created_at, id)"),
        ("range (id)", "is partitioned by RANGE (id)"),
        (
            "range ((created_at at time zone 'UTC'))",
            "is partitioned by RANGE ((created_at AT TIME ZONE",
        ),
    ] {
        let server = Server::start();
        let unkeyed = TABLE.replace(", primary key (id, created_at)", "");
        server.sql(&unkeyed.replace("range (created_at)", key));
        server.sql(SOURCE);
        server.sql(SLOT);
        refused(&cleanup(&server).await, told);
    }
}

/// Rows that were written to it since are in no stream, and nothing tells them from the others.
#[tokio::test]
async fn a_half_detached_partition_stays_and_is_named() {
    let server = outbox();
    row(&server, "a", 3);
    row(&server, "b", 2);
    confirm(&server);
    // The first half of DETACH CONCURRENTLY is written, and the other waits for this reader.
    let reader = server.transaction("reader", "create table other (); table outbox");
    let detach = "alter table outbox detach partition old_2 concurrently";
    assert!(!server.try_sql(&["set lock_timeout = '100ms'", detach]));
    assert_eq!(server.sql("select count(*) from pg_inherits where inhdetachpending"), "1");
    server.end_transaction("reader");
    drop(reader);
    server.sql(&format!("insert into old_2 (id, created_at) values ('lost', {})", at(2)));
    assert_eq!(sent(&server), "0", "the stream leaves the row out");
    row(&server, "c", 1);
    assert_eq!(sent(&server), "1", "and no row of another partition");
    confirm(&server);
    let output = cleanup(&server).await;
    let err = refused(&output, "partition public.old_2 is half detached");
    assert!(err.contains("detach partition \"public\".\"old_2\" finalize"), "{err}");
    assert!(output.out.contains("1 rows dropped with their partitions"), "{output:?}");
    assert_eq!((existing(&server), ids(&server, "old_2")), ("old_1 old_2".into(), "b lost".into()));
}

#[tokio::test]
async fn a_partition_that_a_person_has_detached_stays() {
    let server = outbox();
    row(&server, "a", 3);
    row(&server, "b", 2);
    confirm(&server);
    server.sql("alter table outbox detach partition old_3");
    assert!(done(&cleanup(&server).await).contains("1 rows dropped"));
    assert_eq!((existing(&server), ids(&server, "old_3")), ("old_1 old_3".into(), "a".into()));
}

/// Earlier versions detached partitions before they dropped them. A row that was written then is in
/// no topic, and neither a GRANT nor a later position may hide that.
#[tokio::test]
async fn a_table_that_an_earlier_version_has_detached_stays_and_is_named() {
    let server = outbox();
    row(&server, "a", 3);
    mark(&server, "old_3");
    server.sql("alter table outbox detach partition old_3 concurrently");
    server.sql(&format!("insert into old_3 (id, created_at) values ('lost', {})", at(3)));
    server.sql("grant select on old_3 to public");
    row(&server, "b", 2);
    confirm(&server);
    let output = cleanup(&server).await;
    let err = refused(&output, "public.old_3 was detached by an earlier version");
    assert!(err.contains("comment on table \"public\".\"old_3\" is null"), "{err}");
    assert!(output.out.contains("1 rows dropped with their partitions"), "{output:?}");
    assert_eq!((existing(&server), ids(&server, "old_3")), ("old_1 old_3".into(), "a lost".into()));
    server.sql("comment on table old_3 is null");
    done(&cleanup(&server).await);
    assert_eq!(existing(&server), "old_1 old_3");
}

/// What was in a table before it became a partition was in no stream, also what the attaching
/// transaction wrote under a savepoint. What is written to one that the record knows from before
/// its first row was.
#[tokio::test]
async fn rows_from_before_their_table_was_a_partition_keep_it() {
    let server = outbox();
    let bounds = |hours: i32| {
        let at =
            |hours| server.sql(&format!("select at - interval '{hours} hours' from beginning"));
        (at(hours), format!("for values from ('{}') to ('{}')", at(hours), at(hours - 1)))
    };
    let row = |place: &str, id: &str, from: &str| {
        format!(
            "insert into {place} (id, created_at) \
             values ('{id}', timestamptz '{from}' + interval '1m')"
        )
    };
    for (hours, name) in [(9, "old_9"), (7, "old_7"), (5, "old_5")] {
        let (from, of) = bounds(hours);
        let (lost, sent) = (row(name, &format!("lost {hours}"), &from), row("outbox", name, &from));
        server.script(&match hours {
            9 => format!("create table {name} partition of outbox {of}; {sent};"),
            7 => format!(
                "begin; create table {name} (like outbox including all); savepoint s; {lost}; \
                 release s; alter table outbox attach partition {name} {of}; {sent}; commit;"
            ),
            _ => format!(
                "begin; create table {name} (like outbox including all) partition by hash (id); \
                 create table old_51 partition of {name} for values with (modulus 1, remainder 0); \
                 {lost}; alter table outbox attach partition {name} {of}; {sent}; commit;"
            ),
        });
    }
    // Seen by a router before it had rows.
    let (from, of) = bounds(8);
    server.sql("create table old_8 (like outbox including all)");
    server.sql(&format!("alter table outbox attach partition old_8 {of}"));
    server.sql(&row("outbox", "sent 8", &from));
    // A table of its own for a while; no router has seen it since.
    let (from, of) = bounds(6);
    server.sql("create table old_6 (like outbox including all)");
    server.sql(&row("old_6", "lost 6", &from));
    server.sql(&format!("alter table outbox attach partition old_6 {of}"));
    let next = server.sql("select pg_snapshot_xmax(pg_current_snapshot())").parse().unwrap();
    confirm_since(&server, |name| match name {
        "old_7" | "old_5" => Some(EventsSince { xid: FullXid::from_u64(next), older: None }),
        "old_6" => None,
        _ => Some(EventsSince::FIRST_ROW),
    });
    let output = cleanup(&server).await;
    assert!(
        done(&output).contains(
            "2 rows dropped with their partitions, 5 kept: 2 younger than 30m, 0 not delivered yet, \
             0 held, 3 from before the table was an outbox"
        ),
        "{output:?}"
    );
    assert_eq!(
        (existing(&server), ids(&server, "outbox")),
        ("old_1 old_5 old_51 old_6 old_7".into(), "lost 7 old_7 lost 6 lost 5 old_5".into())
    );
    assert!(done(&cleanup_as(&server, "postgres", &["--yes", "--older"]).await).contains("3 rows"));
    assert_eq!(existing(&server), "old_1 old_5 old_51");
    // Partitions that are divided are never dropped; row by row they can be emptied.
    let rows = ["--yes", "--slow", "--older", "--set", "retention.mode=delete"];
    let output = cleanup_as(&server, "postgres", &rows).await;
    assert!(done(&output).contains("2 rows deleted"), "{output:?}");
    assert_eq!(ids(&server, "outbox"), "");
}

/// A session that uses the table is waited for only as long as `retention.lock_timeout`. The
/// attempt leaves no mark by which a partition that a person keeps would be dropped later.
#[tokio::test]
async fn a_lock_that_others_hold_is_given_up_and_taken_at_the_next_sweep() {
    let server = outbox();
    row(&server, "a", 3);
    row(&server, "b", 2);
    confirm(&server);
    let read = "create table other (); table old_3; table old_2";
    let reader = server.transaction("reader", read);
    let output = cleanup(&server).await;
    refused(&output, "lock timeout");
    server.end_transaction("reader");
    drop(reader);
    assert_eq!(existing(&server), "old_1 old_2 old_3");
    assert_eq!(server.sql("select count(*) from pg_description where objoid >= 16384"), "0");
    server.sql("alter table outbox detach partition old_3; alter table old_3 rename to old_kept");
    let longer = ["--yes", "--set", "retention.keep=3650d"];
    done(&cleanup_as(&server, "postgres", &longer).await);
    assert_eq!(existing(&server), "old_1 old_2 old_kept");
    assert!(done(&cleanup(&server).await).contains("1 rows dropped"));
    assert_eq!(
        (existing(&server), ids(&server, "old_kept")),
        ("old_1 old_kept".into(), "a".into())
    );
}

#[tokio::test]
async fn of_two_at_once_one_works() {
    let server = outbox();
    for ago in [3, 2] {
        server.sql(&format!(
            "insert into outbox (id, created_at) select n::text, {} from generate_series(1, 2000) n",
            at(ago)
        ));
    }
    confirm(&server);
    let (first, second) = tokio::join!(cleanup(&server), cleanup(&server));
    let mut removed = 0;
    for output in [first, second] {
        if output.exit == Exit::Done {
            let (_, rest) = output.out.split_once(": ").unwrap();
            removed += rest.split(' ').next().unwrap().parse::<u32>().unwrap();
        } else {
            refused(&output, "another session");
        }
    }
    assert_eq!((removed, existing(&server)), (4_000, "old_1".into()));
}

#[tokio::test]
async fn times_of_other_types_have_partitions_too() {
    for (kind, bound, settings) in [
        ("timestamp", "(now() at time zone 'UTC')", "retention.partition_by=1h"),
        ("date", "(now() at time zone 'UTC')::date", "retention.partition_by=1d"),
        ("bigint", "extract(epoch from now())::int8 * 1000", "outbox.0.timestamp_unit=ms"),
    ] {
        let server = Server::start();
        let table = TABLE
            .replace("created_at timestamptz not null default now()", &format!("created_at {kind}"))
            .replace("created_at timestamptz", "created_at");
        server.sql(&table);
        let (from, to) = match kind {
            "bigint" => ("0", "1000000000"),
            _ => ("'2000-01-01'", "'2000-01-02'"),
        };
        server.sql(&format!(
            "create table old_1 partition of outbox for values from ({from}) to ({to})"
        ));
        server.sql(SOURCE);
        server.sql(SLOT);
        insert(&server, "old", from);
        confirm(&server);
        let output = cleanup_as(&server, "postgres", &["--yes", "--set", settings]).await;
        assert!(done(&output).contains("1 rows dropped with their partitions"), "{output:?}");
        assert!(output.out.contains("8 partitions made"), "{kind}: {output:?}");
        insert(&server, "now", bound);
        assert_eq!((existing(&server), ids(&server, "outbox")), (String::new(), "now".into()));
    }
    let server = Server::start();
    server.sql(&TABLE.replace("created_at timestamptz not null default now()", "created_at date"));
    server.sql(SOURCE);
    server.sql(SLOT);
    refused(&cleanup(&server).await, "retention.partition_by is 1h, and created_at is a date");
}

/// A partition gets all that the table has, although it is made as a table of its own first.
#[tokio::test]
async fn a_partition_that_is_made_has_what_the_table_has() {
    let server = Server::start();
    server.sql(&TABLE.replace(
        "payload jsonb",
        "payload jsonb, position bigint generated always as identity, \
         kind text generated always as (upper(event_type)) stored, \
         check (event_type <> ''), unique (position, created_at)",
    ));
    server.sql("create index on outbox (aggregate_id) where payload is not null");
    server.sql(SOURCE);
    server.sql(SLOT);
    let output = cleanup(&server).await;
    assert!(done(&output).contains("8 partitions made"), "{output:?}");
    insert(&server, "a", "now()");
    assert_eq!(server.sql("select position, kind from outbox"), "1|C");
    assert!(!server.try_sql(&["insert into outbox (id, event_type) values ('b', '')"]));
    let indexes = "select distinct count(*) from pg_inherits i join pg_index x \
                   on x.indrelid = i.inhrelid and x.indisvalid \
                   where i.inhparent = 'outbox'::regclass group by i.inhrelid";
    assert_eq!(server.sql(indexes), "3");
}

/// Another table may have the name.
#[tokio::test]
async fn a_name_that_is_taken_is_passed_over() {
    let server = Server::start();
    server.sql(TABLE);
    server.sql(SOURCE);
    server.sql(SLOT);
    server.sql(
        "do $$ begin execute format('create table %I ()', 'outbox_p' || \
         to_char(now() at time zone 'UTC', 'YYYYMMDD')); end $$",
    );
    let days = ["--yes", "--set", "retention.partition_by=1d", "--set", "retention.keep=1d"];
    let output = cleanup_as(&server, "postgres", &days).await;
    assert!(done(&output).contains("8 partitions made"), "{output:?}");
    insert(&server, "a", "now()");
    let of_row = "select tableoid::regclass::text like 'outbox\\_p%\\_1' from outbox";
    assert_eq!(server.sql(of_row), "t");
}

/// What `setup` makes, `cleanup` takes over.
#[tokio::test]
async fn setup_makes_a_partitioned_table_as_it_prints_it() {
    // None of them ends while the test runs.
    let long = ["--set", "retention.partition_by=100d"];
    let line = [&["setup", "--create-table", "--partitioned"], &long[..]].concat();
    let (applied, printed) = (Server::start(), Server::start());
    let apply = applied.run_command(&[&line[..], &["--apply"]].concat()).await;
    assert_eq!(apply.exit, Exit::Done, "{apply:?}");
    assert!(apply.out.contains("table public.outbox: created"), "{apply:?}");
    let print = printed.run_command(&line).await;
    assert_eq!(print.exit, Exit::Done, "{print:?}");
    printed.script(&print.out);
    for server in [&applied, &printed] {
        server.sql(
            "insert into outbox (aggregate_type, aggregate_id, event_type) values ('a', 'b', 'c')",
        );
        assert_eq!(
            server.sql(
                "select count(*) from pg_inherits where inhparent = \
             'outbox'::regclass"
            ),
            "8"
        );
        assert_eq!(
            server.sql("select pg_get_partkeydef('outbox'::regclass)"),
            "RANGE (created_at)"
        );
        assert_eq!(server.sql("select pubviaroot from pg_publication"), "t");
        confirm(server);
        let output = cleanup_as(server, "postgres", &[&["--yes"], &long[..]].concat()).await;
        assert!(
            done(&output).contains("0 rows dropped with their partitions, 1 kept"),
            "{output:?}"
        );
        assert!(!output.out.contains("partitions made"), "{output:?}");
    }
    let again = applied.run_command(&[&line[..], &["--apply"]].concat()).await;
    assert!(again.out.contains("table public.outbox: exists already"), "{again:?}");
    let other = ["--set", "outbox.0.table=public.other", "--set", "outbox.0.preset=eventuate"];
    let refused = printed.run_command(&[&line[..], &other].concat()).await;
    assert!(
        refused.err.contains("makes no partitioned table of the preset eventuate"),
        "{refused:?}"
    );
}
