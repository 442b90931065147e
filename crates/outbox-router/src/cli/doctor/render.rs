//! The report, as text for people and as JSON for programs.

use std::io;

use serde_json::{Value, json};

use super::{
    check::Check,
    finding::{Finding, Severity},
    report::{CheckResult, Report},
};

/// The worst first; then what is well, and what is not known.
pub(super) fn text(report: &Report, out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    let findings = report.findings();
    for finding in &findings {
        let Finding { severity, code, message, remedy } = finding;
        writeln!(out, "{severity:<8} {code}: {message}")?;
        writeln!(out, "         why  {}", finding.why())?;
        if let Some(remedy) = remedy {
            writeln!(out, "         do   {remedy}")?;
        }
    }
    if !findings.is_empty() {
        writeln!(out)?;
    }
    let mut counts = vec![counted(report.passed(), "check", " passed")];
    for (severity, word) in WORDS {
        let count = report.count(severity);
        if count > 0 {
            counts.push(counted(count, word, ""));
        }
    }
    writeln!(out, "{}", counts.join(", "))?;
    for (why, count) in report.not_run() {
        writeln!(out, "{}: {why}", counted(count, "check", " not run"))?;
    }
    Ok(())
}

const WORDS: [(Severity, &str); 3] =
    [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];

fn counted(count: usize, word: &str, then: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {word}{plural}{then}")
}

/// The form of the JSON object. Members are added, and never renamed or removed; this number
/// changes if that has to be.
const VERSION: u32 = 1;

/// One object.
pub(super) fn json(report: &Report, name: &str) -> Value {
    let findings: Vec<Value> = report.findings().into_iter().map(finding).collect();
    let checks: Vec<Value> = report.results.iter().map(check).collect();
    let not_run: usize = report.not_run().iter().map(|(_, count)| count).sum();
    json!({
        "version": VERSION,
        "name": name,
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "notes": report.count(Severity::Note),
        "passed": report.passed(),
        "not_run": not_run,
        "findings": findings,
        "checks": checks,
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.as_str(),
        "code": finding.code,
        "message": finding.message,
        "why": finding.why(),
        "remedy": finding.remedy,
    })
}

fn check(result: &CheckResult) -> Value {
    let Check { name, reports, .. } = result.check;
    let (outcome, why) = match &result.outcome {
        Ok(found) if found.is_empty() => ("passed", None),
        Ok(_) => ("found", None),
        Err(why) => ("not_run", Some(&why.0)),
    };
    let codes: Vec<&str> = reports.iter().map(|reports| reports.code).collect();
    json!({ "group": result.group, "name": name, "codes": codes, "outcome": outcome, "why": why })
}
