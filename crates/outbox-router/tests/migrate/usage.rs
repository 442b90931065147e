//! What a new user types, and what comes back.

use std::fs;

use outbox_router::cli::{Cli, Exit};

use crate::command::{Outcome, run, run_on};

/// The commonest configuration: without `route.by.field`, without converters.
pub(crate) const COMMONEST: &str = r#"{
  "name": "outbox-connector",
  "config": {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.hostname": "postgres",
    "database.user": "postgres",
    "database.password": "canary",
    "database.dbname": "orders",
    "table.include.list": "public.outbox",
    "transforms": "outbox",
    "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "transforms.outbox.table.field.event.key": "aggregate_id",
    "transforms.outbox.table.field.event.payload": "payload",
    "transforms.outbox.route.topic.replacement": "outbox.events.${routedByValue}"
  }
}"#;

pub(crate) const SERVERS: [&str; 2] = ["--bootstrap-servers", "kafka:9092"];

#[test]
fn without_brokers_nothing_is_written_and_the_flag_is_named() {
    let Outcome { exit, out, err } = run(COMMONEST, &[]);
    assert_eq!((exit, out.as_str()), (Exit::Failure, ""));
    assert!(err.contains("hint: --bootstrap-servers HOST:PORT"), "{err}");
    assert!(
        err.ends_with(
            "one thing is not supported; follow the hints, or add --accept to go on without\n"
        ),
        "{err}"
    );
    let accepted = run(COMMONEST, &["--accept"]);
    assert_eq!(accepted.exit, Exit::Done);
    assert!(accepted.out.contains("\"${env:KAFKA_BOOTSTRAP_SERVERS}\""), "{}", accepted.out);
}

#[test]
fn brokers_are_judged_as_check_judges_them() {
    for servers in ["bad host", "", "kafka:0", "kafka:9092,"] {
        let line = ["outbox-router", "migrate", "debezium", "-", "--bootstrap-servers", servers];
        let error = Cli::read(line).expect_err(servers).to_string();
        assert!(error.contains("is no list of brokers; write \"host:9092"), "{error}");
    }
    Cli::read(["outbox-router", "migrate", "debezium", "-", SERVERS[0], "a:1,[::1]:2"])
        .expect("brokers");
}

#[test]
fn what_comes_next_is_typed_as_it_is_printed() {
    let Outcome { err, .. } = run(COMMONEST, &SERVERS);
    let next = "to do     outbox-router check --config FILE\n          outbox-router compare --config \
                FILE\n          outbox-router migrate debezium - --take-over --config FILE\n";
    assert!(err.ends_with(next), "{err}");
}

#[test]
fn the_commonest_configuration_migrates_and_its_trap_is_named() {
    let Outcome { exit, out, err } = run(COMMONEST, &SERVERS);
    assert_eq!(exit, Exit::Done, "{err}");
    assert!(out.contains("topic = \"outbox.events.${aggregate_type}\""), "{out}");
    assert!(
        out.contains("columns.aggregate_type = [\"aggregatetype\", \"aggregate_type\"]"),
        "{out}"
    );
    assert!(
        err.contains("  route.by.field\n      it is left out, so Debezium reads the column"),
        "{err}"
    );
    assert!(err.contains("\ncarried over\n") && err.contains("\nbehaves differently\n"), "{err}");
}

#[test]
fn a_file_is_written_once_and_never_over_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let (from, to) = (directory.path().join("c.json"), directory.path().join("o.toml"));
    fs::write(&from, COMMONEST).expect("a file");
    let (from, to) = (from.to_str().expect("UTF-8"), to.to_str().expect("UTF-8"));
    let flags = ["--bootstrap-servers", "kafka:9092", "--out", to];
    let first = run_on(from, "", &flags);
    assert_eq!((first.exit, first.out.as_str()), (Exit::Done, ""), "{}", first.err);
    assert!(first.err.contains(&format!("outbox-router check --config {to}")), "{}", first.err);
    let written = fs::read_to_string(to).expect("the configuration");
    assert!(written.starts_with("# Translated by outbox-router migrate debezium from c.json"));
    let second = run_on(from, "", &flags);
    assert_eq!(second.exit, Exit::Failure);
    assert!(second.err.contains("exists, and is not overwritten\n  hint: "), "{}", second.err);
    assert_eq!(fs::read_to_string(to).expect("the configuration"), written);
}

#[test]
fn what_cannot_be_read_has_a_code_a_line_and_a_hint() {
    let Outcome { exit, err, .. } = run("{\n  \"a\": 1,\n}", &[]);
    assert_eq!(exit, Exit::Configuration);
    assert!(err.starts_with("C012: -: line 3: not valid JSON: trailing comma\n  hint: "), "{err}");
    let missing = run_on("/nowhere/c.json", "", &[]);
    assert_eq!(missing.exit, Exit::Configuration);
    assert!(
        missing.err.starts_with("C012: cannot read /nowhere/c.json: No such"),
        "{}",
        missing.err
    );
    let large = run(&" ".repeat(2 << 20), &[]);
    assert!(large.err.contains("larger than 1 MiB"), "{}", large.err);
}

#[test]
fn programs_get_one_json_object() {
    let Outcome { exit, out, err } = run(COMMONEST, &["--json", SERVERS[0], SERVERS[1]]);
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    let object: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert!(object["toml"].as_str().expect("a text").contains("[[outbox]]"));
    assert_eq!(object["carried"][0]["property"], "name");
    assert_eq!(object["carried"][0]["line"], 2);
    let refused = run(COMMONEST, &["--json"]);
    assert_eq!(refused.exit, Exit::Failure);
    let object: serde_json::Value = serde_json::from_str(&refused.out).expect("JSON");
    assert!(object["toml"].is_null());
    assert_eq!(object["unsupported"][0]["property"], "bootstrap.servers");
}
