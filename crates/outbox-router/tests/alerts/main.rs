//! The alert rules and our own `/metrics`, as Prometheus itself reads them.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]

#[path = "../admin_fixture/mod.rs"]
#[allow(dead_code, reason = "what changes the answers is for the endpoint's own tests")]
mod admin_fixture;
mod case;
mod cases;
mod command;
mod dashboard;
mod files;
#[path = "../polling_fixture/mod.rs"]
#[allow(dead_code, reason = "what changes the answers is for the endpoint's own tests")]
mod polling_fixture;

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use case::{Case, promtool_file};
use outbox_router::alerts::{DEFAULT_RUNBOOK, Form, Pace, Rules, Scope, alerts};

/// Runs promtool, which must be there: rules that nobody checked are worse than none.
fn promtool(arguments: &[&str], directory: &Path, input: &str) -> Output {
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

fn shop() -> Scope {
    Scope::One { pipeline: "shop".to_owned(), slot: "s".to_owned() }
}

fn rules(scope: &Scope) -> Rules<'_> {
    Rules { scope, pace: Pace::AS_SHIPPED, runbook: DEFAULT_RUNBOOK }
}

/// Runs cases against the rules of a scope.
fn assert_hold(scope: &Scope, cases: &[&Case]) {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(scope);
    std::fs::write(folder.path().join("rules.yml"), rules.print(Form::Prometheus)).unwrap();
    let (long, short): (Vec<&Case>, Vec<&Case>) = cases.iter().partition(|case| case.is_long());
    for (evaluation, cases) in [("15s", short), ("5m", long)] {
        let file = promtool_file("rules.yml", evaluation, &rules, &cases);
        std::fs::write(folder.path().join("test.yml"), file).unwrap();
        accepted(&promtool(&["test", "rules", "test.yml"], folder.path(), ""));
    }
}

#[test]
fn the_rules_fire_when_they_should_and_only_then() {
    assert_hold(&Scope::Every, &cases::cases().collect::<Vec<_>>());
}

#[test]
fn a_calm_hour_fires_none() {
    assert_hold(&Scope::Every, &[&cases::CALM_HOUR]);
    assert_hold(&shop(), &[&cases::CALM_HOUR]);
    assert_hold(&Scope::Every, &[&cases::CALM_HOUR_OF_POLLING]);
    assert_hold(&shop(), &[&cases::CALM_HOUR_OF_POLLING]);
}

#[test]
fn the_rules_of_one_pipeline_miss_it_and_leave_the_others_alone() {
    assert_hold(&shop(), &cases::OF_ONE.iter().collect::<Vec<_>>());
}

#[test]
fn every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
    for alert in alerts() {
        let of_alert = || {
            cases::cases().flat_map(|case| case.checks).filter(|check| check.alert == alert.name)
        };
        assert!(of_alert().any(|check| !check.fired.is_empty()), "{} never fires", alert.name);
        assert!(of_alert().any(|check| check.fired.is_empty()), "{} always fires", alert.name);
    }
}

#[test]
fn no_name_is_used_twice() {
    let names: BTreeSet<&str> = alerts().map(|alert| alert.name).collect();
    assert_eq!(names.len(), alerts().count());
    let is_of_ours = |name: &&str| name.starts_with("Outbox");
    assert!(names.iter().all(is_of_ours), "{names:?}");
}

/// What a router exports that follows a slot, and one that polls.
async fn exposed() -> [String; 2] {
    let streams = admin_fixture::start().await.get("/metrics").await;
    [streams, polling_fixture::start().await.get("/metrics").await]
}

#[tokio::test]
async fn prometheus_accepts_the_exposed_metrics() {
    for text in exposed().await {
        let output = promtool(&["check", "metrics"], Path::new("."), &text);
        accepted(&output);
        // Lint findings are warnings to promtool, not to us.
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[tokio::test]
async fn every_metric_that_a_rule_names_is_exposed() {
    let names: BTreeSet<String> = alerts()
        .map(|alert| Scope::Every.expression(alert, Pace::AS_SHIPPED))
        .flat_map(|text| {
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .filter(|word| word.starts_with("outbox_"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(names.len() >= 7, "{names:?}");
    let [streams, polls] = exposed().await;
    for name in names {
        let text = if name.starts_with("outbox_polling_") { &polls } else { &streams };
        assert!(text.contains(&format!("\n{name}{{")), "a rule asks for {name}\n{text}");
    }
}
