use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    thread::{self, JoinHandle},
};

use outbox_router::cli::{Audience, Exit};
use relay::{
    Code, Failure, Lsn,
    source::{Gap, Interval, Mark},
    witness::{Acceptance, Recovered, Witness},
};
use serde_json::Value;

use crate::{
    kafka::{self, StateCluster},
    server::{CommandOutput, Server, run_command_at, run_line},
};

/// An address at which nobody listens.
pub(crate) fn no_router() -> String {
    let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it");
    format!("admin.listen={address}")
}

/// A router that answers one request with this `/status.json`.
pub(crate) fn router(body: &'static str) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let answer = move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut request = vec![0; 1024];
        let read = stream.read(&mut request).expect("read");
        request.truncate(read);
        write!(stream, "HTTP/1.1 503 Service Unavailable\r\n\r\n{body}").expect("written");
        String::from_utf8(request).expect("UTF-8")
    };
    (address, thread::spawn(answer))
}

async fn set_up(settings: &str) -> Server {
    let server = Server::with_settings(settings);
    let made = server.run_command(&["setup", "--apply", "--create-table"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    server
}

const WRITE: &str = "insert into outbox (aggregate_type, aggregate_id, event_type) \
                     select 'a', n, repeat('x', 500) from generate_series(1, 4000) n";

#[tokio::test]
async fn with_the_router_down_postgresql_is_read() {
    let server = set_up("").await;
    server.sql(WRITE);
    let status = server.run_command(&["status", "--set", &no_router()]).await;
    assert_eq!(status.exit, Exit::Failure);
    let (verdict, rest) = status.out.split_once('\n').unwrap();
    assert!(verdict.starts_with("verdict   FAILED: nobody reads the slot"), "{verdict}");
    let lines: Vec<&str> = rest.lines().collect();
    assert!(lines[0].starts_with("behind    ") && lines[0].ends_with(" MiB"), "{}", lines[0]);
    assert_eq!(
        lines[1..8],
        [
            "to blame  the router: it is not running, or cannot reach PostgreSQL",
            "limit     none: max_slot_wal_keep_size is not set, WAL grows until the disk is full",
            "to do     nobody reads the slot outbox_router, and PostgreSQL keeps WAL for it",
            "              outbox-router run",
            "          or, if it is no longer needed,",
            "              outbox-router teardown --apply",
            "",
        ]
    );
    assert!(lines[8].starts_with("slot      outbox_router: confirmed 0/"), "{}", lines[8]);
    assert!(lines[9].starts_with("on disk   "), "{}", lines[9]);
    assert!(
        lines[10].starts_with("router    does not answer at http://127.0.0.1:"),
        "{}",
        lines[10]
    );
}

#[tokio::test]
async fn a_slot_that_is_read_and_keeps_up_is_fine() {
    let server = set_up("max_slot_wal_keep_size = 1GB").await;
    let _reader = server.read_slot("outbox_router", "outbox_router");
    let pid = server.sql("select active_pid from pg_replication_slots");
    let (address, _request) = router(r#"{"state":"streaming"}"#);
    let listen = format!("admin.listen={address}");
    let status = server.run_command(&["status", "--set", &listen]).await;
    assert_eq!(status.exit, Exit::Done, "{status:?}");
    assert!(status.out.contains("to blame  nobody: it keeps up\n"), "{}", status.out);
    assert!(status.out.contains("to do     nothing\n"), "{}", status.out);
    assert!(status.out.contains(&format!("read by   pid {pid}, pg_recvlogical\n")));
    assert!(status.out.contains("limit     1.0 GiB of WAL more"), "{}", status.out);
}

/// What it reads may go nowhere.
#[tokio::test]
async fn without_a_router_that_answers_a_slot_that_is_read_is_never_ok() {
    let server = set_up("").await;
    let reader = server.read_slot("outbox_router", "outbox_router");
    let pid = server.sql("select active_pid from pg_replication_slots");
    let no_router = no_router();
    let line = ["status", "--set", &*no_router];
    let status = server.run_command(&line).await;
    assert_eq!(status.exit, Exit::Failure, "{status:?}");
    let address = no_router.strip_prefix("admin.listen=").unwrap();
    let verdict = format!(
        "verdict   UNKNOWN: no router answers at http://{address}, and pid {pid}, pg_recvlogical, \
         which is no router of this pipeline by its name, reads the slot outbox_router\n"
    );
    assert!(status.out.starts_with(&verdict), "{}", status.out);
    let hint = format!(
        "          what it confirms is never sent to Kafka: stop that program, then\n              select pg_terminate_backend({pid})\n"
    );
    assert!(status.out.contains(&hint), "{}", status.out);
    assert!(!status.out.contains("OK") && !status.out.contains("keeps up"), "{}", status.out);
    let json = server.run_command(&[&line[..], &["--json"]].concat()).await;
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&report["verdict"], &report["blame"]), (&"unknown".into(), &"unknown".into()));
    assert_eq!(report["findings"].as_array().unwrap().len(), 1, "{report}");
    drop(reader);

    // A router on another host, or one that hangs.
    server.wait_until("select not active from pg_replication_slots");
    let named = server.read_slot_as("outbox-router", "outbox_router", "outbox_router");
    let status = server.run_command(&line).await;
    assert_eq!(status.exit, Exit::Failure, "{status:?}");
    assert!(
        status.out.contains(", a router by its name (outbox-router), reads the slot"),
        "{}",
        status.out
    );
    assert!(status.out.contains("outbox-router status\n          on the host of the router"));
    drop(named);
}

#[tokio::test]
async fn what_the_router_reports_is_passed_on() {
    let server = set_up("").await;
    let _reader = server.read_slot("outbox_router", "outbox_router");
    let (address, request) = router(
        r#"{"state":"blocked","reason":{"code":"K010","message":"topic t does not exist","hint":"make it"}}"#,
    );
    let listen = format!("admin.listen={address}");
    let status = server.run_command(&["status", "--set", &listen]).await;
    assert!(request.join().unwrap().starts_with("GET /status.json HTTP/1.0\r\n"));
    assert_eq!(status.exit, Exit::Failure);
    let blocked = "the router is blocked: topic t does not exist\n";
    assert!(status.out.contains("to blame  Kafka\n"), "{}", status.out);
    assert!(status.out.contains(&format!("to do     K010: {blocked}          make it\n")));
    assert!(status.out.contains(&format!("router    blocked, at http://{address}\n")));
}

#[tokio::test]
async fn what_is_held_has_a_line_with_the_command_that_shows_it() {
    let server = set_up("").await;
    let _reader = server.read_slot("outbox_router", "outbox_router");
    for (held, line) in [
        (
            r#"{"keys":1,"events":12,"oldest_seconds":7300.5}"#,
            "held      12 events of 1 key, the oldest for 2 h: outbox-router dead-letters list\n",
        ),
        (r#"{"keys":0,"events":0,"oldest_seconds":null}"#, ""),
    ] {
        let json = format!(r#"{{"state":"streaming","held":{held}}}"#);
        let (address, request) = router(json.leak());
        let listen = format!("admin.listen={address}");
        let status = server.run_command(&["status", "--set", &listen]).await;
        request.join().unwrap();
        assert!(status.out.contains(line), "{}", status.out);
        assert_eq!(status.out.contains("held  "), !line.is_empty(), "{}", status.out);
        let to_do = "\nto do     outbox-router dead-letters list\n";
        assert_eq!(status.out.contains(to_do), !line.is_empty(), "{}", status.out);
    }
}

#[tokio::test]
async fn a_router_of_another_pipeline_slot_or_database_is_not_shown_as_this_one() {
    let server = set_up("").await;
    let _reader = server.read_slot("outbox_router", "outbox_router");
    for (answer, other) in [
        (r#"{"state":"streaming","slot":{"name":"theirs"}}"#, "slot theirs"),
        (
            r#"{"state":"streaming","name":"theirs","slot_name":"outbox_router","slot":null,
                "verdict":{"word":"ok","sentence":"rows flow","blame":"nobody","since":1.0}}"#,
            "pipeline theirs, slot outbox_router",
        ),
        (
            r#"{"state":"streaming","slot_name":"outbox_router","slot":{"database":"shop"}}"#,
            "slot outbox_router, database shop",
        ),
    ] {
        let (address, _request) = router(answer);
        let listen = format!("admin.listen={address}");
        let status = server.run_command(&["status", "--set", &listen]).await;
        assert_eq!(status.exit, Exit::Failure, "{status:?}");
        let said = format!("another router answers at http://{address} ({other}), and pid ");
        assert!(status.out.starts_with(&format!("verdict   UNKNOWN: {said}")), "{}", status.out);
        let line = format!("router    does not answer; at http://{address} is another: {other}\n");
        assert!(status.out.contains(&line), "{}", status.out);
    }
    let (address, _request) = router(
        r#"{"state":"streaming","slot_name":"outbox_router","slot":{"database":"postgres"}}"#,
    );
    let listen = format!("admin.listen={address}");
    let status = server.run_command(&["status", "--set", &listen]).await;
    assert_eq!(status.exit, Exit::Done, "{status:?}");
}

/// Everything but the figures of PostgreSQL is the router's own.
#[tokio::test]
async fn blame_limit_and_what_to_do_are_those_of_the_router_that_answers() {
    let server = set_up("max_slot_wal_keep_size = 1GB").await;
    let _reader = server.read_slot("outbox_router", "outbox_router");
    let (address, _request) = router(
        r#"{"state":"failed","blame":"router","reason":{"code":"R003","message":"id is null"},
            "verdict":{"word":"failed","sentence":"id is null (R003)","code":"R003","since":1.0,
            "blame":"router","acts":"person","to_do":[
            {"code":"R003","message":"id is null","hint":"outbox-router skip"},
            {"code":null,"message":"the slot is near its limit","hint":"make room"},
            {"code":null,"message":"events of 1 key are held behind dead letters",
                "hint":"outbox-router dead-letters list"}]},
            "slot":{"seconds_to_limit":7300.5,"limited_by":"max_slot_wal_keep_size"}}"#,
    );
    let listen = format!("admin.listen={address}");
    let status = server.run_command(&["status", "--set", &listen]).await;
    assert_eq!(status.exit, Exit::Failure, "{status:?}");
    for line in [
        "\nto blame  a person: it does not go on by itself\n",
        "of WAL more: in 2 h at this pace\n",
        "\nto do     R003: outbox-router skip\n",
        "\nto do     the slot is near its limit\n          make room\n",
    ] {
        assert!(status.out.contains(line), "{line} in {}", status.out);
    }
    assert_eq!(status.out.matches("id is null").count(), 1, "{}", status.out);
    assert!(!status.out.contains("dead-letters list"), "{}", status.out);

    // The verdict counts, although the router names nothing to do.
    let (address, _request) = router(
        r#"{"state":"streaming","verdict":{"word":"failed","sentence":"the streaming task hangs",
            "code":null,"since":1.0,"blame":"nobody","acts":"person","to_do":[]}}"#,
    );
    let listen = format!("admin.listen={address}");
    let status = server.run_command(&["status", "--set", &listen]).await;
    assert_eq!(status.exit, Exit::Failure, "{status:?}");
}

/// The router looks every 30 s, and its sentence is of the last look.
#[tokio::test]
async fn a_slot_that_was_made_again_is_not_said_to_be_missing() {
    let server = set_up("").await;
    let (address, _request) = router(
        r#"{"state":"starting","verdict":{"word":"blocked","sentence":"no slot (P010)",
            "code":"P010","since":1.0,"blame":"postgresql","acts":"person","to_do":[
            {"code":"P010","message":"no slot","hint":"setup"}]}}"#,
    );
    let listen = format!("admin.listen={address}");
    let line = kafka::with("127.0.0.1:1", &["status", "--set", &listen]);
    let status = run_command(&server, &line).await;
    let sentence =
        "no slot (P010); PostgreSQL has one now, and the router looks again within 30 s\n";
    assert!(status.out.contains(sentence), "{}", status.out);
}

#[tokio::test]
async fn the_json_output_is_one_object() {
    let server = set_up("max_slot_wal_keep_size = 1GB").await;
    server.sql(WRITE);
    let (address, _request) = router(r#"{"state":"starting"}"#);
    let listen = format!("admin.listen={address}");
    let thresholds = "monitor.bytes_behind.warning=1MiB";
    let status =
        server.run_command(&["status", "--json", "--set", &listen, "--set", thresholds]).await;
    assert_eq!(status.exit, Exit::Failure);
    let report: Value = serde_json::from_str(&status.out).unwrap();
    assert!(report["slot"]["bytes_behind"].as_u64().unwrap() > 1 << 20, "{report}");
    assert!(report["slot"]["safe_wal_bytes"].as_u64().unwrap() > 1 << 29, "{report}");
    assert_eq!(report["slot"]["wal_status"], "reserved");
    assert_eq!(report["slot"]["active"], false);
    assert_eq!(report["router"]["state"], "starting");
    assert_eq!(
        (&report["blame"], &report["slot"]["name"]),
        (&"router".into(), &"outbox_router".into())
    );
    let findings = report["findings"].as_array().unwrap();
    let message = findings[1]["message"].as_str().unwrap();
    assert!(message.ends_with("monitor.bytes_behind.warning is 1.0 MiB"), "{message}");
}

#[tokio::test]
async fn a_missing_slot_and_a_missing_server_are_findings() {
    let server = Server::start();
    let status = server.run_command(&["status", "--set", &no_router()]).await;
    assert_eq!(status.exit, Exit::Failure);
    assert!(status.out.contains("to do     P010: the slot outbox_router does not exist\n"));
    let url = server.url("postgres");
    drop(server);
    let status = run_command_at(&url, &["status", "--set", &no_router()], "").await;
    assert_eq!(status.exit, Exit::Failure);
    assert!(
        status.out.contains("\nbehind    unknown\nto blame  unknown: PostgreSQL cannot be asked\n")
    );
    assert!(status.out.starts_with("verdict   FAILED: cannot connect"), "{}", status.out);
    assert!(
        status.out.contains("to do     P001: cannot connect to PostgreSQL at "),
        "{}",
        status.out
    );
}

/// `to_regclass` is refused to it.
#[tokio::test]
async fn a_switch_is_seen_by_a_role_that_may_not_use_the_schema_of_the_table() {
    let server = set_up("").await;
    server.sql(
        "create schema shop; alter table outbox set schema shop; create role limited login; \
         create schema if not exists outbox_router; \
         create table outbox_router.switch (relation oid primary key, state text not null); \
         insert into outbox_router.switch values ('shop.outbox'::regclass, 'closing'); \
         grant usage on schema outbox_router to limited; \
         grant select on all tables in schema outbox_router to limited",
    );
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[[outbox]]\ntable = \"shop.outbox\"\n").expect("written");
    let named = file.path().to_str().expect("UTF-8");
    let url = format!("postgres.url={}", server.url("limited"));
    let line = ["status", "--config", named, "--set", &url, "--set", &no_router()];
    let status = run_line(Audience::Machine, &line.map(str::to_owned), "").await;
    assert!(status.out.contains("P043: table shop.outbox is being handed"), "{status:?}");
}

#[tokio::test]
async fn a_lost_slot_is_reported_with_the_position_from_which_rows_may_be_missing() {
    let server = set_up("max_slot_wal_keep_size = 1MB\nmax_wal_size = 32MB").await;
    let confirmed = server.sql("select confirmed_flush_lsn from pg_replication_slots");
    for _ in 0..3 {
        server.sql("select pg_switch_wal()");
        server.sql(WRITE);
    }
    server.sql("select pg_switch_wal()");
    server.sql("checkpoint");
    server.wait_until("select wal_status = 'lost' from pg_replication_slots");
    let status = server.run_command(&["status", "--set", &no_router()]).await;
    assert_eq!(status.exit, Exit::Failure);
    let limit = "\nlimit     passed: PostgreSQL has invalidated the slot (max_slot_wal_keep_size is \
                 1.0 MiB)\n";
    assert!(status.out.contains(limit), "{}", status.out);
    assert!(status.out.contains("to blame  a person: "), "{}", status.out);
    assert!(status.out.contains(": max_slot_wal_keep_size is 1.0 MiB, and the slot was "));
    assert!(
        status.out.contains("MB'\n          then\n              select pg_reload_conf()\n"),
        "{}",
        status.out
    );
    // From PostgreSQL 17 on with the reason between the two.
    let finding = format!(": rows after {confirmed} may be missing");
    assert!(status.out.contains("P011: the slot outbox_router is lost"), "{}", status.out);
    assert!(status.out.contains(&finding), "{}", status.out);
    let setup = server.run_command(&["setup", "--apply"]).await;
    assert!(setup.err.starts_with("error: P011: the slot outbox_router is lost"), "{}", setup.err);
}

#[tokio::test]
async fn a_slot_that_the_next_checkpoint_takes_gets_a_limit_with_a_size() {
    let server = set_up("max_slot_wal_keep_size = 1MB\nmax_wal_size = 1GB").await;
    for _ in 0..3 {
        server.sql("select pg_switch_wal()");
        server.sql(WRITE);
    }
    server.wait_until("select wal_status = 'unreserved' from pg_replication_slots");
    let status = server.run_command(&["status", "--set", &no_router()]).await;
    assert_eq!(status.exit, Exit::Failure);
    assert!(
        status
            .out
            .contains("\nlimit     passed: the slot is past max_slot_wal_keep_size (1.0 MiB)")
    );
    let to_do = "\nto do     D013: PostgreSQL invalidates the slot at its next checkpoint";
    assert!(status.out.contains(to_do), "{}", status.out);
    let (_, hint) = status.out.split_once("set max_slot_wal_keep_size = '").expect("a size");
    let size: u64 = hint.split_once("MB'").unwrap().0.parse().expect("a number");
    assert!((64..=512).contains(&size), "twice what is retained: {size}");
    assert!(!status.out.contains("= -1") && status.out.contains("disk of pg_wal has "));
    let json = server.run_command(&["status", "--json", "--set", &no_router()]).await;
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["slot"]["seconds_to_limit"], 0, "{report}");
    assert_eq!(report["slot"]["limited_by"], "max_slot_wal_keep_size");
}

async fn run_command(server: &Server, line: &[String]) -> CommandOutput {
    server.run_command(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
}

fn mark(lsn: u64) -> Mark {
    Mark { lsn: Lsn::from_u64(lsn), at: Some("2026-01-01T00:00:00Z".to_owned()) }
}

/// A gap that nobody has accepted, and one that ann has.
fn record() -> Witness {
    let failure = Failure::new(Code::SlotMoved, "the slot was moved");
    let gap = Gap::new(failure, Interval { from: Some(mark(5)), to: mark(9) });
    Witness {
        gaps: vec![gap],
        accepted: vec![Acceptance {
            code: "P010".to_owned(),
            lsn: Lsn::from_u64(1),
            by: "ann".to_owned(),
            at: "2026-01-01T00:00:00Z".to_owned(),
            generation: 1,
            recovered: None,
        }],
        began_without: Some(mark(1)),
        ..Witness::at(Lsn::from_u64(1 << 40))
    }
}

#[tokio::test]
async fn with_the_router_down_the_state_topic_shows_what_is_open() {
    let (server, kafka) = (set_up("").await, StateCluster::start());
    let no_router = no_router();
    let line = kafka.with(&["status", "--set", &no_router]);
    let absent = run_command(&server, &line).await;
    let expected = "witness   none in outbox-router.state: outbox-router setup --apply creates it, \
                then outbox-router accept closes K022\n";
    assert!(absent.out.contains(expected), "{}", absent.out);

    kafka.put("router", &record()).await;
    let status = run_command(&server, &line).await;
    assert_eq!(status.exit, Exit::Failure);
    for expected in [
        "to do     P014: the slot was moved; rows committed after 0/5 (2026-01-01T00:00:00Z) and up to",
        "              outbox-router accept --gap P014@0/5\n          gives them up\n",
        "to do     K022: the pipeline began at 0/1 (2026-01-01T00:00:00Z) without a witness",
        "\"By hand\"); then\n              outbox-router accept --gap K022@0/1\n",
        "witness   everything before 100/0 is acknowledged\nopen      P014@0/5\nopen      K022@0/1\n",
        "accepted  P010@0/1 by ann, 2026-01-01T00:00:00Z\n",
    ] {
        assert!(status.out.contains(expected), "{expected}\nin {}", status.out);
    }
    let json = run_command(&server, &[&line[..], &["--json".to_owned()]].concat()).await;
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (&report["record"]["known"], &report["findings"][0]["code"]),
        (&"known".into(), &"P014".into())
    );
    assert_eq!(report["record"]["open"][1]["name"], "K022@0/1");
    assert_eq!(report["record"]["accepted"][0]["by"], "ann");
}

#[tokio::test]
async fn a_slot_past_the_record_is_found_without_a_router() {
    let (server, kafka) = (set_up("").await, StateCluster::start());
    kafka.put("router", &Witness::at(Lsn::from_u64(7))).await;
    let status = run_command(&server, &kafka.with(&["status", "--set", &no_router()])).await;
    assert!(status.out.contains("P014: slot \"outbox_router\" stands at 0/"), "{}", status.out);
    assert!(status.out.contains("past 0/7, up to which everything is acknowledged"));
    // A role that may not replicate cannot read the source as a router does.
    server.sql("create role reader login");
    let line = kafka.with(&["status", "--set", &no_router()]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let status = run_command_at(&server.url("reader"), &line, "").await;
    assert!(status.out.contains("P014: the slot outbox_router stands at 0/"), "{}", status.out);
}

/// Nobody has written down what is open, since no router was there to find it.
#[tokio::test]
async fn with_the_router_down_a_dropped_slot_is_an_open_gap_with_its_name() {
    let (server, kafka) = (Server::start(), StateCluster::start());
    let line = kafka.with(&["setup", "--apply", "--create-table"]);
    let made = run_command(&server, &line).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let position = kafka.record().await.expect("a record").position;
    server.sql("select pg_drop_replication_slot('outbox_router')");
    server.sql(WRITE);
    let status = run_command(&server, &kafka.with(&["status", "--set", &no_router()])).await;
    assert_eq!(status.exit, Exit::Failure);
    for expected in [
        format!("to do     P010: slot \"outbox_router\" does not exist; rows committed after {position}"),
        "and until there is a new slot may be missing in Kafka (found at 0/".to_owned(),
        "              outbox-router recover --admin-url postgres://ADMIN@HOST:PORT/DATABASE\n          \
         sends the missing rows and closes the gap (docs/recover.md); or\n"
            .to_owned(),
        format!(
            "open      P010@{position}\n          found now; no router has written it down\n"
        ),
    ] {
        assert!(status.out.contains(&expected), "{expected}\nin {}", status.out);
    }
    assert_eq!(status.out.matches("P010: ").count(), 1, "{}", status.out);
    assert!(
        !status.out.contains("creates it"),
        "no event was sent, and it is a gap: {}",
        status.out
    );
    assert!(kafka.record().await.expect("a record").gaps.is_empty(), "status writes nothing");
}

/// One recovery has one number of rows, however many gaps it closes.
#[tokio::test]
async fn what_a_recovery_has_closed_is_shown_with_its_rows_once() {
    let (server, kafka) = (set_up("").await, StateCluster::start());
    let closed = |code: &str, recovered| Acceptance {
        code: code.to_owned(),
        lsn: Lsn::from_u64(1),
        by: "ann".to_owned(),
        at: "2026-01-01T00:00:00Z".to_owned(),
        generation: 2,
        recovered,
    };
    let sent = Some(Recovered { rows: 100, records: 1 });
    let accepted = vec![closed("P014", None), closed("P010", sent), closed("P020", sent)];
    kafka.put("router", &Witness { accepted, ..Witness::at(Lsn::from_u64(1)) }).await;
    let status = run_command(&server, &kafka.with(&["status", "--set", &no_router()])).await;
    let expected = "accepted  P014@0/1 by ann, 2026-01-01T00:00:00Z\n\
                    recovered P010@0/1 by ann, 2026-01-01T00:00:00Z\n\
                    recovered P020@0/1 by ann, 2026-01-01T00:00:00Z\n          \
                    100 rows were missing, 1 record sent\n";
    assert!(status.out.ends_with(expected), "{}", status.out);
}

#[tokio::test]
async fn a_kafka_that_does_not_answer_is_waited_for_briefly() {
    let server = set_up("max_slot_wal_keep_size = 1GB").await;
    let _reader = server.read_slot("outbox_router", "outbox_router");
    let (address, _request) = router(r#"{"state":"streaming"}"#);
    let listen = format!("admin.listen={address}");
    let line = kafka::with("127.0.0.1:1", &["status", "--set", &listen]);
    let started = std::time::SystemTime::now();
    let status = run_command(&server, &line).await;
    let waited = started.elapsed().unwrap();
    assert_eq!(status.exit, Exit::Done, "what is not known is no finding: {status:?}");
    assert!(status.out.contains("witness   unknown, and so is what is open: "), "{}", status.out);
    assert!(waited.as_secs() < 10, "{waited:?}");
}

#[tokio::test]
async fn a_router_that_stopped_for_a_gap_reports_it_once() {
    let server = set_up("").await;
    let (address, _request) = router(
        r#"{"state":"failed","reason":{"code":"P014","message":"moved","hint":"outbox-router accept"},
            "witness":{"kept":"kafka","position":"0/5","began_without":null,"gaps_recorded":false,
            "gaps":[{"name":"P014@0/5","message":"moved",
                "hint":"publish them, then outbox-router accept --gap P014@0/5"}],"accepted":[]}}"#,
    );
    let listen = format!("admin.listen={address}");
    let line = kafka::with("127.0.0.1:1", &["status", "--set", &listen]);
    let status = run_command(&server, &line).await;
    assert_eq!(status.out.matches("P014: ").count(), 1, "{}", status.out);
    assert!(status.out.contains("then outbox-router accept --gap P014@0/5\n"), "{}", status.out);
    assert!(status.out.contains("          not in the witness yet: a restart forgets it\n"));
    // It runs, and dropping the slot would lose what can still be sent.
    assert!(!status.out.contains("outbox-router run"), "{}", status.out);
    assert!(!status.out.contains("teardown"), "{}", status.out);
}

/// While rows may be missing, nobody is told to drop the slot, whether the router is there or not.
#[tokio::test]
async fn no_teardown_is_proposed_while_a_gap_is_open() {
    let (server, kafka) = (set_up("").await, StateCluster::start());
    let no_router = no_router();
    let line = kafka.with(&["status", "--set", &no_router]);
    kafka.put("router", &record()).await;
    let recorded = run_command(&server, &line).await;
    let run = "to do     nobody reads the slot outbox_router, and PostgreSQL keeps WAL for it\n              \
               outbox-router run\n          it continues when what is open was recovered or accepted\n";
    assert!(recorded.out.contains(run), "{}", recorded.out);
    assert!(!recorded.out.contains("teardown"), "{}", recorded.out);

    kafka.put("router", &Witness { generation: 9, ..Witness::at(Lsn::from_u64(7)) }).await;
    let moved = run_command(&server, &line).await;
    assert!(moved.out.contains("to do     P014: "), "{}", moved.out);
    assert!(moved.out.contains(run) && !moved.out.contains("teardown"), "{}", moved.out);

    // What is open nobody knows.
    let line = kafka::with("127.0.0.1:1", &["status", "--set", &no_router]);
    let unknown = run_command(&server, &line).await;
    assert!(unknown.out.contains("          outbox-router run\n"), "{}", unknown.out);
    assert!(!unknown.out.contains("teardown"), "{}", unknown.out);
}

#[tokio::test]
async fn a_router_that_does_not_read_the_slot_reports_the_reason() {
    let server = set_up("").await;
    let (address, _request) = router(
        r#"{"state":"starting","reason":{"code":"P002","message":"password refused","hint":"set it"}}"#,
    );
    let listen = format!("admin.listen={address}");
    let status = server.run_command(&["status", "--set", &listen]).await;
    assert_eq!(status.exit, Exit::Failure);
    let expected = "to do     P002: nobody reads the slot outbox_router, and PostgreSQL keeps WAL \
                for it: the router is starting: password refused\n          set it\n";
    assert!(status.out.contains(expected), "{}", status.out);
    assert!(status.out.contains("to blame  the router: it is starting\n"), "{}", status.out);
    assert!(!status.out.contains("teardown"), "{}", status.out);
}

/// Notes keep nothing from flowing, so they are no failure; what else the monitor finds is one.
#[tokio::test]
async fn what_the_monitor_finds_is_shown() {
    let server = set_up("").await;
    let _reader = server.read_slot("outbox_router", "outbox_router");
    let notes = r#"{"state":"streaming","reason":null,"monitor":{"findings":[
        {"code":"P029","message":"table a is now called b","hint":"name b"},
        {"code":"P034","message":"the server is old","hint":null}],"alterations":[
        {"code":"P032","message":"publication p was altered","hint":"ask who altered it"}]}}"#;
    let (address, _request) = router(notes);
    let listen = format!("admin.listen={address}");
    let status = server.run_command(&["status", "--set", &listen]).await;
    assert_eq!(status.exit, Exit::Done, "{status:?}");
    let expected = "\nnote      P029: table a is now called b\n          name b\n\
                note      P034: the server is old\n\
                note      P032: publication p was altered\n          ask who altered it\n\n";
    assert!(status.out.contains(expected) && !status.out.contains("to do "), "{}", status.out);

    let (address, _request) = router(notes);
    let listen = format!("admin.listen={address}");
    let json = server.run_command(&["status", "--json", "--set", &listen]).await;
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((report["findings"].as_array().unwrap().len(), json.exit), (0, Exit::Done));
    assert_eq!(
        (&report["notes"][0]["code"], &report["notes"][2]["code"]),
        (&"P029".into(), &"P032".into())
    );

    let (address, _request) = router(
        r#"{"state":"streaming","reason":null,"monitor":{"alterations":[],"findings":[
        {"code":"P033","message":"the monitor reaches another server","hint":"one address"}]}}"#,
    );
    let listen = format!("admin.listen={address}");
    let status = server.run_command(&["status", "--set", &listen]).await;
    assert_eq!(status.exit, Exit::Failure, "{status:?}");
    let expected = "to do     P033: the monitor reaches another server\n          one address\n\n";
    assert!(status.out.contains(expected), "{}", status.out);
}

/// The router, its record and its monitor find the same: it is said once.
#[tokio::test]
async fn what_the_router_and_its_monitor_find_is_reported_once() {
    let server = set_up("").await;
    let _reader = server.read_slot("outbox_router", "outbox_router");
    let (address, _request) = router(
        r#"{"state":"failed","reason":{"code":"P021","message":"out","hint":"add it"},
            "monitor":{"alterations":[],"findings":[{"code":"P021","message":"out","hint":"add it"}]}}"#,
    );
    let listen = format!("admin.listen={address}");
    let status = server.run_command(&["status", "--set", &listen]).await;
    assert_eq!(status.out.matches("P021: ").count(), 1, "{}", status.out);
}
