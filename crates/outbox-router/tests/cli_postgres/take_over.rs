//! `migrate debezium --take-over`, as far as PostgreSQL decides about it. A real connector is in
//! the end-to-end scenarios.

use outbox_router::cli::Exit;
use serde_json::Value;

use super::{
    kafka::StateCluster,
    server::{CommandOutput, Server},
};

/// A connector with the slot and the publication of these tests.
pub(super) const CONNECTOR: &str = r#"{ "name": "c", "config": {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput", "database.hostname": "127.0.0.1", "database.user": "postgres",
    "database.dbname": "postgres", "slot.name": "outbox_router", "publication.name": "outbox_router",
    "table.include.list": "public.outbox", "transforms": "outbox",
    "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter"
} }"#;

const TAKE_OVER: [&str; 4] = ["migrate", "debezium", "-", "--take-over"];

async fn take_over(server: &Server, flags: &[&str]) -> CommandOutput {
    server.run_command_answering(&[&TAKE_OVER[..], flags].concat(), CONNECTOR).await
}

/// State and text of a step of the JSON output.
pub(super) fn step(output: &CommandOutput, name: &str) -> (String, String) {
    let found = whole_step(output, name);
    let of = |key: &str| found.get(key).and_then(Value::as_str).expect("a text").to_owned();
    (of("state"), of("text"))
}

/// A step of the JSON output.
pub(super) fn whole_step(output: &CommandOutput, name: &str) -> Value {
    let whole: Value = serde_json::from_str(&output.out).expect("JSON");
    let steps = whole.get("steps").and_then(Value::as_array).expect("steps");
    let is_it = |step: &&Value| step.get("name").and_then(Value::as_str) == Some(name);
    steps.iter().find(is_it).expect("the step").clone()
}

/// A table that Debezium's documentation shows.
pub(super) const TABLE: &str = "create table outbox (id int, aggregatetype text, aggregateid text, type text, \
                     payload text); create publication outbox_router for table outbox";
pub(super) const SLOT: &str =
    "select pg_create_logical_replication_slot('outbox_router', 'pgoutput')";

#[tokio::test]
async fn a_free_slot_is_ready_and_what_waits_is_counted_without_moving_it() {
    let server = Server::start();
    server.sql(TABLE);
    server.sql(SLOT);
    server.sql("create table other (id int); insert into other values (1)");
    let output = take_over(&server, &[]).await;
    assert_eq!(output.exit, Exit::Done, "{output:?}");
    assert!(
        output.out.contains("\nready  outbox-router run --config /dev/null\n"),
        "{}",
        output.out
    );
    let row = "insert into outbox select n, 'order', 'o', 't', '{}' from generate_series(1, 2) n";
    server.sql(row);
    let waits = take_over(&server, &["--json"]).await;
    let (position, text) = step(&waits, "position");
    assert_eq!(position, "ok");
    assert!(text.ends_with("of 2 waiting events at most all come twice"), "{text}");
    // There is no Kafka here, so the topic of the two rows is not found.
    assert!(waits.out.contains("outbox.event.order"), "{}", waits.out);
    let left = "select confirmed_flush_lsn < pg_current_wal_lsn() from pg_replication_slots";
    assert_eq!(server.sql(left), "t", "the count has moved the slot, or left its copy");
}

#[tokio::test]
async fn a_row_at_which_run_would_stop_is_a_failed_step() {
    let server = Server::start();
    server.sql(TABLE);
    server.sql(SLOT);
    server.sql("insert into outbox values (1, 'order', null, 't', '{}')");
    let output = take_over(&server, &["--json"]).await;
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    let (rows, why) = step(&output, "rows");
    assert_eq!(rows, "failed");
    assert!(why.starts_with("R001"), "{why}");
}

#[tokio::test]
async fn a_row_with_a_partition_is_refused_only_where_the_topic_has_none_of_that_number() {
    const PARTITION: &str = "outbox.0.columns.partition=part";
    let (server, kafka) = (Server::start(), StateCluster::start());
    server.sql(TABLE);
    server.sql("alter table outbox add part int");
    server.sql(SLOT);
    kafka.create_topic("outbox.event.order", 4);
    let columns = ["--set", "outbox.0.table=public.outbox", "--set", "outbox.0.preset=debezium"];
    let flags = kafka.without_state(&[&columns[..], &["--set", PARTITION]].concat());
    let flags = flags.iter().map(String::as_str);
    let line: Vec<&str> = flags.chain(TAKE_OVER).chain(["--json"]).collect();
    server.sql("insert into outbox values (1, 'order', 'o', 't', '{}', 3)");
    let output = server.run_command_answering(&line, CONNECTOR).await;
    assert_eq!(output.exit, Exit::Done, "{output:?}");
    server.sql("insert into outbox values (2, 'order', 'o', 't', '{}', 4)");
    let output = server.run_command_answering(&line, CONNECTOR).await;
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    let (rows, why) = step(&output, "rows");
    assert_eq!(rows, "failed");
    assert!(why.contains("has 4 partitions"), "{why}");
}

#[tokio::test]
async fn a_slot_that_is_read_names_who_reads_it() {
    let server = Server::start();
    server.sql("create table outbox (id int); create publication outbox_router for table outbox");
    server.sql("select pg_create_logical_replication_slot('outbox_router', 'pgoutput')");
    let _reader = server.read_slot("outbox_router", "outbox_router");
    let output = take_over(&server, &["--json"]).await;
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    let (slot, who) = step(&output, "slot");
    assert_eq!(slot, "to do");
    assert!(who.ends_with("pg_recvlogical"), "{who}");
    assert_eq!(step(&output, "position").0, "not checked");
    assert_eq!(step(&output, "publication").0, "ok");
}

#[tokio::test]
async fn what_run_would_refuse_is_a_failed_step_and_the_other_steps_are_checked() {
    let server = Server::start();
    server.sql("create table outbox (id int)");
    server.sql("create publication outbox_router for table outbox with (publish = 'update')");
    let output = take_over(&server, &["--json"]).await;
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    assert_eq!(step(&output, "slot").0, "failed");
    let (publication, why) = step(&output, "publication");
    assert_eq!(publication, "failed");
    assert!(why.starts_with("P022"), "{why}");
    server.sql("select pg_create_logical_replication_slot('outbox_router', 'test_decoding')");
    let (_, why) = step(&take_over(&server, &["--json"]).await, "slot");
    assert!(why.contains("test_decoding"), "{why}");
}

#[tokio::test]
async fn a_worker_that_does_not_answer_is_not_taken_for_a_stopped_connector() {
    let server = Server::start();
    server.sql("create table outbox (id int); create publication outbox_router for table outbox");
    server.sql("select pg_create_logical_replication_slot('outbox_router', 'pgoutput')");
    for (url, why) in [
        ("http://127.0.0.1:1", "does not answer"),
        ("https://connect:8083", "curl https://connect"),
    ] {
        let output = take_over(&server, &["--json", "--connect-url", url]).await;
        assert_eq!(output.exit, Exit::Failure, "{output:?}");
        let (connector, text) = step(&output, "connector");
        assert_eq!(connector, "not checked");
        assert!(text.contains(why), "{text}");
    }
}
