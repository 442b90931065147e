//! What a person reads when the configuration is wrong, word for word.

use std::io::Write as _;

use outbox_router::config::{self, Environment};

/// The message about a file's text with environment and flags; the file is called `file` in it.
fn error_text(text: &str, environment: &[(&str, &str)], flags: &[&str]) -> String {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let pairs = environment.iter().map(|(name, value)| (name.into(), value.into()));
    let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
    let loaded = config::load(Some(file.path()), &Environment::new(pairs), &flags);
    let errors = loaded.expect_err("it is wrong");
    errors.to_string().replace(&file.path().display().to_string(), "file")
}

#[track_caller]
fn refused(text: &str, message: &str) {
    assert_eq!(error_text(text, &[], &[]), message.trim_matches('\n'));
}

#[track_caller]
fn refused_because(text: &str, first_line: &str) {
    assert_eq!(error_text(text, &[], &[]).lines().next(), Some(first_line));
}

#[test]
fn an_unknown_key_is_refused_with_the_likely_one() {
    refused(
        "[limits]\nwindow_event = 5\n",
        r"
C003: there is no key window_event in limits
 --> file:2:1
2 | window_event = …
  | ^^^^^^^^^^^^
  hint: did you mean window_events?",
    );
    refused(
        "slot = \"x\"\n",
        r#"
C003: there is no key slot at the top level
 --> file:1:1
1 | slot = "x"
  | ^^^^
  hint: did you mean postgres.slot?"#,
    );
    refused(
        "[[outbox]]\n[outbox.columns]\nkey = \"x\"\n",
        r"
C003: there is no key key in outbox[0].columns
 --> file:3:1
3 | key = …
  | ^^^",
    );
}

#[test]
fn a_wrong_type_is_refused_with_its_place() {
    refused(
        "[postgres]\nslot = 5",
        r#"
C004: postgres.slot must be a text, not an integer
 --> file:2:8
2 | slot = 5
  |        ^
  hint: write it in quotes: "5""#,
    );
    refused(
        "outbox = \"public.outbox\"",
        r"
C004: outbox must be a list of tables, not a text
 --> file:1:10
1 | outbox = …
  |          ^
  hint: write [[outbox]], in double brackets, above each of them",
    );
    refused(
        "[limits]\nwindow_events = \"5\"",
        r#"
C004: limits.window_events must be a whole number, not a text
 --> file:2:17
2 | window_events = "5"
  |                 ^^^"#,
    );
}

#[test]
fn a_number_without_unit_is_refused_with_the_right_spelling() {
    refused(
        "[limits]\nwindow_bytes = 33_554_432\n[monitor]\ninterval = \"5 sec\"",
        r#"
C005: limits.window_bytes 33554432 has no unit
 --> file:2:16
2 | window_bytes = 33_554_432
  |                ^^^^^^^^^^
  hint: write it like "1000B", "512KiB", "64MiB" or "2GiB"

C005: monitor.interval "5 sec" has a unit that is not known
 --> file:4:12
4 | interval = "5 sec"
  |            ^^^^^^^
  hint: write it like "500ms", "5s", "2m", "1h" or "7d""#,
    );
}

#[test]
fn a_value_that_the_key_does_not_take_is_quoted() {
    let cases = [
        (
            "[limits]\nwindow_events = 0",
            "limits.window_events 0 is not a whole number from 1 to 10000000",
        ),
        (
            "[limits]\nrow_bytes = \"1KiB\"",
            "limits.row_bytes \"1KiB\" is not between 64KiB and 900MiB",
        ),
        ("[monitor]\ninterval = \"1m\"", "monitor.interval \"1m\" is not between 100ms and 10s"),
        ("name = \"a b\"", "name \"a b\" is no name"),
        ("[postgres]\nslot = \"A-B\"", "postgres.slot \"A-B\" is no slot name"),
        ("[postgres]\npublication = \"\"", "postgres.publication \"\" is empty"),
        (
            "[[outbox]]\ntable = \"Outbox\"",
            "outbox[0].table \"Outbox\" has capital letters without quotes",
        ),
        ("[[outbox]]\nformat = \"avro\"", "outbox[0].format \"avro\" is not a choice"),
        ("[[outbox]]\nheaders.id = \"a\\n\"", "outbox[0].headers.id \"a\\n\" is no header name"),
        (
            "[[outbox]]\ntopic = \"a/b\"",
            "outbox[0].topic \"a/b\" is no topic: the topic would not be legal: \
             character 2 is a punctuation mark, Kafka allows a-z, A-Z, 0-9, '.', '_' and '-'",
        ),
        (
            "[kafka]\nbootstrap_servers = \"a:b\"",
            "kafka.bootstrap_servers \"a:b\" is no list of brokers",
        ),
        ("[admin]\nlisten = \"localhost\"", "admin.listen \"localhost\" is no address with a port"),
        ("[log]\nlevel = \"a=b=c\"", "log.level \"a=b=c\" is no log filter"),
        ("[log]\nformat = \"xml\"", "log.format \"xml\" is not a choice"),
    ];
    for (text, message) in cases {
        refused_because(text, &format!("C006: {message}"));
    }
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let cases = [
        (
            "[limits]\nwindow_bytes = \"1MiB\"",
            "limits.window_bytes (1MiB) is smaller than limits.row_bytes (16MiB)",
        ),
        (
            "monitor.bytes_behind = { warning = \"2GiB\" }",
            "monitor.bytes_behind.warning (2GiB) is not below monitor.bytes_behind.critical (2GiB)",
        ),
        (
            "[[outbox]]\n[[outbox]]\ntable = \"outbox\"",
            "outbox[0] and outbox[1] are both the table public.outbox",
        ),
        (
            "[[outbox]]\nheaders = { id = \"x\", event_type = \"x\" }",
            "outbox[0].headers gives two headers the name \"x\"",
        ),
    ];
    for (text, message) in cases {
        refused_because(text, &format!("C008: {message}"));
    }
}

#[test]
fn a_syntax_error_points_at_its_place() {
    refused(
        "[monitor]\ninterval = 5s\n",
        r"
C002: this is not TOML: string values must be quoted, expected literal string
 --> file:2:12
2 | interval = 5s
  |            ^^",
    );
    refused_because(
        "kafka.properties = { \"a.b\" = 1, a.b = 2 }",
        "C002: kafka.properties sets a.b twice",
    );
}

#[test]
fn an_override_that_fits_nowhere_names_its_variable_or_flag() {
    let environment =
        [("OUTBOX_ROUTER__KAFKA__BOOTSTRAP_SERVER", "x"), ("OUTBOX_ROUTER__OUTBOX__1__TABLE", "x")];
    assert_eq!(
        error_text("", &environment, &["canary", "limits.window_events=many"]),
        r#"C009: there is no item 1: the list has 0
  set by the environment variable OUTBOX_ROUTER__OUTBOX__1__TABLE
  hint: items count from 0; the next one would be 0

C009: --set takes key=value
  hint: for example --set limits.window_events=1000

C003: there is no key bootstrap_server in kafka
  set by the environment variable OUTBOX_ROUTER__KAFKA__BOOTSTRAP_SERVER
  hint: did you mean bootstrap_servers?

C006: limits.window_events "many" is not a whole number from 1 to 10000000
  set by --set limits.window_events=…"#
    );
}

#[test]
fn a_reference_that_leads_nowhere_names_the_key() {
    refused(
        "[postgres]\nurl = \"postgres://${env:NOBODY}@h/db\"",
        r"
C007: postgres.url: the environment variable NOBODY is not set
 --> file:2:7
2 | url = …
  |       ^
  hint: set it where the router is started",
    );
}

#[test]
fn what_a_reference_brings_is_not_quoted() {
    let text = "[postgres]\nslot = \"${env:SECRET}\"";
    let text = error_text(text, &[("SECRET", "CANARY")], &[]);
    assert_eq!(text.lines().next().unwrap(), "C006: postgres.slot *** is no slot name");
    assert!(!text.contains("CANARY"));
}

#[test]
fn a_missing_file_is_reported_with_how_to_name_one() {
    let missing = std::path::Path::new("/nowhere/at/all.toml");
    let errors = config::load(Some(missing), &Environment::default(), &[]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "C001: cannot read /nowhere/at/all.toml: No such file or directory (os error 2)\n  hint: \
         --config FILE or OUTBOX_ROUTER_CONFIG names the file; none is needed at all"
    );
}
