//! Runs the checks over what was read.

use super::{
    args::DoctorArgs,
    check::Check,
    facts::Facts,
    finding::{Finding, Severity},
    groups::{self, GROUPS, WITNESS},
    not_run::NotRun,
};

/// What came of all checks that somebody wants to know of.
pub(super) struct Report {
    pub(super) results: Vec<CheckResult>,
}

/// What came of one check.
pub(super) struct CheckResult {
    pub(super) group: &'static str,
    pub(super) check: &'static Check,
    pub(super) outcome: Result<Vec<Finding>, NotRun>,
}

impl Report {
    pub(super) fn of(facts: &Facts, args: &DoctorArgs) -> Self {
        let checks =
            GROUPS.iter().flat_map(|group| group.checks.iter().map(move |one| (group, one)));
        let checks = checks.filter(|(group, _)| groups::is_shown(facts, group));
        let wanted = checks
            .filter(|(_, check)| check.reports.iter().any(|reports| args.wants(reports.code)));
        let run = |(group, check): (&super::check::Group, &'static Check)| {
            let judged = match groups::without_meaning(facts, group, check) {
                Some(why) => Err(why),
                None => (check.judge)(facts),
            };
            let outcome = judged.map(|mut findings| {
                findings.retain(|finding| args.wants(finding.code));
                findings
            });
            CheckResult { group: group.title, check, outcome }
        };
        let mut results: Vec<CheckResult> = wanted.map(run).collect();
        keep_open_gaps(&mut results);
        Self { results }
    }

    /// All findings, the worst first.
    pub(super) fn findings(&self) -> Vec<&Finding> {
        let found = self.results.iter().filter_map(|result| result.outcome.as_ref().ok());
        let mut findings: Vec<&Finding> = found.flatten().collect();
        findings.sort_by_key(|finding| finding.severity);
        findings
    }

    pub(super) fn count(&self, severity: Severity) -> usize {
        self.findings().iter().filter(|finding| finding.severity == severity).count()
    }

    /// Whether at least one check was run: else nothing is known of what was asked.
    pub(super) fn has_run(&self) -> bool {
        self.results.iter().any(|result| result.outcome.is_ok())
    }

    pub(super) fn passed(&self) -> usize {
        let is_passed =
            |result: &&CheckResult| matches!(&result.outcome, Ok(found) if found.is_empty());
        self.results.iter().filter(is_passed).count()
    }

    /// Why checks were not run, each with its number of checks.
    pub(super) fn not_run(&self) -> Vec<(&str, usize)> {
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for why in self.results.iter().filter_map(|result| result.outcome.as_ref().err()) {
            match reasons.iter_mut().find(|(known, _)| *known == why.0) {
                Some((_, count)) => *count += 1,
                None => reasons.push((&why.0, 1)),
            }
        }
        reasons
    }
}

/// An open gap of the witness says from where on rows are missing, and what closes it; so it stands
/// for what another check finds of the same code.
fn keep_open_gaps(results: &mut [CheckResult]) {
    let is_witness = |result: &CheckResult| result.group == WITNESS;
    let open: Vec<&'static str> = results
        .iter()
        .filter(|result| is_witness(result))
        .filter_map(|result| result.outcome.as_ref().ok())
        .flatten()
        .map(|finding| finding.code)
        .collect();
    for result in results.iter_mut().filter(|result| !is_witness(result)) {
        if let Ok(findings) = &mut result.outcome {
            findings.retain(|finding| !open.contains(&finding.code));
        }
    }
}
