//! `cleanup`: what it removes, what it keeps, and what it refuses. No router runs: a test moves the
//! slot where a router would have confirmed, and the slot is asked what it has left.

use std::fmt::Write as _;

use outbox_router::{
    cli::{Audience, Exit},
    held::schema,
    retention::covered_sql,
};
use pgoutput::Xid;
use relay::{delivered::FullXid, testing::samples::covered};
use serde_json::Value;

use crate::{
    delivered::{answering, confirm, typed_as},
    server::{CommandOutput, Server},
};

pub(crate) const TABLE: &str = "\
create table outbox (id text primary key, aggregate_type text not null default 'a', \
  aggregate_id text not null default 'b', event_type text not null default 'c', payload jsonb, \
  created_at timestamptz not null default now())";

pub(crate) const INDEX: &str = "create index on outbox (created_at)";

/// What the router reads from: publication and slot, in this order.
pub(crate) const SOURCE: &str = "\
create publication outbox_router for table outbox \
  with (publish = 'insert', publish_via_partition_root = true); \
create role cleaner login replication";

pub(crate) const SLOT: &str =
    "select pg_create_logical_replication_slot('outbox_router', 'pgoutput')";

pub(crate) const HOUR_AGO: &str = "now() - interval '1 hour'";

/// A server with an outbox, which a slot follows.
pub(crate) fn outbox() -> Server {
    with(&[TABLE, INDEX])
}

fn with(statements: &[&str]) -> Server {
    let server = Server::start();
    for statement in statements {
        server.sql(statement);
    }
    server.sql(SOURCE);
    server.sql(SLOT);
    server
}

pub(crate) fn insert(server: &Server, id: &str, created_at: &str) {
    server.sql(&format!("insert into outbox (id, created_at) values ('{id}', {created_at})"));
}

pub(crate) fn ids(server: &Server, table: &str) -> String {
    server.sql(&format!("select string_agg(id, ' ' order by created_at, id) from {table}"))
}

const SETTINGS: [&str; 4] =
    ["--set", "outbox.0.table=public.outbox", "--set", "retention.keep=30m"];

/// `cleanup` as this role.
pub(crate) async fn cleanup_as(server: &Server, user: &str, more: &[&str]) -> CommandOutput {
    let mode = ["--set", "retention.mode=delete"];
    let line = [&["cleanup"], &SETTINGS[..], &mode, more].concat();
    typed_as(server, user, &line).await
}

pub(crate) async fn cleanup(server: &Server, more: &[&str]) -> CommandOutput {
    cleanup_as(server, "postgres", more).await
}

#[track_caller]
pub(crate) fn done(output: &CommandOutput) -> &str {
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{}", output.out);
    &output.out
}

#[track_caller]
pub(crate) fn refused<'o>(output: &'o CommandOutput, what: &str) -> &'o str {
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    assert!(output.err.contains(what), "{what} is not in:\n{}", output.err);
    &output.err
}

#[tokio::test]
async fn delivered_rows_go_and_young_ones_stay() {
    let server = outbox();
    for id in ["o1", "o2"] {
        insert(&server, id, HOUR_AGO);
    }
    insert(&server, "y1", "now()");
    confirm(&server);
    let dry = cleanup(&server, &["--dry-run"]).await;
    assert_eq!(
        done(&dry),
        "public.outbox: 2 rows to delete, 1 kept: 1 younger than 30m, 0 not delivered yet, 0 \
         held\nnothing was removed\n"
    );
    assert_eq!(ids(&server, "outbox"), "o1 o2 y1");
    let real = cleanup(&server, &["--yes"]).await;
    assert_eq!(
        done(&real),
        "public.outbox: 2 rows deleted, 1 kept: 1 younger than 30m, 0 not delivered yet, 0 held\n"
    );
    assert_eq!(ids(&server, "outbox"), "y1");
    let all = cleanup(&server, &["--yes", "--json", "--set", "retention.keep=0s"]).await;
    let json: Value = serde_json::from_str(done(&all)).unwrap();
    assert_eq!(json["tables"][0]["removed"], 1);
    assert_eq!(json["tables"][0]["kept"]["young"], 0);
    assert_eq!(ids(&server, "outbox"), "");
    let unasked = cleanup(&server, &[]).await;
    assert_eq!(unasked.exit, Exit::Usage, "{unasked:?}");
}

/// `recover --skip-bad` has noted that this row is in no topic.
pub(crate) fn leave_out(server: &Server, id: &str) {
    server.sql(&format!(
        "create schema if not exists outbox_router; \
         create table if not exists outbox_router.left_out (pipeline text, table_oid oid, \
           event_id text, slot text, run bigint, code text, error text, \
           left_out_at timestamptz default now(), id_column text, rows bigint, \
           primary key (pipeline, table_oid, event_id)); \
         insert into outbox_router.left_out values ('outbox-router', 'outbox'::regclass, '{id}', \
           'outbox_router', 1, 'R003', 'no', now(), 'id', 1)"
    ));
}

/// A person has decided: it was corrected and sent, or is given up.
pub(crate) const DECIDED: &str = "delete from outbox_router.left_out";

#[tokio::test]
async fn a_row_that_was_left_out_stays_until_a_person_decides() {
    let server = outbox();
    for id in ["o1", "o2"] {
        insert(&server, id, HOUR_AGO);
    }
    confirm(&server);
    leave_out(&server, "o1");
    for more in [&["--yes"][..], &["--yes", "--older"]] {
        let kept = cleanup(&server, more).await;
        assert!(done(&kept).ends_with("0 not delivered yet, 1 held\n"), "{kept:?}");
        assert_eq!(ids(&server, "outbox"), "o1", "{more:?}");
    }
    server.sql(DECIDED);
    assert!(done(&cleanup(&server, &["--yes"]).await).contains("1 rows deleted"));
    assert_eq!(ids(&server, "outbox"), "");
}

#[tokio::test]
async fn it_asks_a_person_and_does_nothing_where_retention_is_off() {
    let server = outbox();
    insert(&server, "o1", HOUR_AGO);
    confirm(&server);
    let line = [&["cleanup", "--set", "retention.mode=delete"], &SETTINGS[..]].concat();
    let person = (Audience::Person, "postgres");
    let no = answering(&server, person, &line, "no\n").await;
    assert_eq!((no.exit, no.err.as_str()), (Exit::Failure, "nothing was removed\n"));
    assert_eq!(ids(&server, "outbox"), "o1");
    let yes = answering(&server, person, &line, "outbox_router\n").await;
    assert!(done(&yes).contains("to remove these rows: public.outbox: 1 rows deleted"));
    let line = [&["cleanup", "--yes"], &SETTINGS[..]].concat();
    let off = typed_as(&server, "postgres", &line).await;
    assert_eq!(off.exit, Exit::Configuration, "{off:?}");
    assert!(off.err.contains("retention.mode is \"off\""), "{}", off.err);
}

/// More rows than a batch, many at one time, and some that stay in between.
#[tokio::test]
async fn a_sweep_passes_rows_that_stay_and_reaches_all_others() {
    let server = outbox();
    server.sql(
        "insert into outbox (id, created_at) select 'a' || n, now() - interval '2 hours' \
         from generate_series(1, 250) n",
    );
    server.sql(
        "insert into outbox (id, created_at) select 'b' || n, now() - n * interval '1 minute' \
         from generate_series(1, 250) n",
    );
    confirm(&server);
    let locked =
        server.transaction("other", "select from outbox where id in ('a7', 'b99') for update");
    let batches = ["--yes", "--set", "retention.batch=20", "--set", "retention.pause=0ms"];
    let output = cleanup(&server, &batches).await;
    assert!(done(&output).contains("  2 more rows are locked by other sessions"), "{output:?}");
    assert_eq!(
        server.sql("select count(*) from outbox where created_at < now() - interval '30m'"),
        "2"
    );
    drop(locked);
}

fn hold(server: &Server, id: &str, state: &str, table: &str) {
    server.sql(&format!(
        "insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, committed_at, \
         key_hash, event_id, table_name, messages, state, closed_at) values ('outbox-router', \
         'outbox_router', '0/1', {}, now(), '', {id}, '{table}', '', '{state}', now())",
        server.sql("select count(*) from outbox_router.held")
    ));
}

/// Of an event that does not arrive whole, the row is the only whole copy.
#[tokio::test]
async fn a_row_stays_by_the_id_that_it_had_when_its_event_was_held_or_left_out() {
    let server = outbox();
    for statement in schema::statements(None) {
        server.sql(&statement.sql);
    }
    server.sql("alter table outbox add column uid uuid default gen_random_uuid()");
    server.sql("alter table outbox add column large jsonb");
    for id in ["h1", "l1", "o1"] {
        insert(&server, id, HOUR_AGO);
    }
    server.sql("update outbox set large = (select jsonb_agg(n) from generate_series(1, 90000) n)");
    confirm(&server);
    hold(&server, "'h1'", "held", "public.outbox");
    leave_out(&server, "l1");
    let uid = ["--yes", "--set", "outbox.0.columns.id=uid"];
    let removed = cleanup(&server, &uid).await;
    assert!(done(&removed).contains("1 rows deleted, 2 kept"), "{removed:?}");
    assert_eq!(ids(&server, "outbox"), "h1 l1");
    // Renamed, it is the same column, as long as no other one has its name.
    server.sql("alter table outbox rename id to former");
    let removed = cleanup(&server, &uid).await;
    assert!(done(&removed).contains("0 rows deleted, 2 kept"), "{removed:?}");
    server.sql("alter table outbox rename uid to id");
    refused(&cleanup(&server, &["--yes"]).await, "all rows stay: 'l1'\n");
    // An id of several columns is in no column.
    server.sql("update outbox_router.held set state = 'dropped'");
    let text = ["--yes", "--set", "outbox.0.columns.id=${id}-${event_type}"];
    let unknown = cleanup(&server, &text).await;
    refused(&unknown, "1 rows that were left out of what was sent are known by their ids");
    server.sql(DECIDED);
    assert!(done(&cleanup(&server, &text).await).contains("2 rows deleted, 0 kept"));
}

/// It may be any row: its id was changed, or is longer than an entry of an index.
#[tokio::test]
async fn all_rows_stay_while_one_is_not_found_that_only_the_table_has_whole() {
    let server = outbox();
    for statement in schema::statements(None) {
        server.sql(&statement.sql);
    }
    insert(&server, "o1", HOUR_AGO);
    confirm(&server);
    hold(&server, "'gone'", "held", "public.outbox");
    let cut = |id: &str| {
        let last = "event_index = (select max(event_index) from outbox_router.held)";
        hold(&server, id, "held", "public.outbox");
        server.sql(&format!("update outbox_router.held set code = 'R005' where {last}"));
    };
    cut("'gone-too'");
    let unknown = cleanup(&server, &["--yes"]).await;
    let what = "public.outbox: 1 rows that wait for a person, and did not arrive whole, are known \
                by their ids, and no row has them now: they may have been changed, so all rows \
                stay: 'gone-too'";
    refused(&unknown, what);
    server.sql("update outbox_router.held set event_id = 'o1' where event_id = 'gone-too'");
    let kept = cleanup(&server, &["--yes"]).await;
    assert!(done(&kept).contains("0 rows deleted, 1 kept"), "{kept:?}");
    // It is not compressed.
    let long = "(select string_agg(md5(n::text), '') from generate_series(1, 200) n)";
    server.sql(&format!("update outbox_router.held set event_id = {long} where event_id = 'o1'"));
    server.sql("alter table outbox drop constraint outbox_pkey");
    server.sql(&format!("update outbox set id = {long}"));
    refused(&cleanup(&server, &["--yes"]).await, "did not arrive whole, are known by their ids");
    assert_eq!(server.sql("select count(*) from outbox"), "1");
}

#[tokio::test]
async fn a_row_whose_event_is_open_stays() {
    let server = outbox();
    for statement in schema::statements(None) {
        server.sql(&statement.sql);
    }
    for id in ["h1", "h2", "h3", "o1"] {
        insert(&server, id, HOUR_AGO);
    }
    confirm(&server);
    let hold = |id: &str, state: &str, table: &str| hold(&server, id, state, table);
    hold("'h1'", "held", "public.outbox");
    hold("'h2'", "requeued", "public.former_name");
    hold("'h3'", "delivered", "public.outbox");
    let output = cleanup(&server, &["--yes"]).await;
    assert!(
        done(&output)
            .contains("2 rows deleted, 2 kept: 0 younger than 30m, 0 not delivered yet, 2 held")
    );
    assert_eq!(ids(&server, "outbox"), "h1 h2");
    // An open event without an id may be any row.
    hold("null", "held", "public.outbox");
    server.sql("update outbox_router.held set state = 'dropped' where event_id is not null");
    refused(&cleanup(&server, &["--yes"]).await, "1 open events without an id may be any of its");
    assert_eq!(ids(&server, "outbox"), "h1 h2");
    server.sql("update outbox_router.held set state = 'dropped'");
    assert!(done(&cleanup(&server, &["--yes"]).await).contains("2 rows deleted, 0 kept"));
}

#[tokio::test]
async fn closed_events_and_their_decisions_go_when_they_are_old_and_confirmed() {
    let server = outbox();
    for statement in schema::statements(None) {
        server.sql(&statement.sql);
    }
    confirm(&server);
    let mut rows = String::new();
    for (index, (state, age, lsn)) in [
        ("delivered", "40d", "0/1"),
        ("dropped", "20d", "0/1"),
        ("held", "40d", "0/1"),
        ("dropped", "40d", "FFFF/0"),
    ]
    .into_iter()
    .enumerate()
    {
        write!(
            rows,
            "insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, committed_at, \
             key_hash, event_id, table_name, messages, state, closed_at) values ('outbox-router', \
             'outbox_router', '{lsn}', {index}, now(), '', 'e{index}', 'public.outbox', '', \
             '{state}', now() - interval '{age}'); \
             insert into outbox_router.decision (pipeline, slot, commit_lsn, event_index, action, \
             decided_at) values ('outbox-router', 'outbox_router', '{lsn}', {index}, 'drop', \
             now() - interval '{age}'); "
        )
        .unwrap();
    }
    server.sql(&rows);
    server.sql(
        "insert into outbox_router.held_version (pipeline, slot, system_id, writes, open) \
         values ('outbox-router', 'outbox_router', 'x', 7, 1)",
    );
    let version = "select writes, open from outbox_router.held_version";
    let output = cleanup(&server, &["--yes"]).await;
    assert!(done(&output).contains("2 rows older than 30d deleted"), "{output:?}");
    let left = |table: &str| {
        server.sql(&format!(
            "select string_agg(event_index::text, ' ' order by event_index) from {table}"
        ))
    };
    assert_eq!(left("outbox_router.held"), "1 2 3");
    assert_eq!(left("outbox_router.decision"), "1 2 3");
    assert_eq!(server.sql(version), "7|1", "what P037 compares stays");
}

#[tokio::test]
async fn an_archive_has_exactly_what_was_removed() {
    let server = outbox();
    server.sql("alter table outbox add column note text generated always as (id || '!') stored");
    for id in ["o1", "o2"] {
        insert(&server, id, HOUR_AGO);
    }
    insert(&server, "y1", "now()");
    confirm(&server);
    let archive = ["--yes", "--set", "retention.mode=archive"];
    let missing = cleanup(&server, &archive).await;
    refused(&missing, "the archive public.outbox_archive does not exist");
    let statement = "create table \"public\".\"outbox_archive\" (like \"public\".\"outbox\")";
    assert!(missing.err.contains(statement), "{}", missing.err);
    // Its columns stand in another order, and one is missing.
    server.sql("create table outbox_archive (created_at timestamptz, payload jsonb, id text)");
    let lacking = cleanup(&server, &archive).await;
    refused(&lacking, "lacks columns of public.outbox: aggregate_type, aggregate_id, event_type");
    let statement = "alter table \"public\".\"outbox_archive\" add column \"aggregate_type\" text, \
                     add column \"aggregate_id\" text, add column \"event_type\" text";
    assert!(lacking.err.contains(statement), "{}", lacking.err);
    server.sql(statement);
    server.sql("alter table outbox_archive set unlogged");
    let unlogged = cleanup(&server, &archive).await;
    refused(&unlogged, "the archive public.outbox_archive is unlogged, and empty after a crash");
    refused(&unlogged, "alter table \"public\".\"outbox_archive\" set logged");
    server.sql("alter table outbox_archive set logged");
    server.sql("alter publication outbox_router add table outbox_archive");
    refused(&cleanup(&server, &archive).await, "is published, so its rows would be delivered");
    server.sql("alter publication outbox_router drop table outbox_archive");
    // A trigger that keeps a row out of the archive keeps it in the outbox.
    server.sql(
        "create function leave_out() returns trigger language plpgsql as \
         'begin return case when new.id = ''o1'' then null else new end; end'; \
         create trigger leave_out before insert on outbox_archive for each row execute function \
         leave_out()",
    );
    refused(&cleanup(&server, &archive).await, "the archive took 1 of 2 rows, so none was removed");
    assert_eq!(ids(&server, "outbox"), "o1 o2 y1");
    server.sql("drop trigger leave_out on outbox_archive");
    let output = cleanup(&server, &archive).await;
    assert!(
        done(&output).starts_with("public.outbox: 2 rows moved into public.outbox_archive, 1 kept")
    );
    assert_eq!(
        (ids(&server, "outbox").as_str(), ids(&server, "outbox_archive").as_str()),
        ("y1", "o1 o2")
    );
}

#[tokio::test]
async fn a_table_without_an_index_is_refused_with_the_statement_that_makes_it() {
    let server = with(&[TABLE]);
    server.sql(
        "insert into outbox (id, created_at, payload) select n, now() - interval '1 hour', \
         to_jsonb(repeat('x', 900)) from generate_series(1, 3000) n",
    );
    confirm(&server);
    let output = cleanup(&server, &["--yes"]).await;
    refused(&output, "public.outbox has no index that begins with created_at");
    let statement = "create index concurrently on \"public\".\"outbox\" (\"created_at\")";
    assert!(
        output.err.contains(&format!("hint: {statement}; or, once and slowly")),
        "{}",
        output.err
    );
    if server.sql("show server_version_num").parse::<i32>().unwrap() >= 140_000 {
        insert(&server, "y1", "now()");
        confirm(&server);
        let slow = ["--yes", "--slow", "--set", "retention.pause=0ms"];
        let output =
            cleanup(&server, &[&slow[..], &["--set", "retention.batch=70"]].concat()).await;
        assert!(done(&output).starts_with("public.outbox: 3000 rows deleted, 1 kept: 1 younger"));
    }
    // An index of part of the table, or behind another column, does not do.
    server.sql("create index on outbox (created_at) where payload is null");
    server.sql("create index on outbox (id, created_at)");
    refused(&cleanup(&server, &["--yes"]).await, "has no index that begins with created_at");
    server.sql(statement);
    done(&cleanup(&server, &["--yes"]).await);
}

#[tokio::test]
async fn the_error_of_a_role_without_a_privilege_is_the_grant_to_type() {
    let server = outbox();
    insert(&server, "o1", HOUR_AGO);
    confirm(&server);
    let cleaner = async || cleanup_as(&server, "cleaner", &["--yes"]).await;
    let output = cleaner().await;
    refused(&output, "role \"cleaner\" may not read or delete from public.outbox");
    let grants = "grant usage on schema \"public\" to \"cleaner\"; \
                  grant select, delete on \"public\".\"outbox\" to \"cleaner\"";
    assert!(output.err.contains(&format!("hint: {grants}\n")), "{}", output.err);
    server.sql("grant select on outbox to cleaner");
    refused(&cleaner().await, "role \"cleaner\" may not delete from public.outbox");
    server.sql(grants);
    assert!(done(&cleaner().await).contains("1 rows deleted"));

    insert(&server, "o2", HOUR_AGO);
    confirm(&server);
    for statement in schema::statements(None) {
        server.sql(&statement.sql);
    }
    let output = cleaner().await;
    refused(&output, "role \"cleaner\" may not read outbox_router.held");
    server.sql("grant usage on schema outbox_router to cleaner");
    server.sql("grant select on outbox_router.held to cleaner");
    let output = cleaner().await;
    refused(&output, "may not delete from outbox_router.held and outbox_router.decision");
    assert!(output.out.contains("public.outbox: 1 rows deleted"), "{output:?}");
    server.sql("grant select, delete on outbox_router.held, outbox_router.decision to cleaner");
    done(&cleaner().await);

    // Without the privilege to update, a locked row is waited for.
    insert(&server, "o3", HOUR_AGO);
    confirm(&server);
    let _locked = server.transaction("other", "select from outbox where id = 'o3' for update");
    let short = ["--yes", "--set", "retention.lock_timeout=50ms"];
    refused(
        &cleanup_as(&server, "cleaner", &short).await,
        "canceling statement due to lock timeout",
    );
}

/// The key of a row is no part of what is said.
#[tokio::test]
async fn a_foreign_key_that_keeps_a_row_is_named_with_what_to_type() {
    let server = outbox();
    server.sql(
        "create schema mail; create table mail.\"Letter\" (event text references outbox); \
         create table mail.copy (event text references outbox on delete cascade)",
    );
    for id in ["o1", "o2"] {
        insert(&server, id, HOUR_AGO);
    }
    server.sql("insert into mail.\"Letter\" values ('o1'); insert into mail.copy values ('o2')");
    confirm(&server);
    let drop = "alter table \"mail\".\"Letter\" drop constraint \"Letter_event_fkey\"";
    let output = cleanup(&server, &["--yes"]).await;
    refused(&output, "violates foreign key constraint \"Letter_event_fkey\"");
    assert!(output.err.contains("P038") && output.err.contains(drop), "{}", output.err);
    assert!(!output.err.contains("o1"), "{}", output.err);
    assert_eq!(ids(&server, "outbox"), "o1 o2");
    let restrict = "alter table mail.\"Letter\" drop constraint \"Letter_event_fkey\", \
                    add foreign key (event) references outbox on delete restrict";
    server.sql(restrict);
    let output = cleanup(&server, &["--yes"]).await;
    refused(&output, "foreign key constraint \"Letter_event_fkey\"");
    assert!(output.err.contains(drop), "{}", output.err);
    server.sql(drop);
    assert!(done(&cleanup(&server, &["--yes"]).await).contains("2 rows deleted"));
}

#[tokio::test]
async fn two_at_once_do_not_work_beside_each_other() {
    let server = outbox();
    insert(&server, "o1", HOUR_AGO);
    confirm(&server);
    // A sweep waits for it, and reading the catalog does not.
    let lock =
        server.transaction("other", "lock table outbox in share mode; select txid_current()");
    let patient = ["--yes", "--set", "retention.lock_timeout=60s"];
    let waits = |wait: &str| {
        format!(
            "select exists (select from pg_stat_activity where wait_event = '{wait}' \
             and application_name = 'outbox-router cleanup')"
        )
    };
    let first = async { cleanup(&server, &patient).await };
    let third = async {
        eventually(&server, &waits("relation")).await;
        cleanup(&server, &patient).await
    };
    let second = async {
        eventually(&server, &waits("advisory")).await;
        let second = cleanup(&server, &["--yes"]).await;
        refused(&second, "another session removes rows of this pipeline: pid ");
        assert!(second.err.contains("\"outbox-router cleanup\", as role postgres"), "{second:?}");
        assert!(second.err.contains("select pg_terminate_backend("), "{second:?}");
        server.end_transaction("other");
    };
    let (first, (), third) = tokio::join!(first, second, third);
    assert!(done(&first).contains("1 rows deleted"), "{first:?}");
    assert!(done(&third).contains("0 rows deleted"), "one that waits goes on: {third:?}");
    drop(lock);
}

/// Waits for a condition while other tasks of the test run.
async fn eventually(server: &Server, condition: &str) {
    for _ in 0..400 {
        if server.sql(condition) == "t" {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    panic!("never became true: {condition}");
}

#[tokio::test]
async fn a_partitioned_table_is_cleaned_through_its_root() {
    let partitioned =
        TABLE.replace("text primary key", "text") + " partition by range (created_at)";
    let server = with(&[
        &partitioned,
        "create table outbox_old partition of outbox for values from (minvalue) to ('2020-01-01')",
        "create table outbox_new partition of outbox for values from ('2020-01-01') to (maxvalue)",
    ]);
    insert(&server, "o1", "'2019-01-01'");
    insert(&server, "o2", HOUR_AGO);
    insert(&server, "y1", "now()");
    confirm(&server);
    let output = cleanup(&server, &["--yes"]).await;
    refused(&output, "public.outbox has no index that begins with created_at");
    let statements = "create index concurrently on public.outbox_new (\"created_at\"); \
                      create index concurrently on public.outbox_old (\"created_at\"); \
                      create index on \"public\".\"outbox\" (\"created_at\")";
    assert!(output.err.contains(statements), "{}", output.err);
    for statement in statements.split("; ") {
        server.sql(statement);
    }
    let output = cleanup(&server, &["--yes"]).await;
    assert!(done(&output).starts_with("public.outbox: 2 rows deleted, 1 kept"), "{output:?}");
    assert_eq!(ids(&server, "outbox"), "y1");
}

#[tokio::test]
async fn rows_have_an_age_by_every_type_of_time() {
    for (kind, old, young) in [
        ("timestamp", "(now() at time zone 'UTC') - interval '1 hour'", "now() at time zone 'UTC'"),
        ("date", "current_date - 3", "current_date + 1"),
        ("bigint", "(extract(epoch from now()) - 3600) * 1000", "extract(epoch from now()) * 1000"),
        ("timestamptz", "'-infinity'", "'infinity'"),
    ] {
        let table = TABLE.replace(
            "created_at timestamptz not null default now()",
            &format!("created_at {kind}"),
        );
        let server = with(&[&table, INDEX]);
        insert(&server, "o1", old);
        insert(&server, "y1", young);
        insert(&server, "n1", "null");
        confirm(&server);
        let output = cleanup(&server, &["--yes"]).await;
        assert!(
            done(&output).starts_with("public.outbox: 1 rows deleted, 2 kept: 2 younger"),
            "{kind}: {output:?}"
        );
        assert_eq!(ids(&server, "outbox"), "y1 n1", "{kind}");
    }
    let server = with(&[&TABLE
        .replace("created_at timestamptz", "created_at interval")
        .replace("now()", "'1 h'")]);
    refused(
        &cleanup(&server, &["--yes"]).await,
        "public.outbox: created_at is of the type interval, which is no time",
    );
    let named = ["--yes", "--set", "retention.time_column=nowhere"];
    refused(&cleanup(&server, &named).await, "public.outbox has no column nowhere");
}

/// The rule as SQL is the core's.
#[tokio::test]
async fn ids_are_compared_in_sql_as_in_the_core() {
    const HALF: u64 = 1 << 31;
    let server = Server::start();
    let wrap = 1_u64 << 32;
    for before in [3, 1_000, HALF, HALF + 7, wrap - 2, wrap + 3, 5 * wrap + HALF] {
        for next in [before, before + 5, before + HALF - 1, before + HALF, before + wrap] {
            let horizon = FullXid::from_u64(before);
            let low = horizon.of_row().as_u32();
            let half = u32::try_from(HALF).unwrap();
            let rows = [
                0,
                1,
                2,
                3,
                low,
                low.wrapping_sub(1),
                low.wrapping_add(1),
                low.wrapping_sub(half),
                low.wrapping_sub(half - 1),
                low.wrapping_add(half - 1),
                u32::MAX,
            ];
            let sql: Vec<String> = rows
                .iter()
                .map(|row| {
                    let next = format!("'{next}'::xid8");
                    covered_sql(covered(before), &format!("'{row}'::xid"), &next)
                })
                .collect();
            let answer = server.sql(&format!("select {}", sql.join(", ")));
            let core: Vec<&str> = rows
                .iter()
                .map(|&row| covered(before).contains(Xid::from_u32(row), FullXid::from_u64(next)))
                .map(|precedes| if precedes { "t" } else { "f" })
                .collect();
            assert_eq!(answer, core.join("|"), "before {before}, next {next}, rows {rows:?}");
        }
    }
}

/// The table of held events has ids as the stream writes them, which is not how a cast does.
#[tokio::test]
async fn the_row_of_an_open_event_stays_whatever_the_type_of_its_id_is() {
    for (id_type, id) in [
        ("char(20)", "evt-1"),
        ("boolean", "true"),
        ("inet", "10.0.0.1"),
        ("\"char\"", "x"),
        ("numeric(8, 2)", "1.5"),
        ("timestamptz", "2026-01-01 00:00:00+02"),
        ("bytea", "\\x01ff"),
        ("interval", "90 minutes"),
    ] {
        let server = with(&[&TABLE.replace("(id text", &format!("(id {id_type}")), INDEX]);
        for statement in schema::statements(None) {
            server.sql(&statement.sql);
        }
        insert(&server, id, HOUR_AGO);
        // What pgoutput sends of it, with the settings of a router's session.
        let sent = server.sql(
            "set datestyle = 'ISO, MDY'; set intervalstyle = 'postgres'; set timezone = 'UTC'; \
             set bytea_output = 'hex'; \
             select convert_from(substr(data, 14, get_byte(data, 12)), 'UTF8') \
             from pg_logical_slot_peek_binary_changes('outbox_router', null, null, \
               'proto_version', '1', 'publication_names', 'outbox_router') \
             where get_byte(data, 0) = ascii('I')",
        );
        confirm(&server);
        server.sql(&format!(
            "insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, \
             committed_at, key_hash, event_id, table_name, messages, state) values \
             ('outbox-router', 'outbox_router', '0/1', 0, now(), '', '{}', 'public.outbox', '', \
             'held')",
            // psql cuts blanks at the end of its output.
            if id_type == "char(20)" { format!("{sent:20}") } else { sent }
        ));
        let output = cleanup(&server, &["--yes"]).await;
        assert!(done(&output).contains("0 rows deleted, 1 kept"), "{id_type}: {output:?}");
        assert!(output.out.contains("1 held"), "{id_type}: {output:?}");
    }
}

/// What row security hides would count as not there.
#[tokio::test]
async fn a_table_that_hides_rows_is_refused() {
    let server = outbox();
    insert(&server, "d1", HOUR_AGO);
    confirm(&server);
    insert(&server, "d2", HOUR_AGO);
    confirm(&server);
    server.sql(
        "create policy few on outbox using (id = 'd1'); \
         alter table outbox enable row level security; \
         grant select, delete on outbox to cleaner; \
         create table outbox_archive (like outbox); grant insert on outbox_archive to cleaner",
    );
    let archive = ["--yes", "--set", "retention.mode=archive"];
    for more in [&["--yes"][..], &archive, &["--dry-run"]] {
        let output = cleanup_as(&server, "cleaner", more).await;
        let err = refused(&output, "may not see every row of public.outbox, because of row-level");
        assert!(err.contains("alter role \"cleaner\" bypassrls"), "{err}");
        assert_eq!(ids(&server, "outbox"), "d1 d2");
    }
    // Forced, it hides them from the owner, too.
    let owner = "create role own login replication; alter table outbox owner to own";
    server.sql(owner);
    let output = cleanup_as(&server, "own", &["--dry-run"]).await;
    assert!(done(&output).contains("2 rows to delete"), "{output:?}");
    server.sql("alter table outbox force row level security");
    let output = cleanup_as(&server, "own", &["--yes"]).await;
    refused(&output, "role \"own\" may not see every row of public.outbox, because of row-level");
    assert_eq!(ids(&server, "outbox"), "d1 d2");
    server.sql("alter role cleaner bypassrls");
    let output = cleanup_as(&server, "cleaner", &["--yes"]).await;
    assert!(done(&output).contains("2 rows deleted"), "{output:?}");
    // An archive that refuses rows is as bad.
    server.sql("alter role cleaner nobypassrls; alter table outbox disable row level security");
    server.sql("alter table outbox_archive enable row level security");
    let output = cleanup_as(&server, "cleaner", &archive).await;
    refused(&output, "may not see every row of public.outbox_archive");
}
