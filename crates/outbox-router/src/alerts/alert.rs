//! One entry of the tables.

use std::fmt;

/// An alert: when it fires, and what it says.
#[derive(Debug)]
pub struct Alert {
    /// The name, which is also the name of its page in `docs/runbook`. It never changes.
    pub name: &'static str,
    /// When it fires.
    pub expression: Expression,
    /// How many seconds the expression has to hold before it fires.
    pub hold: u32,
    /// Whether somebody is woken.
    pub severity: Severity,
    /// What happens, in one line. A template of Prometheus.
    pub summary: &'static str,
    /// What it means and where to look first. A template of Prometheus that uses no more than the
    /// labels.
    pub description: &'static str,
}

/// When an alert fires, in PromQL.
#[derive(Debug)]
pub enum Expression {
    /// The same for all pipelines and for one.
    Same(&'static str),
    /// What is absent can be named only by who knows that it should be there.
    ByScope {
        /// For every pipeline that is scraped.
        every: &'static str,
        /// For one pipeline.
        one: &'static str,
    },
}

/// Whether somebody is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Somebody should look in the course of the day.
    Warning,
    /// Events do not flow, or will soon be lost: now.
    Critical,
}

impl Severity {
    /// As the label says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

pub(super) const MINUTE: u32 = 60;
