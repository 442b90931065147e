//! The shipped alert rules and our own `/metrics`, as Prometheus itself reads them.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

#[allow(dead_code, reason = "what changes the answers is for the endpoint's own tests")]
mod admin_fixture;

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Runs promtool, which must be there: rules that nobody checked are worse than none.
fn promtool(arguments: &[&str], input: &str) -> Output {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/alerts");
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("promtool does not start ({error}); apt-get install prometheus")
        });
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn accepted(output: &Output) {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{text}");
}

#[test]
fn prometheus_accepts_the_rules() {
    accepted(&promtool(&["check", "rules", "outbox-router.rules.yml"], ""));
}

#[test]
fn the_rules_fire_when_they_should_and_only_then() {
    accepted(&promtool(&["test", "rules", "outbox-router.rules.test.yml"], ""));
}

#[tokio::test]
async fn prometheus_accepts_the_exposed_metrics() {
    let endpoint = admin_fixture::start().await;
    let text = endpoint.get("/metrics").await;
    let output = promtool(&["check", "metrics"], &text);
    accepted(&output);
    // Lint findings are warnings to promtool, not to us.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[tokio::test]
async fn every_metric_that_a_rule_names_is_exposed() {
    let rules = include_str!("../../../config/alerts/outbox-router.rules.yml");
    let expressions = rules.split("annotations:").map(|part| {
        let start = part.find("expr:").unwrap_or(part.len());
        part.get(start..).unwrap()
    });
    let names: Vec<String> = expressions
        .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with("outbox_"))
        .map(str::to_owned)
        .collect();
    assert!(names.len() >= 7, "{names:?}");
    let text = admin_fixture::start().await.get("/metrics").await;
    for name in names {
        assert!(text.contains(&format!("\n{name}{{")), "a rule asks for {name}\n{text}");
    }
}
