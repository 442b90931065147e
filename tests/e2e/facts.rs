//! What PostgreSQL does, and no simulation can hold: each deleter, marker and repair relies on one
//! of these, on every version. No router takes part.

use e2e::{SHORT_DEADLINE, postgres_version};
use testbed::postgres::{DatabaseSession, PostgresOptions, PostgresServer, create_slot};
use testbed::wait::eventually;
use tokio_postgres::types::PgLsn;

const TABLE: &str =
    "create table outbox (id int primary key, key text, at timestamptz default now())";

const PARTITIONED: &str = "\
    create table outbox (id int, at date not null) partition by range (at); \
    create table old partition of outbox for values from ('2026-01-01') to ('2026-01-02'); \
    create table new partition of outbox for values from ('2026-01-02') to ('2026-01-03')";

const PUBLISHED: &str =
    "create publication facts for table outbox with (publish_via_partition_root = true)";

async fn server(settings: &[(&str, &str)]) -> (PostgresServer, DatabaseSession) {
    let options = PostgresOptions::version(postgres_version().unwrap());
    let options = settings.iter().fold(options, |options, (name, value)| options.set(name, value));
    let server = PostgresServer::start(options).await.unwrap();
    let session = server.connect().await.unwrap();
    (server, session)
}

async fn run(session: &DatabaseSession, statements: &str) {
    session.batch_execute(statements).await.unwrap_or_else(|e| panic!("{statements}: {e:?}"));
}

/// The one value of a query, as text.
async fn ask(session: &DatabaseSession, query: &str) -> String {
    let one = format!("select coalesce(({query})::text, 'null')");
    session.query_one(&one, &[]).await.unwrap_or_else(|e| panic!("{query}: {e:?}")).get(0)
}

/// The SQLSTATE that refuses a statement.
async fn refused(session: &DatabaseSession, statement: &str) -> String {
    let error = session.batch_execute(statement).await.expect_err(statement);
    error.code().unwrap_or_else(|| panic!("{statement}: {error:?}")).code().to_owned()
}

/// How many INSERTs the slot has for the publication.
async fn streamed(session: &DatabaseSession) -> String {
    let query = "select count(*) from pg_logical_slot_peek_binary_changes('facts', null, null, \
           'proto_version', '1', 'publication_names', 'facts') where get_byte(data, 0) = 73";
    ask(session, query).await
}

/// Waits until another session waits for a lock.
async fn wait_blocked(session: &DatabaseSession) {
    let waiting = "select count(*) from pg_locks where not granted";
    eventually(SHORT_DEADLINE, "a statement that waits for a lock", async || {
        Ok((ask(session, waiting).await != "0").then_some(()))
    })
    .await
    .unwrap();
}

/// Retention never detaches concurrently, and keeps what a person has left in that state.
#[tokio::test]
async fn what_is_written_into_a_partition_that_is_half_detached_is_streamed_to_nobody() {
    let (server, session) = server(&[]).await;
    run(&session, PARTITIONED).await;
    run(&session, PUBLISHED).await;
    create_slot(&session, "facts", "pgoutput").await.unwrap();
    run(&session, "insert into outbox values (1, '2026-01-01')").await;
    assert_eq!(streamed(&session).await, "1");
    let (reader, detaching) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    run(&reader, "begin; select count(*) from outbox").await;
    let detach = async {
        let statement = "alter table outbox detach partition old concurrently";
        detaching.batch_execute(statement).await.unwrap();
    };
    let meanwhile = async {
        let is_pending =
            "select inhdetachpending from pg_inherits where inhrelid = 'old'::regclass";
        eventually(SHORT_DEADLINE, "the first half", async || {
            Ok((ask(&session, is_pending).await == "true").then_some(()))
        })
        .await
        .unwrap();
        run(&session, "insert into old values (2, '2026-01-01')").await;
        assert_eq!(streamed(&session).await, "1");
        run(&reader, "commit").await;
    };
    tokio::join!(detach, meanwhile);
    assert_eq!(ask(&session, "select count(*) from old").await, "2");
    assert_eq!(streamed(&session).await, "1");
}

/// A partition is counted under the lock, dropped in the same transaction, and never by an earlier
/// count.
#[tokio::test]
async fn a_lock_waits_for_those_who_have_written_and_not_for_older_snapshots_that_will() {
    let (server, session) = server(&[]).await;
    run(&session, PARTITIONED).await;
    let (writer, other) = (server.connect().await.unwrap(), server.connect().await.unwrap());
    run(&writer, "begin; insert into outbox values (1, '2026-01-01')").await;
    run(&other, "begin isolation level repeatable read; select count(*) from new").await;
    let count = async {
        run(&session, "begin; lock table only old in share mode").await;
        ask(&session, "select count(*) from old").await
    };
    let commit = async {
        wait_blocked(&other).await;
        run(&writer, "commit").await;
    };
    let (counted, ()) = tokio::join!(count, commit);
    assert_eq!(counted, "1", "the lock was granted when the writer had committed");
    // The lock is gone: a transaction whose snapshot is older than the count writes.
    run(&session, "commit").await;
    run(&other, "insert into outbox values (2, '2026-01-01'); commit").await;
    assert_eq!(ask(&session, "select count(*) from old").await, "2");
}

/// A mark says which version of a row was sent by its `xmin`, and a deleter compares it with
/// transactions.
#[tokio::test]
async fn xmin_is_of_the_last_committed_version_and_outlives_vacuum() {
    let (_server, session) = server(&[]).await;
    run(&session, TABLE).await;
    let xmin = "select xmin from outbox where id = 1";
    run(&session, "insert into outbox values (1, 'a')").await;
    let made = ask(&session, xmin).await;
    for unchanged in [
        "begin; update outbox set key = 'b'; rollback",
        "begin; select * from outbox for update; commit",
        "insert into outbox values (1, 'b') on conflict do nothing",
        "vacuum freeze outbox",
        "vacuum full outbox",
        "cluster outbox using outbox_pkey",
    ] {
        for statement in unchanged.split("; ") {
            run(&session, statement).await;
        }
        assert_eq!(ask(&session, xmin).await, made, "{unchanged}");
    }
    let mut last = made;
    for changed in [
        "update outbox set key = key",
        "insert into outbox values (1, 'b') on conflict (id) do update set key = excluded.key",
        "alter table outbox alter key type varchar(10), add more int default random() * 10",
    ] {
        run(&session, changed).await;
        let now = ask(&session, xmin).await;
        assert_ne!(now, last, "{changed}");
        last = now;
    }
    // Rows of a subtransaction have its own id, which is later than that of its transaction.
    run(&session, "begin; insert into outbox values (2, 'a'); savepoint s").await;
    run(&session, "insert into outbox values (3, 'a'); commit").await;
    let later = "select (select xmin::text::int8 from outbox where id = 3) \
         > (select xmin::text::int8 from outbox where id = 2)";
    assert_eq!(ask(&session, later).await, "true");
}

/// What a deleter calls delivered ends before every transaction that may still commit.
#[tokio::test]
async fn a_snapshot_ends_before_what_is_open_or_prepared_and_commits_are_in_another_order() {
    let (server, session) = server(&[("max_prepared_transactions", "2")]).await;
    run(&session, TABLE).await;
    run(&session, "create publication facts for table outbox").await;
    create_slot(&session, "facts", "pgoutput").await.unwrap();
    let prepared = server.connect().await.unwrap();
    run(&prepared, "begin; insert into outbox values (1, 'a')").await;
    let first = ask(&prepared, "select pg_current_xact_id()").await;
    run(&prepared, "prepare transaction 'p'").await;
    run(&session, "insert into outbox values (2, 'a')").await;
    assert_eq!(ask(&session, "select pg_snapshot_xmin(pg_current_snapshot())").await, first);
    // It is not streamed before it commits, and then behind the later id.
    assert_eq!(streamed(&session).await, "1");
    let behind: PgLsn = server.current_wal_lsn().await.unwrap();
    run(&session, "commit prepared 'p'").await;
    assert_eq!(streamed(&session).await, "2");
    let after = format!(
        "select count(*) from pg_logical_slot_peek_binary_changes('facts', null, null, \
           'proto_version', '1', 'publication_names', 'facts') \
         where get_byte(data, 0) = 67 and lsn > '{behind}'"
    );
    assert_eq!(ask(&session, &after).await, "1");
    let passed = ask(&session, "select pg_snapshot_xmin(pg_current_snapshot())").await;
    assert!(passed.parse::<u64>().unwrap() > first.parse().unwrap(), "{passed} {first}");
}

/// Rows that are loaded so are seen by snapshots from before them.
#[tokio::test]
async fn rows_of_copy_freeze_are_seen_by_older_snapshots() {
    let (server, session) = server(&[]).await;
    let reader = server.connect().await.unwrap();
    run(&reader, "begin isolation level repeatable read; select 1").await;
    let file = server.write_file("rows", b"1\ta\n").unwrap();
    run(
        &session,
        &format!(
            "begin; create table loaded (id int, key text); \
         copy loaded from '{}' with (freeze); commit",
            file.display()
        ),
    )
    .await;
    assert_eq!(ask(&reader, "select count(*) from loaded").await, "1");
}

/// A slot that somebody has moved is found by comparing it with the witness: it never goes back.
#[tokio::test]
async fn a_slot_never_moves_back() {
    let (server, session) = server(&[]).await;
    create_slot(&session, "facts", "pgoutput").await.unwrap();
    let begun = server.confirmed("facts").await.unwrap();
    run(&session, TABLE).await;
    run(&session, "select pg_replication_slot_advance('facts', pg_current_wal_lsn())").await;
    let moved = server.confirmed("facts").await.unwrap();
    assert!(moved > begun);
    let back = format!("select pg_replication_slot_advance('facts', '{begun}')");
    assert_eq!(refused(&session, &back).await, "55000");
    assert_eq!(server.confirmed("facts").await.unwrap(), moved);
}

/// Ids and columns are compared as pgoutput writes them.
#[tokio::test]
async fn concat_prints_as_pgoutput_does_and_runs_no_cast() {
    let (_server, session) = server(&[]).await;
    run(
        &session,
        "create type mood as enum ('sad', 'glad'); \
         create table outbox (id char(5), amount numeric, at timestamptz, mood mood); \
         insert into outbox values ('a', 1.00, '2026-07-01 12:00+02', 'sad')",
    )
    .await;
    run(&session, "set timezone = 'UTC'").await;
    assert_eq!(ask(&session, "select concat(id) from outbox").await, "a    ");
    assert_eq!(ask(&session, "select id::text from outbox").await, "a", "a cast takes the blanks");
    assert_eq!(
        ask(&session, "select concat(amount, at) from outbox").await,
        "1.002026-07-01 10:00:00+00"
    );
    run(&session, "alter type mood rename value 'sad' to 'blue'").await;
    assert_eq!(ask(&session, "select concat(mood) from outbox").await, "blue", "also of old rows");
    run(
        &session,
        "create function own(mood) returns text language sql as $$ select 'own' $$; \
         create cast (mood as text) with function own(mood)",
    )
    .await;
    assert_eq!(ask(&session, "select mood::text from outbox").await, "own");
    assert_eq!(ask(&session, "select concat(mood) from outbox").await, "blue");
}

/// Every session that counts or compares sets `row_security = off`.
#[tokio::test]
async fn without_row_security_a_table_that_hides_rows_is_refused_and_not_read_in_part() {
    let (_server, session) = server(&[]).await;
    run(&session, TABLE).await;
    run(
        &session,
        "insert into outbox values (1, 'a'); create role reader; \
         grant select on outbox to reader; alter table outbox enable row level security",
    )
    .await;
    assert_eq!(ask(&session, "select count(*) from outbox").await, "1", "of its owner");
    run(&session, "set role reader").await;
    assert_eq!(ask(&session, "select count(*) from outbox").await, "0", "in silence");
    run(&session, "set row_security = off").await;
    assert_eq!(refused(&session, "select count(*) from outbox").await, "42501");
}

/// A superuser's command that removes rows looks for such code first.
#[tokio::test]
async fn code_that_an_owner_has_put_on_a_table_runs_as_who_writes_to_it() {
    let (_server, session) = server(&[]).await;
    run(&session, TABLE).await;
    run(
        &session,
        "create role owner; alter table outbox owner to owner; \
         grant create on schema public to owner; insert into outbox values (1, 'a'); \
         create table seen (who text); grant all on seen to public; \
         set role owner; \
         create function spy() returns trigger language plpgsql as \
           $$ begin insert into seen values (current_user); return old; end $$; \
         create trigger spy before delete on outbox for each row execute function spy(); \
         reset role",
    )
    .await;
    let superuser = ask(&session, "select current_user").await;
    run(&session, "delete from outbox").await;
    assert_eq!(ask(&session, "select who from seen").await, superuser);
}

/// A writer that fires no triggers, as a subscription's, is streamed like every other.
#[tokio::test]
async fn a_session_that_replicates_is_streamed_and_fires_no_trigger() {
    let (_server, session) = server(&[]).await;
    run(&session, TABLE).await;
    run(
        &session,
        "create publication facts for table outbox; \
         create function refuse() returns trigger language plpgsql as \
           $$ begin raise exception 'refused'; end $$; \
         create trigger refuse before insert on outbox for each row execute function refuse()",
    )
    .await;
    create_slot(&session, "facts", "pgoutput").await.unwrap();
    assert_eq!(refused(&session, "insert into outbox values (1, 'a')").await, "P0001");
    run(&session, "set session_replication_role = replica; insert into outbox values (1, 'a')")
        .await;
    assert_eq!(streamed(&session).await, "1");
}
