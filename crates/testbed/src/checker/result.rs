//! The result of a check: counts, a few examples of each kind, and a summary in one line.

use std::fmt;

use anyhow::bail;

const EXAMPLES: usize = 10;

/// Anomalies of one kind: their number, and the first few in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anomalies {
    count: usize,
    examples: Vec<String>,
}

impl Anomalies {
    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first few.
    pub fn examples(&self) -> &[String] {
        &self.examples
    }

    pub(super) fn add(&mut self, describe: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(describe());
        }
    }
}

/// The outcome of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckResult {
    /// Events committed.
    pub sent: usize,
    /// Of these, in Kafka at least once.
    pub in_kafka: usize,
    /// Records read.
    pub records: usize,
    /// Records beyond the first of their event.
    pub duplicates: usize,
    /// Committed and not in Kafka.
    pub lost: Anomalies,
    /// In Kafka and not committed.
    pub phantom: Anomalies,
    /// First occurrences out of commit order within a key.
    pub order: Anomalies,
    /// Keys in more than one partition.
    pub affinity: Anomalies,
    /// Replays that leave something out.
    pub incomplete_replays: Anomalies,
    /// Records that are not what was written.
    pub altered: Anomalies,
    /// Defects of the truth itself: with any of them the run proves nothing.
    pub contradictions: Anomalies,
}

impl CheckResult {
    fn kinds(&self) -> [(&'static str, &Anomalies); 7] {
        [
            ("lost", &self.lost),
            ("order violations", &self.order),
            ("phantoms", &self.phantom),
            ("keys in several partitions", &self.affinity),
            ("incomplete replays", &self.incomplete_replays),
            ("altered", &self.altered),
            ("contradictions in the table of committed events", &self.contradictions),
        ]
    }

    /// Whether there is no anomaly. Duplicates are none.
    pub fn is_clean(&self) -> bool {
        self.kinds().iter().all(|(_, anomalies)| anomalies.count() == 0)
    }

    /// Returns the result if it is clean.
    ///
    /// # Errors
    ///
    /// Fails on any anomaly, with the result and the examples as the message.
    pub fn clean(self) -> anyhow::Result<Self> {
        if self.is_clean() {
            return Ok(self);
        }
        let examples: Vec<String> =
            self.examples().into_iter().map(|example| format!("\n  {example}")).collect();
        bail!("{self}{}", examples.concat())
    }

    /// A few anomalies of each kind, in words.
    pub fn examples(&self) -> Vec<String> {
        let kinds = self.kinds();
        let of = |(kind, found): &(&str, &Anomalies)| -> Vec<String> {
            found.examples().iter().map(|text| format!("{kind}: {text}")).collect()
        };
        kinds.iter().flat_map(of).collect()
    }
}

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sent {} · in Kafka {} · lost {} · duplicates {} · order violations {}",
            self.sent,
            self.in_kafka,
            self.lost.count(),
            self.duplicates,
            self.order.count()
        )?;
        for (kind, anomalies) in self.kinds().iter().skip(2).filter(|(_, found)| found.count() > 0)
        {
            write!(f, " · {kind} {}", anomalies.count())?;
        }
        Ok(())
    }
}
