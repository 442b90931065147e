//! What the rounds have shown, in a line each and in a table at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::scenario::{Play, Scenario};
use crate::verdict::{Finding, Wrong};

/// How many findings of a kind are printed.
const EXAMPLES: usize = 3;

/// What a round has shown.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) findings: Vec<Finding>,
    pub(crate) committed: usize,
    /// Events in the topics.
    pub(crate) sent: usize,
    pub(crate) duplicates: usize,
    /// Events whose row is in no table any more.
    pub(crate) removed: usize,
    /// Rows that are kept for a person: abandoned, or in tables that were partitions.
    pub(crate) kept: usize,
    pub(crate) looks: usize,
    /// Faults, and commands that were killed.
    pub(crate) interruptions: usize,
    /// The verdict of the router, at the end.
    pub(crate) status: String,
    /// Where its logs are, if they are kept.
    pub(crate) logs: Option<PathBuf>,
}

impl Outcome {
    pub(crate) fn count(&self, wrong: Wrong) -> usize {
        self.findings.iter().filter(|finding| finding.wrong == wrong).count()
    }
}

/// Sums of some rounds.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    rounds: usize,
    committed: usize,
    sent: usize,
    duplicates: usize,
    removed: usize,
    kept: usize,
    looks: usize,
    interruptions: usize,
    wrong: [usize; Wrong::ALL.len()],
    /// Rounds with something wrong, whose status was OK.
    silent: usize,
}

impl Sums {
    fn add(&mut self, outcome: &Outcome) {
        self.rounds += 1;
        self.committed += outcome.committed;
        self.sent += outcome.sent;
        self.duplicates += outcome.duplicates;
        self.removed += outcome.removed;
        self.kept += outcome.kept;
        self.looks += outcome.looks;
        self.interruptions += outcome.interruptions;
        for (sum, wrong) in self.wrong.iter_mut().zip(Wrong::ALL) {
            *sum += outcome.count(wrong);
        }
        let is_silent = !outcome.findings.is_empty() && outcome.status.starts_with("ok:");
        self.silent += usize::from(is_silent);
    }
}

/// All rounds, by what they were about.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    version: u16,
    plays: BTreeMap<Play, Sums>,
    all: Sums,
}

impl Figures {
    /// None yet, on a version of PostgreSQL.
    pub(crate) fn on(version: u16) -> Self {
        Self { version, ..Self::default() }
    }

    pub(crate) fn add(&mut self, scenario: &Scenario, outcome: &Outcome) {
        self.plays.entry(scenario.play).or_default().add(outcome);
        self.all.add(outcome);
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_clean(&self) -> bool {
        self.all.wrong.iter().all(|count| *count == 0)
    }

    /// The line of a round, with examples of what is wrong.
    pub(crate) fn line(&self, scenario: &Scenario, outcome: &Outcome, took: Duration) -> String {
        let mut text = format!(
            "round {} ({:.0} s): {scenario}: {} events, {} sent, {} removed, {} kept, \
             {} duplicates, {} interruptions, {} looks",
            self.all.rounds + 1,
            took.as_secs_f64(),
            outcome.committed,
            outcome.sent,
            outcome.removed,
            outcome.kept,
            outcome.duplicates,
            outcome.interruptions,
            outcome.looks,
        );
        for wrong in Wrong::ALL {
            let of_kind = outcome.findings.iter().filter(|finding| finding.wrong == wrong);
            let count = outcome.count(wrong);
            for finding in of_kind.take(EXAMPLES) {
                text.push_str(&format!("\n  {finding}"));
            }
            if count > EXAMPLES {
                text.push_str(&format!("\n  … {count} {}", wrong.name()));
            }
        }
        if !outcome.findings.is_empty() {
            text.push_str(&format!("\n  status: {}", outcome.status));
            text.push_str(&format!(
                "\n  see it again: scripts/judge.sh --scenario {} --seed {} --seconds 1 --postgres {}",
                scenario.play, scenario.seed, self.version
            ));
        }
        if let Some(logs) = &outcome.logs {
            text.push_str(&format!("\n  logs: {}", logs.display()));
        }
        text
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16} {:>6} {:>8} {:>8} {:>8} {:>6} {:>10} {:>13} {:>6} {:>6}",
            "",
            "rounds",
            "events",
            "sent",
            "removed",
            "kept",
            "duplicates",
            "interruptions",
            "looks",
            "wrong"
        )?;
        for (play, sums) in &self.plays {
            writeln!(
                f,
                "{:<16} {:>6} {:>8} {:>8} {:>8} {:>6} {:>10} {:>13} {:>6} {:>6}",
                play.to_string(),
                sums.rounds,
                sums.committed,
                sums.sent,
                sums.removed,
                sums.kept,
                sums.duplicates,
                sums.interruptions,
                sums.looks,
                sums.wrong.iter().sum::<usize>(),
            )?;
        }
        let all = &self.all;
        write!(f, "rounds {} · events {}", all.rounds, all.committed)?;
        for (wrong, count) in Wrong::ALL.iter().zip(all.wrong) {
            write!(f, " · {} {count}", wrong.name())?;
        }
        write!(f, " · wrong while OK {} · duplicates {}", all.silent, all.duplicates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_finding_of_any_kind_is_counted_and_shown_with_its_seed() {
        for wrong in Wrong::ALL {
            let finding = Finding { wrong, event: "e".to_owned(), said: "is gone".to_owned() };
            let outcome = Outcome {
                findings: vec![finding],
                status: "ok: rows flow (streaming)".to_owned(),
                ..Outcome::default()
            };
            let (scenario, mut figures) = (Scenario::draw(1, Play::Delete, 7), Figures::default());
            let line = figures.line(&scenario, &outcome, Duration::ZERO);
            assert!(line.contains("--scenario delete --seed 7"), "{line}");
            figures.add(&scenario, &outcome);
            assert!(!figures.is_clean());
            let text = figures.to_string();
            assert!(text.contains(&format!("{} 1 ", wrong.name())), "{text}");
            assert!(text.contains("wrong while OK 1"), "{text}");
        }
    }

    #[test]
    fn a_round_without_a_finding_is_clean() {
        let mut figures = Figures::default();
        figures.add(&Scenario::draw(1, Play::Delete, 7), &Outcome::default());
        assert!(figures.is_clean());
    }
}
