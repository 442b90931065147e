//! A run of `doctor`, and what it has found.

use std::collections::BTreeSet;

use outbox_router::cli::{Audience, Exit};
use serde_json::Value;

use crate::server::{CommandOutput, run_line};

/// What a run of `doctor` has found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) exit: Exit,
    pub(super) report: Value,
    pub(super) err: String,
}

impl Found {
    /// A member of the report.
    pub(super) fn part(&self, key: &str) -> &Value {
        self.report.get(key).unwrap_or(&Value::Null)
    }

    /// The codes of a severity.
    pub(super) fn codes(&self, severity: &str) -> Vec<String> {
        let findings = self.part("findings").as_array().map(Vec::as_slice).unwrap_or_default();
        let of = findings
            .iter()
            .filter(|finding| finding.get("severity").is_some_and(|one| one == severity));
        of.filter_map(|finding| Some(finding.get("code")?.as_str()?.to_owned())).collect()
    }

    /// The codes of errors and warnings.
    pub(super) fn serious(&self) -> BTreeSet<String> {
        self.codes("error").into_iter().chain(self.codes("warning")).collect()
    }

    /// The codes of checks that were run, without those that were found.
    pub(super) fn quiet(&self) -> BTreeSet<String> {
        let text = |value: &Value| Some(value.as_str()?.to_owned());
        let was_run =
            |check: &&Value| check.get("outcome").is_some_and(|outcome| outcome != "not_run");
        let checks = self.part("checks").as_array().map(Vec::as_slice).unwrap_or_default();
        let looked_for = checks.iter().filter(was_run).filter_map(|one| one.get("codes"));
        let codes = looked_for.filter_map(Value::as_array).flatten().filter_map(text);
        let found = ["error", "warning", "note"].map(|severity| self.codes(severity)).concat();
        codes.filter(|code| !found.contains(code)).collect()
    }

    pub(super) fn errors(&self) -> usize {
        self.codes("error").len()
    }

    /// The finding of a code.
    #[track_caller]
    pub(super) fn finding(&self, code: &str) -> &Value {
        let findings = self.part("findings").as_array().expect("findings");
        let found =
            findings.iter().find(|finding| finding.get("code").is_some_and(|one| one == code));
        found.unwrap_or_else(|| panic!("{code} is not in {:#}", self.report))
    }

    /// How bad it is.
    #[track_caller]
    pub(super) fn severity(&self, code: &str) -> &Value {
        self.finding(code).get("severity").expect("a severity")
    }

    /// What to type about it.
    #[track_caller]
    pub(super) fn remedy(&self, code: &str) -> &str {
        self.finding(code).get("remedy").and_then(Value::as_str).expect("a remedy")
    }
}

/// Types `doctor --json` and more, with this configuration file.
pub(super) async fn doctor(file: Option<&std::path::Path>, line: &[String]) -> Found {
    let CommandOutput { exit, out, err } = type_line(file, line).await;
    let report = serde_json::from_str(&out).unwrap_or(Value::Null);
    Found { exit, report, err }
}

/// Types a line with this configuration file, or none, before it.
pub(super) async fn type_line(file: Option<&std::path::Path>, line: &[String]) -> CommandOutput {
    let file = file.map_or_else(|| "/dev/null".to_owned(), |file| file.display().to_string());
    let head = ["--config".to_owned(), file];
    run_line(Audience::Machine, &[&head, line].concat(), "").await
}
