//! A check, and what came of it.

use super::{
    facts::Facts,
    finding::{Finding, Severity},
    not_run::NotRun,
};

/// A check: which codes it can report, and how. The facts were read before; the judgement is a
/// plain function of them.
pub struct Check {
    /// What is checked, as a noun.
    pub name: &'static str,
    /// Every code that it reports, with the severities that it has there.
    pub reports: &'static [Reports],
    pub(super) judge: fn(&Facts) -> Judged,
}

/// A code that a check can report.
pub struct Reports {
    /// The code.
    pub code: &'static str,
    /// How bad it can be.
    pub severities: &'static [Severity],
}

/// Checks of one kind.
pub struct Group {
    /// As a heading.
    pub title: &'static str,
    /// The checks, in the order in which they are documented.
    pub checks: &'static [Check],
}

/// The findings, or why there are none.
pub(super) type Judged = Result<Vec<Finding>, NotRun>;

pub(super) const fn error(code: &'static str) -> Reports {
    Reports { code, severities: &[Severity::Error] }
}

pub(super) const fn warning(code: &'static str) -> Reports {
    Reports { code, severities: &[Severity::Warning] }
}

pub(super) const fn note(code: &'static str) -> Reports {
    Reports { code, severities: &[Severity::Note] }
}

pub(super) const fn either(code: &'static str, severities: &'static [Severity]) -> Reports {
    Reports { code, severities }
}
