//! The commands, as a new user types them, from an empty database to the first record and back.

use std::process::Output;

use e2e::{Fixture, PUBLICATION, ROLE, SHORT_DEADLINE, SLOT};
use serde_json::Value;
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::reader::ConsumedRecord;
use testbed::router::RouterProcess;
use testbed::wait::eventually;

/// Standard output of a command that had to end with an exit code.
fn stdout_of(output: &Output, exit_code: i32) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit_code), "stdout {stdout}\nstderr {stderr}");
    stdout
}

async fn run_command(fixture: &Fixture, arguments: &[&str], exit_code: i32) -> String {
    stdout_of(&fixture.router.command(arguments).await.unwrap(), exit_code)
}

async fn count(session: &DatabaseSession, query: &str) -> i64 {
    session.query_one(&format!("SELECT count(*) FROM {query}"), &[]).await.unwrap().get(0)
}

/// Inserts one order as an application would, and gives the record that it becomes.
async fn first_record(fixture: &Fixture, session: &DatabaseSession) -> (String, ConsumedRecord) {
    let sql = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES \
               ('order', 'order-1', 'OrderPlaced', '{\"total\": 10}') RETURNING id::text";
    let id: String = session.query_one(sql, &[]).await.unwrap().get(0);
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let mut seen = fixture.seen().await.unwrap();
    assert_eq!(seen.len(), 1, "{seen:?}");
    (id, seen.remove(0))
}

fn expect_order(id: &str, record: &ConsumedRecord) {
    assert_eq!(record.key.as_deref(), Some(b"order-1".as_slice()));
    assert_eq!(record.value.as_deref(), Some(br#"{"total": 10}"#.as_slice()));
    assert_eq!(record.header("id"), Some(id));
    assert_eq!(record.header("type"), Some("OrderPlaced"));
}

#[tokio::test]
async fn setup_run_and_teardown_take_an_empty_database_to_a_record_and_back() {
    let mut fixture = Fixture::builder().empty_database().prepare().await.unwrap();
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let session = fixture.session().await.unwrap();

    let checked = run_command(&fixture, &["check"], 0).await;
    assert!(checked.contains("window_events"), "check does not print the defaults: {checked}");
    let apply =
        ["setup", "--apply", "--create-table", "--role", ROLE, "--admin-url", admin.as_str()];
    let made = run_command(&fixture, &apply, 0).await;
    assert_eq!(made.matches("created").count(), 5, "{made}");
    let again = run_command(&fixture, &apply, 0).await;
    assert_eq!(again.matches("exists already").count(), 5, "{again}");

    fixture.restart().await.unwrap();
    let (id, record) = first_record(&fixture, &session).await;
    expect_order(&id, &record);

    let up = run_command(&fixture, &["status"], 0).await;
    assert!(up.contains("nobody: it keeps up") && up.contains("streaming"), "{up}");
    let json: Value =
        serde_json::from_str(&run_command(&fixture, &["status", "--json"], 0).await).unwrap();
    assert_eq!((&json["blame"], &json["router"]["state"]), (&"nobody".into(), &"streaming".into()));
    let teardown = ["teardown", "--apply", "--yes", "--role", ROLE, "--admin-url", admin.as_str()];
    run_command(&fixture, &teardown, 1).await;
    assert_eq!(
        count(&session, "pg_replication_slots").await,
        1,
        "teardown dropped the slot of a running router"
    );

    fixture.router.sigterm().unwrap();
    assert_eq!(fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap().code(), Some(0));
    let log = fixture.router.log();
    assert!(!log.contains('\u{1b}'), "colours in a file: {log}");
    assert!(!log.contains("experimental"), "the log has a warning without a remedy: {log}");
    let down = run_command(&fixture, &["status"], 1).await;
    assert!(down.contains(&format!("nobody reads the slot {SLOT}")), "{down}");
    assert!(down.contains("outbox-router run") && down.contains("does not answer"), "{down}");

    let dropped = run_command(&fixture, &teardown, 0).await;
    assert_eq!(dropped.matches("dropped").count(), 3, "{dropped}");
    assert!(dropped.contains("witness: deleted"), "{dropped}");
    let gone =
        run_command(&fixture, &["status", "--set", &format!("postgres.url={admin}")], 1).await;
    assert!(gone.contains(&format!("the slot {SLOT} does not exist")), "{gone}");
    assert_eq!(count(&session, "pg_replication_slots").await, 0);
    assert_eq!(
        count(&session, &format!("pg_publication WHERE pubname = '{PUBLICATION}'")).await,
        0
    );
    assert_eq!(count(&session, "outbox").await, 1, "teardown removed rows of the table");
}

#[tokio::test]
async fn the_sql_that_setup_prints_does_the_same_as_setup_apply() {
    let mut fixture = Fixture::builder().empty_database().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let sql = run_command(&fixture, &["setup", "--create-table", "--role", ROLE], 0).await;
    assert_eq!(
        count(&session, "pg_replication_slots").await,
        0,
        "setup without --apply created a slot"
    );
    // One by one, as psql sends them.
    for statement in sql.split_inclusive(";\n") {
        session.batch_execute(statement).await.unwrap();
    }
    fixture.restart().await.unwrap();
    let (id, record) = first_record(&fixture, &session).await;
    expect_order(&id, &record);
}

#[tokio::test]
async fn setup_names_the_session_that_blocks_the_creation_of_the_slot() {
    let fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute("SELECT pg_drop_replication_slot('outbox_router')").await.unwrap();
    session.batch_execute("DROP PUBLICATION outbox_router").await.unwrap();
    let open = fixture.session().await.unwrap();
    open.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    let pid: i32 = open.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);

    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let mut apply = vec!["setup", "--apply", "--admin-url", &admin, "--wait", "3s"];
    let output = fixture.router.command(&apply).await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("pg_terminate_backend({pid})")), "{stderr}");
    // The server reports the cancelled statement a moment before it has removed the slot.
    eventually(SHORT_DEADLINE, "the end of the half-made slot", async || {
        Ok((count(&session, "pg_replication_slots").await == 0).then_some(()))
    })
    .await
    .unwrap();

    open.batch_execute("ROLLBACK").await.unwrap();
    apply.truncate(4);
    run_command(&fixture, &apply, 0).await;
    assert_eq!(count(&session, "pg_replication_slots").await, 1);
}

#[tokio::test]
async fn an_invalid_configuration_ends_the_router_at_once_and_names_the_correction() {
    let router = RouterProcess::with_config("[limits]\nwindw_events = 10\n").unwrap();
    for command in ["run", "check"] {
        let output = router.command(&[command]).await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{stderr}");
        assert!(stderr.contains("did you mean") && stderr.contains("window_events"), "{stderr}");
    }
}

/// The order that P013 names: rows from between come twice, and none is missing.
#[tokio::test]
async fn a_slot_of_another_name_is_made_while_a_router_streams_from_the_former_one() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let session = fixture.session().await.unwrap();
    let insert = async |key: &str| {
        let sql = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) VALUES \
                   ('order', $1, 'OrderPlaced', '{}')";
        session.execute(sql, &[&key]).await.unwrap();
    };
    insert("before").await;
    let other = ["setup", "--apply", "--set", "postgres.slot=renamed", "--admin-url", &admin];
    run_command(&fixture, &other, 0).await;
    insert("both").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    insert("neither").await;
    fixture.config.set("postgres.slot", "renamed");
    fixture.rewrite_config().unwrap();
    fixture.restart().await.unwrap();
    let drop_former = format!("SELECT pg_drop_replication_slot('{SLOT}')");
    session.batch_execute(&drop_former).await.unwrap();
    fixture.postgres.wait_confirmed("renamed", SHORT_DEADLINE).await.unwrap();
    let seen = fixture.seen().await.unwrap();
    let mut keys: Vec<_> = seen.iter().filter_map(|record| record.key.as_deref()).collect();
    // Partitions are read in any order.
    keys.sort_unstable();
    assert_eq!(keys, [&b"before"[..], b"both", b"both", b"neither"], "{seen:?}");
    run_command(&fixture, &["status"], 0).await;
    // A pipeline that has a witness of its own passes over the former one's.
    fixture.router.kill9().await.unwrap();
    fixture.postgres.wait_slot_free("renamed", SHORT_DEADLINE).await.unwrap();
    session.batch_execute("SELECT pg_drop_replication_slot('renamed')").await.unwrap();
    let again = run_command(&fixture, &other, 0).await;
    assert!(again.contains("  P014@"), "{again}");
}
