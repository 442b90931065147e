//! The kills of a run and the duplicates that they cost, as a table.

use std::collections::BTreeMap;

use crate::failpoints::FAILPOINTS;
use crate::plan::KillPlan;

/// The cost of every kill, by the place that it hit.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    rows: BTreeMap<usize, Vec<KillCost>>,
    last: Option<LastKill>,
    kills: usize,
}

/// The last kill, whose cost is not known yet.
#[derive(Debug, Clone, Copy)]
struct LastKill {
    row: usize,
    repeatable: usize,
}

#[derive(Debug, Clone, Copy)]
struct KillCost {
    duplicates: usize,
    /// Events in Kafka that may come again.
    repeatable: usize,
}

impl Costs {
    /// After the next process: the last kill cost so many duplicates.
    pub(crate) fn repeated(&mut self, duplicates: usize) {
        if let Some(LastKill { row, repeatable }) = self.last.take() {
            self.rows.entry(row).or_default().push(KillCost { duplicates, repeatable });
        }
    }

    /// Counts a kill, with so many events in Kafka that may come again.
    pub(crate) fn killed(&mut self, plan: KillPlan, repeatable: usize) {
        self.kills += 1;
        self.last = Some(LastKill { row: row_of(plan), repeatable });
    }

    /// Kills so far.
    pub(crate) fn kills(&self) -> usize {
        self.kills
    }

    /// The table, with a line for every place that was hit.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<22}{:>6}{:>20}{:>8}{:>18}\n",
            "killed at", "times", "duplicates: median", "max", "repeatable: max"
        );
        for (row, costs) in &self.rows {
            let mut sorted: Vec<usize> = costs.iter().map(|cost| cost.duplicates).collect();
            sorted.sort_unstable();
            let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
            let max = sorted.last().copied().unwrap_or_default();
            let repeatable = costs.iter().map(|cost| cost.repeatable).max().unwrap_or_default();
            text.push_str(&format!(
                "{:<22}{:>6}{median:>20}{max:>8}{repeatable:>18}\n",
                name_of(*row),
                sorted.len()
            ));
        }
        text
    }
}

/// The order of lines: failpoints in their order, then the rest.
fn row_of(plan: KillPlan) -> usize {
    match plan {
        KillPlan::Failpoint { failpoint, .. } => {
            FAILPOINTS.iter().position(|known| known == failpoint).unwrap_or(FAILPOINTS.len())
        }
        KillPlan::Instant(_) => FAILPOINTS.len(),
        KillPlan::Hold { .. } => FAILPOINTS.len() + 1,
    }
}

fn name_of(row: usize) -> &'static str {
    match FAILPOINTS.get(row) {
        Some(failpoint) => failpoint.name,
        None if row == FAILPOINTS.len() => "a random instant",
        None => "held responses",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn duplicates_are_counted_for_the_kill_before_them() {
        let mut costs = Costs::default();
        let [first, second, ..] = &FAILPOINTS;
        let at = |failpoint| KillPlan::Failpoint { failpoint, times: 1, lead: Duration::ZERO };
        costs.repeated(9);
        costs.killed(at(second), 4);
        costs.repeated(3);
        costs.killed(at(first), 6);
        costs.repeated(5);
        let table = costs.table();
        let lines: Vec<Vec<&str>> =
            table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines, [[first.name, "1", "5", "5", "6"], [second.name, "1", "3", "3", "4"]]);
        assert_eq!(costs.kills(), 2);
    }
}
