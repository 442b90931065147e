//! What was compared, in numbers, and what differs.

use std::collections::BTreeMap;
use std::fmt;

/// See the module's header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases of which `compare` answered as the recording says.
    pub(super) compared: usize,
    /// The events in them.
    pub(super) events: u64,
    /// What `compare` found in them that differs, or is refused.
    pub(super) findings: u64,
    /// Cases that `compare` cannot answer, by the reason.
    pub(super) not_compared: BTreeMap<&'static str, usize>,
    /// Cases that `run` went through as the recording says.
    pub(super) ran: usize,
    /// Records that it wrote.
    pub(super) records: usize,
    /// Cases in which it stopped.
    pub(super) stopped: usize,
    /// Rows after the one at which it stopped.
    pub(super) rows_after: usize,
    complaints: Vec<String>,
}

impl Tally {
    /// What differs from the recording.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    pub(super) fn complain(&mut self, what: String) {
        self.complaints.push(what);
    }

    pub(super) fn add(&mut self, other: Self) {
        self.compared += other.compared;
        self.events += other.events;
        self.findings += other.findings;
        self.ran += other.ran;
        self.records += other.records;
        self.stopped += other.stopped;
        self.rows_after += other.rows_after;
        for (why, count) in other.not_compared {
            *self.not_compared.entry(why).or_default() += count;
        }
        self.complaints.extend(other.complaints);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compared, events, findings, .. } = self;
        write!(
            f,
            "compare on {compared} cases: {events} events, {findings} findings, as recorded"
        )?;
        for (why, count) in &self.not_compared {
            write!(f, " ({count} cases left out: {why})")?;
        }
        let Self { ran, records, stopped, rows_after, .. } = self;
        write!(f, "; run on {ran} cases: {records} records as recorded, {stopped} stops")?;
        write!(f, " with {rows_after} rows after them")
    }
}
