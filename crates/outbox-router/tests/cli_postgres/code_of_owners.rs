//! Every command that reads or writes the rows of an outbox refuses to run code of its owner with
//! the rights of a superuser, and changes nothing then.

use outbox_router::cli::Exit;
use relay::{
    Code, Failure, Lsn,
    source::{Gap, Interval, Mark},
};

use crate::{
    delivered::{self, confirm},
    kafka::{self, SharedState},
    security::{OWNER, attacked, check_kept, check_refused, typed_as},
    server::{CommandOutput, Server},
};

/// The type of the ids is the owner's, and so is its cast.
const CAST: &str = "\
create type word as enum ('e-1', 'e-2');
create function shown(word) returns text immutable language plpgsql as $$ begin
  perform public.seize(); return 'e-1'; end $$;
create cast (word as text) with function shown(word) as implicit;
alter table outbox alter id type word using 'e-1';";

async fn refused(server: &Server, line: &[&str], code: &str) -> CommandOutput {
    let output = typed_as(server, "postgres", line).await;
    check_refused(server, &output, code);
    output
}

/// Played with `where`, which changes nothing.
#[tokio::test]
async fn no_command_of_a_superuser_reads_rows_where_that_would_call_a_cast_of_their_owner() {
    let server = attacked(CAST);
    server.sql("alter role app nosuperuser");
    let cast = "a cast of type public.word is code of role app";
    for line in [
        &["where", "e-1"][..],
        &["where", "--key", "b"],
        &["replay", "--table", "public.outbox", "--all", "--dry-run"],
        &["replay", "--table", "public.outbox", "--id", "e-1", "--yes"],
    ] {
        refused(&server, line, cast).await;
    }
    server.sql("select pg_drop_replication_slot('outbox_router')");
    refused(&server, &["setup", "--apply", "--backfill"], cast).await;
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "0");

    open_gap(&server);
    refused(&server, &["recover", "--yes"], cast).await;
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "0");
    let accepted = typed_as(&server, "postgres", &["accept", "--yes"]).await;
    let counted = format!("rows      of public.outbox cannot be counted: public.outbox: {cast}");
    assert!(accepted.out.contains(&counted), "{accepted:?}");
    check_kept(&server);
}

/// Writes the record of a router that has found its slot gone.
fn open_gap(server: &Server) {
    let mut known = delivered::record(server, |_| None);
    let mark = |lsn, ago: &str| {
        let at = server.sql(&format!("select now() - interval '{ago}'"));
        Mark { lsn: Lsn::from_u64(lsn), at: Some(at) }
    };
    let interval = Interval { from: Some(mark(5, "2 hours")), to: mark(9, "1 hour") };
    let failure = Failure::new(Code::SlotMissing, "the slot is gone");
    known.gaps = vec![Gap::new(failure, interval)];
    known.generation += 1;
    let state = server.state.get().expect("a command was typed");
    kafka::put(&state.bootstrap, "router", &known);
}

/// A polled table with an abandoned row and a published one, whose owner attacks with a trigger.
fn polled() -> Server {
    let server = Server::start();
    server.script(OWNER);
    server.script(
        "set role app;
         alter table outbox add status text not null default 'PENDING', add last_error text;
         insert into outbox (id, status, created_at) values ('e-1', 'ABANDONED', now()),
           ('e-2', 'PUBLISHED', now() - interval '1 hour');
         create trigger t before update or delete on outbox
           for each row execute function seize_row();",
    );
    // A pipeline that has never streamed has no record there.
    server.state.get_or_init(SharedState::start);
    server
}

const POLLED: [&str; 2] = ["--set", "postgres.source=polling"];

#[tokio::test]
async fn no_command_of_a_superuser_marks_rows_where_a_trigger_of_their_owner_would_run() {
    let server = polled();
    let made = typed_as(&server, "postgres", &[&["setup", "--apply"], &POLLED[..]].concat()).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let trigger = "public.outbox: trigger t is code of role app";
    let retention = ["--set", "retention.mode=delete", "--set", "retention.keep=30m"];
    for line in [
        &["dead-letters", "list"][..],
        &["dead-letters", "requeue", "--all", "--yes"],
        &["dead-letters", "drop", "--id", "e-1", "--yes"],
        &[&["cleanup", "--yes"], &retention[..]].concat(),
        &["switch", "stream", "--yes"],
    ] {
        refused(&server, &[line, &POLLED].concat(), trigger).await;
    }
    let rows = "select string_agg(id || ' ' || status, ', ' order by id) from outbox";
    assert_eq!(server.sql(rows), "e-1 ABANDONED, e-2 PUBLISHED");
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "0");
    assert_eq!(server.sql("select count(*) from outbox_router.switch"), "0");
}

/// The same, after a stream.
#[tokio::test]
async fn no_row_of_a_stream_is_marked_where_a_trigger_of_their_owner_would_run() {
    let server = attacked(
        "alter table outbox add published_at timestamptz;
         create trigger t before update on outbox for each row execute function seize_row();",
    );
    let line = [&["switch", "polling", "--yes", "--older", "give-up"], &POLLED[..]].concat();
    refused(&server, &line, "public.outbox: trigger t is code of role app").await;
    assert_eq!(server.sql("select count(*) from outbox where published_at is null"), "1");
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "1");
}

/// A trigger of the archive runs where rows are moved there.
#[tokio::test]
async fn a_superuser_moves_nothing_into_an_archive_with_a_trigger_of_its_owner() {
    let server = attacked(
        "create table outbox_archive (like outbox);
         create trigger t after insert on outbox_archive
           for each row execute function seize_row();",
    );
    let line =
        ["cleanup", "--yes", "--set", "retention.mode=archive", "--set", "retention.keep=30m"];
    let trigger = "public.outbox_archive: trigger t is code of role app";
    refused(&server, &line, trigger).await;
    assert_eq!(server.sql("select count(*) from outbox"), "1");
    server.sql("drop trigger t on outbox_archive");
    confirm(&server);
    let moved = typed_as(&server, "postgres", &line).await;
    assert!(moved.out.contains("1 rows moved"), "{moved:?}");
}
