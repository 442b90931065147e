//! `cleanup` with `retention.mode = "drop_partitions"`: which partitions it drops, which stay, and
//! how it goes on where a process was killed. No router runs: a test moves the slot where a router
//! would have confirmed.

use std::sync::Arc;

use outbox_router::{
    cli::{Audience, Exit},
    held::schema,
};
use serde_json::Value;

use crate::{
    cleanup::{SLOT, SOURCE, confirm, ids, insert},
    server::{CommandOutput, Server, run_command_for},
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
    run_command_for(Audience::Machine, &server.url(user), &line, "").await
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

/// What a process that was killed after the mark has left.
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
    let again = cleanup(&server).await;
    assert!(!done(&again).contains("partitions made"), "{again:?}");
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

/// The first check does not see what a transaction has written that is open, and DETACH waits for
/// it. So its row is there at the second check, and at no time without a place.
#[tokio::test]
async fn a_row_that_is_committed_between_check_and_detach_is_kept_until_it_is_delivered() {
    let server = Arc::new(outbox());
    row(&server, "a", 3);
    confirm(&server);
    let held = server.transaction("locker", "create table other (); select pg_advisory_lock(1)");
    let late = server.transaction_that_waits(
        "late",
        &format!(
            "insert into outbox (id, created_at) values ('late', {}); \
             select pg_advisory_xact_lock(1)",
            at(3)
        ),
    );
    // The slot is asked up to the end of WAL, which only a commit writes out at once.
    server.sql("create table third ()");
    let meanwhile = Arc::clone(&server);
    let commit = tokio::task::spawn_blocking(move || {
        meanwhile.wait_until("select exists (select from pg_inherits where inhdetachpending)");
        meanwhile.end_transaction("locker");
    });
    let patient = ["--yes", "--set", "retention.lock_timeout=20s"];
    let output = cleanup_as(&server, "postgres", &patient).await;
    commit.await.unwrap();
    let err = refused(&output, "public.old_3 was detached to be dropped, and stays: of its 2 rows");
    assert!(err.contains("1 are not delivered yet, 0 are held, and 0 seem"), "{err}");
    assert!(err.contains("nothing, if they are delivered soon"), "{err}");
    assert_eq!(ids(&server, "old_3"), "a late");
    drop((held, late));
    confirm(&server);
    assert!(done(&cleanup(&server).await).contains("2 rows dropped"));
    assert_eq!(existing(&server), "old_1");
}

#[tokio::test]
async fn a_partition_with_an_open_event_stays_and_others_go() {
    let server = outbox();
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
         'outbox_router', '0/1', 0, now(), '', 'held', 'public.outbox', '', 'held', now())",
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

/// Between any two statements a process may be killed.
#[tokio::test]
async fn what_a_killed_process_has_left_is_finished() {
    let server = outbox();
    row(&server, "a", 3);
    row(&server, "b", 2);
    confirm(&server);
    mark(&server, "old_3");
    server.sql("alter table outbox detach partition old_3 concurrently");
    mark(&server, "old_2");
    // It has written the first half of DETACH CONCURRENTLY, and waits for this reader.
    let reader = server.transaction("reader", "create table other (); table outbox");
    let detach = "alter table outbox detach partition old_2 concurrently";
    assert!(!server.try_sql(&["set lock_timeout = '100ms'", detach]));
    assert_eq!(server.sql("select count(*) from pg_inherits where inhdetachpending"), "1");
    server.end_transaction("reader");
    drop(reader);
    assert!(done(&cleanup(&server).await).contains("2 rows dropped with their partitions, 0 kept"));
    assert_eq!(existing(&server), "old_1");
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

/// Whoever wrote to the table itself was in no stream.
#[tokio::test]
async fn a_detached_table_with_rows_that_were_never_sent_stays_and_is_named() {
    let server = outbox();
    row(&server, "a", 3);
    mark(&server, "old_3");
    server.sql("alter table outbox detach partition old_3 concurrently");
    server.sql(&format!("insert into old_3 (id, created_at) values ('lost', {})", at(3)));
    row(&server, "b", 2);
    confirm(&server);
    let output = cleanup(&server).await;
    let err = refused(&output, "public.old_3 was detached to be dropped, and stays");
    assert!(err.contains("1 seem to be written to it after it was detached"), "{err}");
    assert!(err.contains("and then: drop table \"public\".\"old_3\""), "{err}");
    assert!(output.out.contains("1 rows dropped with their partitions"), "{output:?}");
    assert_eq!((existing(&server), ids(&server, "old_3")), ("old_1 old_3".into(), "a lost".into()));
    server.sql("delete from old_3 where id = 'lost'");
    done(&cleanup(&server).await);
    assert_eq!(existing(&server), "old_1");
}

/// A session that uses the table is waited for only as long as `retention.lock_timeout`.
#[tokio::test]
async fn a_lock_that_others_hold_is_given_up_and_taken_at_the_next_sweep() {
    let server = outbox();
    row(&server, "a", 3);
    confirm(&server);
    let reader = server.transaction("reader", "create table other (); table old_3");
    let output = cleanup(&server).await;
    refused(&output, "lock timeout");
    assert!(existing(&server).contains("old_3"));
    server.end_transaction("reader");
    drop(reader);
    assert!(done(&cleanup(&server).await).contains("1 rows dropped"));
    assert_eq!(existing(&server), "old_1");
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
    let line = ["setup", "--create-table", "--partitioned", "--set", "retention.partition_by=1h"];
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
        let output = cleanup(server).await;
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
