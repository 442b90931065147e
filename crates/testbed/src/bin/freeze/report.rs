//! What was done and what it cost, as a table.

use std::collections::BTreeMap;

use crate::books::Finding;
use crate::plan::Shot;
use crate::points::POINTS;

/// Duplicates of every kill, by where it hit.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rows: BTreeMap<usize, Vec<Finding>>,
    last: Option<usize>,
    kills: usize,
}

impl Tally {
    /// A look after the next life: these duplicates are what the last kill cost.
    pub(crate) fn repeated(&mut self, finding: Finding) {
        if let Some(row) = self.last.take() {
            self.rows.entry(row).or_default().push(finding);
        }
    }

    /// A kill.
    pub(crate) fn killed(&mut self, shot: Shot) {
        self.kills += 1;
        self.last = Some(row_of(shot));
    }

    /// Kills so far.
    pub(crate) fn kills(&self) -> usize {
        self.kills
    }

    /// The table: a line for every place that was hit.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<22}{:>6}{:>20}{:>8}{:>18}\n",
            "killed at", "times", "duplicates: median", "max", "unconfirmed: max"
        );
        for (row, findings) in &self.rows {
            let mut sorted: Vec<usize> = findings.iter().map(|found| found.duplicates).collect();
            sorted.sort_unstable();
            let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
            let max = sorted.last().copied().unwrap_or_default();
            let unconfirmed =
                findings.iter().map(|found| found.unconfirmed).max().unwrap_or_default();
            text.push_str(&format!(
                "{:<22}{:>6}{median:>20}{max:>8}{unconfirmed:>18}\n",
                name_of(*row),
                sorted.len()
            ));
        }
        text
    }
}

/// Failpoints in their order, then the rest.
fn row_of(shot: Shot) -> usize {
    match shot {
        Shot::Point { point, .. } => {
            POINTS.iter().position(|known| known == point).unwrap_or(POINTS.len())
        }
        Shot::Instant(_) => POINTS.len(),
        Shot::Hold { .. } => POINTS.len() + 1,
    }
}

fn name_of(row: usize) -> &'static str {
    match POINTS.get(row) {
        Some(point) => point.name,
        None if row == POINTS.len() => "a random instant",
        None => "held answers",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn duplicates_are_laid_to_the_kill_before_them() {
        let mut tally = Tally::default();
        let [first, second, ..] = &POINTS;
        let at = |point| Shot::Point { point, times: 1, lead: Duration::ZERO };
        let found = |duplicates| Finding { duplicates, unconfirmed: 1 };
        tally.repeated(found(9));
        tally.killed(at(second));
        tally.repeated(found(3));
        tally.killed(at(first));
        tally.repeated(found(5));
        let table = tally.table();
        let lines: Vec<Vec<&str>> =
            table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines, [[first.name, "1", "5", "5", "1"], [second.name, "1", "3", "3", "1"]]);
        assert_eq!(tally.kills(), 2);
    }
}
