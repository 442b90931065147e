//! `--take-over` and `--give-back` where nothing can be reached: what they say about files and
//! flags.

use std::fs;

use outbox_router::cli::{Cli, Exit};

use crate::{
    command::{Outcome, run, run_in, run_on},
    usage::{COMMONEST, SERVERS},
};

#[test]
fn what_is_not_supported_is_named_and_the_command_to_type() {
    let Outcome { exit, out, .. } = run(COMMONEST, &["--take-over"]);
    assert_eq!(exit, Exit::Failure);
    let expected = "1  configuration  failed       it cannot be used\n";
    assert!(out.contains(expected), "{out}");
    assert!(out.contains("KAFKA_BOOTSTRAP_SERVERS"), "{out}");
    assert!(out.contains("2  the rest       not checked  it needs the configuration\n"), "{out}");
    assert!(out.contains("$ outbox-router migrate debezium - --out outbox-router.toml\n"), "{out}");
}

#[test]
fn the_configuration_of_another_router_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("other.toml");
    fs::write(
        &config,
        "[postgres]\nurl = \"postgres://u@127.0.0.1:1/d\"\nslot = \"other\"\n\
                        [kafka]\nstate_topic = \"\"\n",
    )
    .expect("written");
    let config = config.display().to_string();
    let flags = [&SERVERS[..], &["--take-over", "--config", &config]].concat();
    let Outcome { exit, out, .. } = run(COMMONEST, &flags);
    assert_eq!(exit, Exit::Failure);
    let expected = "postgres.slot is other, and the connector has debezium\n";
    assert!(out.contains(expected), "{out}");
    assert!(out.contains("PostgreSQL     failed       P001"), "{out}");
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("outbox-router.toml");
    fs::write(&file, "mine").expect("written");
    let out = file.display().to_string();
    let flags = [&SERVERS[..], &["--take-over", "--out", &out]].concat();
    let Outcome { exit, err, .. } = run_on("-", COMMONEST, &flags);
    assert_eq!(exit, Exit::Failure);
    assert!(err.contains("exists, and is not overwritten"), "{err}");
    assert_eq!(fs::read_to_string(&file).expect("it"), "mine");
}

#[test]
fn one_direction_at_a_time() {
    let line = ["outbox-router", "migrate", "debezium", "-", "--take-over", "--give-back"];
    Cli::read(line).expect_err("both directions");
}

#[test]
fn what_differs_from_the_connector_is_listed_and_no_failure() {
    let translated = run(COMMONEST, &SERVERS).out;
    let changed = translated
        .replace("topic = \"outbox.events.${aggregate_type}\"", "topic = \"old\"")
        .replace("\n[kafka]", "key_format = \"json\"\n\n[kafka]\nstate_topic = \"\"")
        .replace("${env:POSTGRES_PASSWORD}", "p")
        .replace("@postgres/", "@127.0.0.1:1/");
    let directory = tempfile::tempdir().expect("a directory");
    let config = directory.path().join("changed.toml");
    fs::write(&config, changed).expect("written");
    let config = config.display().to_string();
    let environment = [("POSTGRES_PASSWORD", "canary")];
    let flags = [&SERVERS[..], &["--take-over", "--config", &config]].concat();
    let Outcome { out, .. } = run_in(&environment, COMMONEST, &flags);
    assert!(out.contains("configuration  ok"), "{out}");
    for line in [
        "topic is \"old\"; the connector translates to \"outbox.events.${aggregate_type}\"",
        "key_format is \"json\"; the connector translates to",
    ] {
        assert!(out.contains(line), "{line} is not in:\n{out}");
    }
    assert_eq!(out.matches("the connector translates to").count(), 2, "{out}");
}

#[test]
fn kafka_connect_is_asked_for_a_hand_over_alone() {
    const URL: [&str; 2] = ["--connect-url", "http://connect:8083"];
    let line = ["outbox-router", "migrate", "debezium", "-"];
    let error = Cli::read(line.into_iter().chain(URL)).expect_err("no direction").to_string();
    assert!(error.contains("--connect-url belongs to --take-over or --give-back"), "{error}");
    for direction in ["--take-over", "--give-back"] {
        Cli::read(line.into_iter().chain(URL).chain([direction])).expect(direction);
    }
}
