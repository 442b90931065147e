//! `status` with `postgres.source = "polling"`: also while no router runs, since it counts itself.

use outbox_router::cli::{Audience, Exit};
use serde_json::Value;

use crate::{
    server::{CommandOutput, Server, run_line},
    status::{no_router, router},
};

const TABLE: &str = "\
    create table outbox (id bigint primary key generated always as identity, \
      aggregate_type text not null default 'order', aggregate_id text, \
      event_type text not null default 'placed', payload jsonb, \
      created_at timestamptz not null default now(), published_at timestamptz); \
    create schema outbox_router; \
    create table outbox_router.lease (relation oid, shard int, holder uuid, \
      expires_at timestamptz, primary key (relation, shard)); \
    create table outbox_router.worker (relation oid, holder uuid, name text not null, \
      seen_until timestamptz, primary key (relation, holder)); \
    create table outbox_router.mark (relation oid primary key, decided jsonb); \
    create table outbox_router.switch (relation oid primary key, state text, holder uuid, \
      \"by\" text, since timestamptz); \
    insert into outbox (aggregate_id, created_at) \
      select i, now() - interval '10 min' from generate_series(1, 7) i;";

const CONFIGURATION: &str =
    "name = \"orders\"\n[postgres]\nsource = \"polling\"\n[[outbox]]\ntable = \"public.outbox\"\n";

/// All shards, under a lease that ends so many seconds from now.
fn lease(seconds: i32) -> String {
    let worker = "00000000-0000-4000-8000-000000000001";
    format!(
        "insert into outbox_router.lease select 'outbox'::regclass, shard, '{worker}', \
           now() + interval '{seconds} s' from generate_series(0, 63) shard; \
         insert into outbox_router.worker values ('outbox'::regclass, '{worker}', 'orders', \
           now() + interval '{seconds} s');"
    )
}

async fn status(server: &Server, more: &[&str]) -> CommandOutput {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), CONFIGURATION).expect("written");
    let url = format!("postgres.url={}", server.url("postgres"));
    let line = ["--config", file.path().to_str().expect("UTF-8"), "status", "--set", &url];
    let line: Vec<String> = line.iter().chain(more).map(ToString::to_string).collect();
    run_line(Audience::Machine, &line, "").await
}

fn server(leases: &str) -> Server {
    let server = Server::start();
    server.script(&format!("{TABLE} {leases}"));
    server
}

#[tokio::test]
async fn with_every_router_down_tables_and_leases_are_read() {
    let server = server(&lease(-90));
    let status = status(&server, &["--set", &no_router()]).await;
    assert_eq!(status.exit, Exit::Failure, "{status:?}");
    let lines: Vec<&str> = status.out.lines().collect();
    assert_eq!(
        lines[..6],
        [
            "verdict   FAILED: no worker polls public.outbox, in which 7 rows are pending",
            "behind    7 rows are pending, the oldest for 10 min",
            "to blame  the router: it is not running, or holds no lease",
            "to do     no worker polls public.outbox, in which 7 rows are pending",
            "          outbox-router run",
            "",
        ],
        "{}",
        status.out
    );
    assert_eq!(
        lines[6],
        "table     public.outbox: 7 pending, 0 claimed, 0 wait for another attempt, 0 abandoned"
    );
    let held = "held by   orders (00000000-0000-4000-8000-000000000001): 64 of 64 shards; its lease \
                ended ";
    assert!(lines[7].starts_with(held), "{}", lines[7]);
    assert!(lines[8].starts_with("router    does not answer at http://"), "{}", lines[8]);
}

#[tokio::test]
async fn a_worker_elsewhere_is_named_and_nothing_says_that_rows_flow() {
    let server = server(&lease(60));
    let no_router = no_router();
    let text = status(&server, &["--set", &no_router]).await;
    assert_eq!(text.exit, Exit::Failure, "{text:?}");
    assert!(
        text.out.starts_with("verdict   UNKNOWN: no router answers at http://"),
        "{}",
        text.out
    );
    assert!(text.out.contains("1 worker holds 64 of 64 shards of public.outbox"), "{}", text.out);
    let json = status(&server, &["--json", "--set", &no_router]).await;
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["verdict"], &json["pending_rows"]), (&"unknown".into(), &7.into()));
    assert_eq!(json["tables"][0]["holders"][0]["name"], "orders");
}

#[tokio::test]
async fn a_router_that_answers_says_how_it_is() {
    let server = server(&lease(60));
    let (address, _request) = router(
        r#"{"source":"polling","name":"orders","state":"polling","verdict":{"word":"ok",
        "sentence":"rows flow","blame":"nobody","acts":"nobody","since":1.0,"to_do":[]}}"#,
    );
    let listen = format!("admin.listen={address}");
    let well = status(&server, &["--set", &listen]).await;
    assert_eq!(well.exit, Exit::Done, "{well:?}");
    assert!(well.out.contains("to blame  nobody: it keeps up\n"), "{}", well.out);
    // One that follows a slot is another one.
    let (address, _request) = router(r#"{"name":"orders","state":"streaming"}"#);
    let listen = format!("admin.listen={address}");
    let other = status(&server, &["--set", &listen]).await;
    assert_eq!(other.exit, Exit::Failure, "{other:?}");
    assert!(other.out.contains("is another: pipeline orders, source stream\n"), "{}", other.out);
}

const WELL: &str = r#"{"source":"polling","name":"orders","state":"polling",
    "verdict":{"word":"ok","sentence":"rows flow","blame":"nobody","acts":"nobody","since":1.0,
    "to_do":[]},"pending":{"empty_in_seconds":240.0}}"#;

#[tokio::test]
async fn a_switch_that_was_killed_is_told_whatever_the_router_says() {
    let closing = "insert into outbox_router.switch values \
                   ('outbox'::regclass, 'closing', null, 'ann', now());";
    let server = server(&format!("{} {closing}", lease(60)));
    let (address, _request) = router(WELL);
    let listen = format!("admin.listen={address}");
    let status = status(&server, &["--set", &listen]).await;
    assert_eq!(status.exit, Exit::Failure, "{status:?}");
    let verdict = "verdict   BLOCKED: table public.outbox is being handed to the stream, and \
                   nobody polls it (P043)\n";
    assert!(status.out.starts_with(verdict), "{}", status.out);
    assert!(status.out.contains("to blame  a person: nobody polls the tables\n"), "{}", status.out);
    assert!(status.out.contains("outbox-router switch polling"), "{}", status.out);
    assert!(!status.out.contains("at this pace"), "{}", status.out);
}

#[tokio::test]
async fn rows_that_are_not_due_are_told_apart() {
    let later = "alter table outbox add available_at timestamptz default now() + interval '2 h';";
    let server = server(&format!("{} {later}", lease(60)));
    let (address, _request) = router(WELL);
    let listen = format!("admin.listen={address}");
    let text = status(&server, &["--set", &listen]).await;
    assert_eq!(text.exit, Exit::Done, "{text:?}");
    let line = "behind    7 rows are pending, of which 7 are not due before 119 min from now\n";
    assert!(text.out.contains(line), "{}", text.out);
    let json = status(&server, &["--json", "--set", &no_router()]).await;
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["pending_rows"], &json["oldest_pending_seconds"]), (&7.into(), &Value::Null));
}

#[tokio::test]
async fn without_the_tables_of_leases_the_code_says_what_to_type() {
    let server = server("drop schema outbox_router cascade;");
    let status = status(&server, &["--set", &no_router()]).await;
    assert_eq!(status.exit, Exit::Failure, "{status:?}");
    assert!(status.out.contains("P042: "), "{}", status.out);
    assert!(status.out.contains("held by   unknown (P042)\n"), "{}", status.out);
    assert!(status.out.contains("7 pending"), "{}", status.out);
}

/// The row stops its key, also where a router says that rows flow.
#[tokio::test]
async fn a_row_of_an_unknown_status_is_told() {
    let other = "alter table outbox add status text default 'PENDING'; \
                 update outbox set status = 'ERROR' where id = 3;";
    let server = server(&format!("{} {other}", lease(60)));
    let alone = status(&server, &["--set", &no_router()]).await;
    assert_eq!(alone.exit, Exit::Failure, "{alone:?}");
    let row = "1 row of public.outbox with a status of which outbox.mark knows nothing";
    assert!(alone.out.starts_with(&format!("verdict   FAILED: {row}")), "{}", alone.out);
    let (address, _request) = router(WELL);
    let listen = format!("admin.listen={address}");
    let beside = status(&server, &["--set", &listen]).await;
    for told in [format!("to do     P060: {row}"), "1 with an unknown status".to_owned()] {
        assert!(alone.out.contains(&told), "{}", alone.out);
        assert!(beside.out.contains(&told), "{}", beside.out);
    }
}
