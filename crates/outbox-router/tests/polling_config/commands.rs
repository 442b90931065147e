//! What `check` says about a configuration with `source = "polling"`, and what the commands say
//! that are about a slot. The servers that it names do not exist: a command that connects would
//! fail otherwise, with another code.

use std::{io::Write as _, process::Output};

const POLLING: &str = r#"
[postgres]
source = "polling"
url = "postgres://router@127.0.0.1:1/shop"
[[outbox]]
table = "public.outbox"
[kafka]
bootstrap_servers = "127.0.0.1:1"
"#;

/// Debezium's connector, as it is taken over.
const CONNECTOR: &str = "\
connector.class=io.debezium.connector.postgresql.PostgresConnector
plugin.name=pgoutput
topic.prefix=p
table.include.list=public.outbox
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
";

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

/// Runs the program with the configuration; `CONNECTOR` in the line is the file of that name.
fn run(config: &str, line: &str) -> Output {
    let (config, connector) = (file(config), file(CONNECTOR));
    let word = |word: &str| match word {
        "CONNECTOR" => connector.path().to_owned(),
        word => word.into(),
    };
    std::process::Command::new(env!("CARGO_BIN_EXE_outbox-router"))
        .env_clear()
        .arg("--config")
        .arg(config.path())
        .args(line.split_whitespace().map(word))
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn commands_about_the_slot_say_what_to_type_instead() {
    for (line, told) in [
        ("accept", "error: accept has no meaning with postgres.source = \"polling\": gaps are of"),
        ("recover", "hint: outbox-router replay sends rows again"),
        ("skip --lsn 0/1 --id 1 --reason r", "error: skip has no meaning"),
        ("compare", "hint: outbox-router explain --id ID shows"),
        ("run --dry-run", "error: run --dry-run has no meaning"),
        ("setup --apply --backfill", "hint: outbox-router run delivers the rows that are pending"),
        ("migrate debezium CONNECTOR --take-over", "they hand over a slot"),
        ("migrate debezium CONNECTOR --give-back", "they hand over a slot"),
    ] {
        let output = run(POLLING, line);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {err}");
        assert!(err.contains(told), "{line}: {err}");
        assert!(err.contains("\n  hint: ") && output.stdout.is_empty(), "{line}: {err}");
    }
}

#[test]
fn the_same_commands_do_their_work_with_the_stream() {
    let stream = POLLING.replace("\"polling\"", "\"stream\"");
    for line in ["accept --yes", "compare", "run --dry-run"] {
        let output = run(&stream, line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("has no meaning"), "{line}");
    }
}

#[test]
fn a_connector_is_translated_whatever_the_source() {
    let output = run(POLLING, "migrate debezium CONNECTOR --bootstrap-servers k:9092");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn check_accepts_polling_and_shows_it() {
    let output = run(POLLING, "check --set polling.batch=50 --set outbox.0.mark.how=delete");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for line in ["source = \"polling\"", "batch = 50", "mark.how = \"delete\"", "[retry]"] {
        assert!(shown.contains(line), "{line} is not in:\n{shown}");
    }
}

#[test]
fn check_refuses_what_has_no_meaning_and_says_where_it_is_set() {
    let output = run(POLLING, "check --set monitor.bytes_behind.warning=1GiB");
    assert_eq!(output.status.code(), Some(78));
    let err = text(&output.stderr);
    assert!(err.starts_with("C008: monitor.bytes_behind.warning has no effect"), "{err}");
    assert!(err.contains("set by --set monitor.bytes_behind.warning=…"), "{err}");
}

/// A worker gives records up in time by itself.
#[test]
fn the_time_after_which_a_record_is_given_up_is_not_the_users() {
    let timeout = "check --set kafka.properties.message.timeout.ms=4000";
    let linger = "check --set kafka.properties.linger.ms=4000";
    for (line, code) in [(timeout, "C010"), (linger, "C011")] {
        let output = run(POLLING, line);
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(78), "{err}");
        assert!(err.starts_with(&format!("{code}: kafka.properties.")), "{err}");
    }
    for settings in ["3999", "7999 --set polling.lease=20s"] {
        let output = run(POLLING, &format!("check --set kafka.properties.linger.ms={settings}"));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let stream = POLLING.replace("\"polling\"", "\"stream\"");
    assert_eq!(run(&stream, linger).status.code(), Some(0));
}
