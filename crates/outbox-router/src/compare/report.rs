//! What a comparison found: counts, and examples of each kind.

use std::collections::BTreeMap;

use super::difference::Difference;

/// A kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// An event of the slot is not in the topics.
    Missing,
    /// An event has no id, so its record cannot be looked for.
    NoId,
    /// A record is in the topics that no event of the slot gives.
    Additional,
    /// The record of an event is there again.
    Duplicate,
    /// Records of one key are in another order than their events.
    Order,
    /// `run` would stop at the row.
    Refused,
    /// Two records of one event differ.
    Differs(Difference),
}

impl Finding {
    /// As it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::NoId => "no id",
            Self::Additional => "additional",
            Self::Duplicate => "duplicate",
            Self::Order => "order",
            Self::Refused => "refused",
            Self::Differs(difference) => difference.as_str(),
        }
    }
}

/// One case of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The event's id; empty where it has none.
    pub id: String,
    /// Where it is, or would be: topic, partition and offset.
    pub at: String,
    /// What the router would write.
    pub ours: Option<String>,
    /// What is there.
    pub theirs: Option<String>,
}

/// How many examples of each kind are kept.
const EXAMPLES_MAX: usize = 3;

/// Counts and examples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Events that came, but for those that are not compared.
    pub events: u64,
    /// Those whose record was found, whether it differs or not.
    pub found: u64,
    /// Those whose record was found without any difference.
    pub same: u64,
    /// Records before the first one of their partition that belongs to an event; they are taken for
    /// older than the slot's position.
    pub earlier: u64,
    /// Records of the topics that had headers which are not compared.
    pub with_context_headers: u64,
    findings: BTreeMap<Finding, (u64, Vec<Example>)>,
}

impl Report {
    pub(super) fn add(&mut self, finding: Finding, example: impl FnOnce() -> Example) {
        let (count, examples) = self.findings.entry(finding).or_default();
        *count += 1;
        if examples.len() < EXAMPLES_MAX {
            examples.push(example());
        }
    }

    /// One less of a kind: the event with this id was found after all.
    pub(super) fn withdraw(&mut self, finding: Finding, id: &str) {
        if let Some((count, examples)) = self.findings.get_mut(&finding) {
            *count = count.saturating_sub(1);
            examples.retain(|example| example.id != id);
            if *count == 0 {
                self.findings.remove(&finding);
            }
        }
    }

    /// Every kind that occurs, with its count and examples.
    pub fn findings(&self) -> impl Iterator<Item = (Finding, u64, &[Example])> {
        self.findings.iter().map(|(finding, (count, examples))| (*finding, *count, &**examples))
    }

    /// Whether nothing differs.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}
