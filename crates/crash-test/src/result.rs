//! The end of a run: a router that is not killed delivers the rest, and the whole history is
//! checked.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::checker::{self, CheckOptions, check};
use testbed::truth::Truth;

use crate::costs::Costs;
use crate::failpoints::Trigger;
use crate::held_table;
use crate::round::check_after_death;
use crate::state_topic::SLOT;
use crate::system::{DEADLINE, Setup, TestSystem};
use crate::tally::{Ending, Tally, ViolationCounts};

/// How long the last router may take to deliver everything, and then to release what is held.
const DELIVERY: Duration = Duration::from_secs(60);

/// The result of a run that proves something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    /// Every promise held.
    Passed,
    /// At least one did not.
    Failed,
}

/// What a run has shown.
#[derive(Debug)]
pub(crate) struct RunResult {
    kills: usize,
    counts: ViolationCounts,
    history: checker::CheckResult,
    violations: Vec<String>,
}

impl RunResult {
    /// Whether everything held.
    pub(crate) fn outcome(&self) -> RunOutcome {
        let is_right = self.counts == ViolationCounts::default();
        if self.history.is_clean() && self.violations.is_empty() && is_right {
            RunOutcome::Passed
        } else {
            RunOutcome::Failed
        }
    }
}

impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, counts, history, violations } = self;
        writeln!(f, "{history}")?;
        for text in history.examples().iter().chain(violations) {
            writeln!(f, "  {text}")?;
        }
        let order =
            history.order.count() + history.incomplete_replays.count() + history.affinity.count();
        let (lost, duplicates) = (history.lost.count(), history.duplicates);
        write!(
            f,
            "kills {kills} · lost {lost} · order violations {order} · {counts} · duplicates {duplicates}"
        )
    }
}

/// Lets a router deliver the rest, and checks everything.
pub(crate) async fn finish(
    mut system: TestSystem,
    tally: &mut Tally,
    costs: &mut Costs,
) -> anyhow::Result<RunResult> {
    let writers = system.writers.take().context("the writers were stopped before")?;
    let rolled_back = writers.stop().await?.rolled_back;
    system.start(Setup::Direct)?;
    let delivered = system.postgres.wait_confirmed(SLOT, DELIVERY).await;
    let released = held_table::wait_empty(&system.session, DELIVERY).await;
    system.router.sigterm()?;
    let status = system.router.wait_exit(DEADLINE).await?;
    costs.repeated(
        check_after_death(&mut system, tally, Trigger::None, Ending::Drained).await?.duplicates,
    );
    tally.check_all_left();

    let truth =
        Truth::from_committed(&system.session, &system.mapping).await?.rolled_back(rolled_back);
    let (committed, observed) = (truth.events.len(), tally.committed());
    ensure!(
        committed == observed,
        "the table of committed events has {committed}, the observer saw {observed}"
    );
    let history = check(&truth, system.tail.seen(), &CheckOptions::default());
    let (one, other) = (history.duplicates, tally.duplicates());
    ensure!(one == other, "duplicates were counted in two ways: {one} and {other}");
    let kills = costs.kills();
    ensure!(
        one > 0 || kills < 10,
        "no kill caused a duplicate, so every kill hit an idle router: the run is invalid"
    );

    let mut violations = tally.violations().to_vec();
    for outcome in [delivered, released] {
        violations.extend(outcome.err().map(|error| format!("{error:#}")));
    }
    if !status.success() {
        violations.push(format!("the last router did not drain: {status}"));
    }
    Ok(RunResult { kills, counts: tally.violation_counts(), history, violations })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(counts: ViolationCounts) -> RunResult {
        let history = checker::CheckResult { duplicates: 7, ..checker::CheckResult::default() };
        RunResult { kills: 3, counts, history, violations: Vec::new() }
    }

    #[test]
    fn a_run_without_a_violation_succeeds_and_its_last_line_counts_every_kind() {
        let result = result(ViolationCounts::default());
        assert_eq!(result.outcome(), RunOutcome::Passed);
        assert_eq!(
            result.to_string().lines().last().unwrap(),
            "kills 3 · lost 0 · order violations 0 · confirmed ahead 0 · slot ahead of witness 0 \
             · witness ahead of acks 0 · covered and repeated 0 · released ahead of acks 0 \
             · dead letters passed 0 · duplicates 7"
        );
    }

    #[test]
    fn one_violation_of_any_kind_fails_the_run() {
        let none = ViolationCounts::default();
        for counts in [
            ViolationCounts { confirmed_ahead: 1, ..none },
            ViolationCounts { slot_ahead: 1, ..none },
            ViolationCounts { witness_ahead: 1, ..none },
            ViolationCounts { repeated: 1, ..none },
            ViolationCounts { left_ahead: 1, ..none },
            ViolationCounts { passed: 1, ..none },
        ] {
            assert_eq!(result(counts).outcome(), RunOutcome::Failed, "{counts}");
        }
    }
}
