//! Rows that no golden has: random ones from a seed, through the real Debezium, the core and the
//! real router.

use std::fmt;

use crate::case::Case;
use crate::compare::{Verdict, differences};
use crate::golden::Golden;
use crate::live::{self, Tally};
use crate::record;

/// What became of the rows of a seed.
#[derive(Debug)]
pub struct Fresh {
    rows: usize,
    same: usize,
    both_refuse: usize,
    explained: usize,
    tally: Tally,
    complaints: Vec<String>,
}

impl Fresh {
    /// Rows that differ without a reason, and what the real router does in another way than the
    /// core.
    pub fn complaints(&self) -> impl Iterator<Item = &str> {
        self.complaints.iter().chain(self.tally.complaints()).map(String::as_str)
    }
}

impl fmt::Display for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, same, both_refuse, explained, tally, .. } = self;
        write!(f, "{rows} random rows: {same} the same, {both_refuse} that both refuse, ")?;
        write!(f, "{explained} that differ for their case's reason; {tally}")
    }
}

/// Compares the random rows of a seed.
///
/// # Errors
///
/// Fails when a server does not come up.
pub async fn check(version: u16, seed: u64) -> anyhow::Result<Fresh> {
    let cases = Case::random(seed)?;
    let recorded = record::record(version, &cases).await?;
    let mut fresh = Fresh {
        rows: 0,
        same: 0,
        both_refuse: 0,
        explained: 0,
        tally: Tally::default(),
        complaints: Vec::new(),
    };
    for (case, golden) in cases.iter().zip(&recorded.goldens) {
        fresh.judge(case, golden);
    }
    fresh.tally = live::check(recorded, &cases).await?;
    Ok(fresh)
}

impl Fresh {
    fn judge(&mut self, case: &Case, golden: &Golden) {
        for (row, recorded) in case.rows.iter().zip(&golden.rows) {
            self.rows += 1;
            match (recorded.verdict(), case.reason(row)) {
                (Verdict::Same, _) => self.same += 1,
                (Verdict::BothRefuse, _) => self.both_refuse += 1,
                (Verdict::Differs, Some(_)) => self.explained += 1,
                (Verdict::Differs, None) => {
                    let ours = recorded.ours.as_ref();
                    let found = ours.map(|ours| differences(&recorded.debezium, ours));
                    let found = found.unwrap_or_default().join("; ");
                    self.complaints.push(format!("{} {:?}: {found}", case.name, row.values));
                }
            }
        }
    }
}
