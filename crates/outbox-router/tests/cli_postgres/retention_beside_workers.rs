//! `cleanup` of a stream whose table workers of another configuration poll: their marks say what
//! they have delivered, and the slot does not.

use outbox_router::polling::sql::setup::lease_statements;

use crate::{
    cleanup::{HOUR_AGO, cleanup, cleanup_as, done, ids, insert, outbox, refused},
    delivered::confirm,
    server::Server,
};

/// A table with one row that the slot has confirmed, and the tables of workers.
fn with_workers() -> Server {
    let server = outbox();
    insert(&server, "o1", HOUR_AGO);
    confirm(&server);
    for statement in lease_statements(None) {
        server.sql(&statement.sql);
    }
    server
}

/// A worker of this name, which is heard of until then, has asked for keys.
fn note_worker(server: &Server, name: &str, until: &str) {
    server.sql("insert into outbox_router.lease (relation, shard) values ('outbox'::regclass, 0)");
    server.sql(&format!(
        "insert into outbox_router.worker (relation, holder, name, seen_until, request) \
         values ('outbox'::regclass, gen_random_uuid(), '{name}', {until}, 1)"
    ));
}

fn hand_over(server: &Server, state: &str) {
    server.sql(&format!(
        "insert into outbox_router.switch (relation, state, \"by\") \
         values ('outbox'::regclass, '{state}', 'somebody') \
         on conflict (relation) do update set state = excluded.state"
    ));
}

/// A dump has texts, and a table that is restored from it another OID.
#[tokio::test]
async fn a_dump_has_the_names_of_tables_that_workers_share() {
    let server = with_workers();
    note_worker(&server, "w", "now()");
    hand_over(&server, "stream");
    for table in ["lease", "worker", "switch"] {
        assert_eq!(dumped(&server, table, "relation"), "public.outbox", "{table}");
    }
}

/// A column of a table of the router's, as `pg_dump` reads it.
pub(crate) fn dumped(server: &Server, table: &str, column: &str) -> String {
    let query =
        format!("set search_path = ''; select distinct {column}::text from outbox_router.{table}");
    server.sql(&query).lines().last().unwrap_or_default().to_owned()
}

/// Types the statements of the hint.
fn follow(server: &Server, error: &str) {
    let from = error.find("delete from \"outbox_router\"").expect("a statement");
    let statements = error[from..].lines().next().expect("a line");
    server.script(&format!("{statements};"));
}

#[tokio::test]
async fn rows_of_a_table_that_workers_poll_stay() {
    let server = with_workers();
    note_worker(&server, "bills", "now() + interval '1 hour'");
    server.sql("create table outbox_archive (like outbox)");
    for mode in ["delete", "archive"] {
        let mode = format!("retention.mode={mode}");
        let output = cleanup(&server, &["--yes", "--older", "--set", &mode]).await;
        refused(&output, "P038: table public.outbox is polled by workers of bills: ");
        assert_eq!(ids(&server, "outbox"), "o1", "{mode}");
    }
    refused(&cleanup(&server, &["--dry-run"]).await, "is polled by workers of bills");

    // They are gone, and nothing says that they have delivered everything.
    server.sql("update outbox_router.worker set seen_until = now()");
    let output = cleanup(&server, &["--yes"]).await;
    let error = refused(&output, "was polled last by workers of bills: ");
    assert_eq!(ids(&server, "outbox"), "o1");
    follow(&server, error);
    assert!(done(&cleanup(&server, &["--yes"]).await).contains("1 rows deleted"));
}

#[tokio::test]
async fn rows_of_a_table_go_that_a_switch_has_handed_to_the_stream() {
    let server = with_workers();
    note_worker(&server, "outbox-router", "now()");
    for state in ["closing", "sent", "marked"] {
        hand_over(&server, state);
        let output = cleanup(&server, &["--yes"]).await;
        refused(&output, "was polled last by workers of outbox-router: ");
    }
    hand_over(&server, "stream");
    // Those of another pipeline may have rows that are not pending for who has handed it over.
    note_worker_beside(&server, "bills");
    refused(&cleanup(&server, &["--yes"]).await, "was polled last by workers of bills: ");
    server.sql("delete from outbox_router.worker where name = 'bills'");
    assert!(done(&cleanup(&server, &["--yes"]).await).contains("1 rows deleted"));
    assert_eq!(ids(&server, "outbox"), "");
}

fn note_worker_beside(server: &Server, name: &str) {
    server.sql("delete from outbox_router.lease");
    note_worker(server, name, "now()");
}

/// No worker has run yet.
#[tokio::test]
async fn rows_of_a_table_stay_that_is_set_up_for_workers() {
    let server = with_workers();
    server.sql("create table unpolled (id int)");
    server
        .sql("insert into outbox_router.lease (relation, shard) values ('unpolled'::regclass, 0)");
    server.sql("create index outbox_router_pending_outbox on outbox (created_at)");
    let output = cleanup(&server, &["--yes"]).await;
    let error = refused(&output, "table public.outbox was polled, or set up for workers: ");
    assert_eq!(ids(&server, "outbox"), "o1");
    follow(&server, error);
    assert!(done(&cleanup(&server, &["--yes"]).await).contains("1 rows deleted"));
}

#[tokio::test]
async fn rows_stay_while_it_cannot_be_read_who_polls() {
    let server = with_workers();
    server.sql("grant select, delete on outbox to cleaner");
    let output = cleanup_as(&server, "cleaner", &["--yes"]).await;
    let hidden = "outbox_router.lease, outbox_router.switch, outbox_router.worker";
    let error = refused(&output, &format!("role \"cleaner\" may not read {hidden}, so whether"));
    let grants =
        "grant usage on schema outbox_router to \"cleaner\"; grant select on outbox_router.";
    assert!(error.contains(grants), "{error}");
    server.sql("grant usage on schema outbox_router to cleaner");
    server.sql(&format!("grant select on {hidden} to cleaner"));
    assert!(done(&cleanup_as(&server, "cleaner", &["--yes"]).await).contains("1 rows deleted"));
}

/// A partition is polled by itself.
#[tokio::test]
async fn rows_of_a_table_stay_of_which_a_partition_is_polled() {
    let server = with_workers();
    server.sql("alter table outbox rename to part");
    server.sql("create table outbox (like part including defaults) partition by list (event_type)");
    server.sql("alter table outbox attach partition part default");
    server.sql("create index on outbox (created_at)");
    server.sql("insert into outbox_router.lease (relation, shard) values ('part'::regclass, 0)");
    server.sql("alter publication outbox_router drop table part");
    server.sql("alter publication outbox_router add table outbox");
    confirm(&server);
    let output = cleanup(&server, &["--yes", "--older"]).await;
    refused(&output, "table public.part was polled, or set up for workers: ");
}

/// A sweep would delete rows of another outbox, or later rows of its own, with those that are sent.
#[tokio::test]
async fn rows_stay_with_which_rows_of_an_outbox_would_go() {
    let server = with_workers();
    server.sql("create table letter (id text primary key references outbox on delete cascade)");
    assert!(done(&cleanup(&server, &["--dry-run"]).await).contains("1 rows"), "no outbox");
    server.sql("create table copy (letter text references letter on delete cascade)");
    server.sql(
        "insert into outbox_router.worker (relation, holder, name, seen_until, request) \
         values ('copy'::regclass, gen_random_uuid(), 'bills', now(), 1)",
    );
    let output = cleanup(&server, &["--yes"]).await;
    let error = refused(
        &output,
        "P038: the foreign key \"copy_letter_fkey\" deletes rows of public.copy with those of \
         public.outbox: ",
    );
    let drop = "alter table \"public\".\"copy\" drop constraint \"copy_letter_fkey\"";
    assert!(error.contains(drop), "{error}");
    server.sql(drop);
    let cause = "alter table outbox add cause text references outbox on delete cascade";
    server.sql(cause);
    let output = cleanup(&server, &["--yes", "--older"]).await;
    refused(&output, "\"outbox_cause_fkey\" deletes rows of public.outbox with those of ");
    assert_eq!(ids(&server, "outbox"), "o1");
    server.sql(
        "alter table outbox drop constraint outbox_cause_fkey, \
         add foreign key (cause) references outbox on delete set null",
    );
    assert!(done(&cleanup(&server, &["--yes", "--older"]).await).contains("1 rows deleted"));
}
