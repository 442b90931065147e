//! The end of a run: a router that is not killed delivers the rest, and the whole history is
//! checked.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::checker::{self, check};
use testbed::truth::Truth;

use crate::costs::Costs;
use crate::points::Way;
use crate::round::look;
use crate::stage::{SOON, Setup, Stage};
use crate::tally::{Ending, Tally, Wrong};

/// How long the last router may take to deliver everything.
const DELIVERY: Duration = Duration::from_secs(60);

/// The result of a run that proves something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every promise held.
    Held,
    /// At least one did not.
    Broken,
}

/// The judgement.
#[derive(Debug)]
pub(crate) struct Verdict {
    kills: usize,
    wrong: Wrong,
    history: checker::Verdict,
    violations: Vec<String>,
}

impl Verdict {
    /// Whether everything held.
    pub(crate) fn outcome(&self) -> Outcome {
        let is_right = self.wrong == Wrong::default();
        if self.history.is_clean() && self.violations.is_empty() && is_right {
            Outcome::Held
        } else {
            Outcome::Broken
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, wrong, history, violations } = self;
        writeln!(f, "{history}")?;
        for text in history.examples().iter().chain(violations) {
            writeln!(f, "  {text}")?;
        }
        let order = history.order.count() + history.runs.count() + history.affinity.count();
        let (lost, duplicates) = (history.lost.count(), history.duplicates);
        write!(
            f,
            "kills {kills} · lost {lost} · order violations {order} · {wrong} · duplicates {duplicates}"
        )
    }
}

/// Lets a router deliver the rest, and checks everything.
pub(crate) async fn reach(
    mut stage: Stage,
    tally: &mut Tally,
    costs: &mut Costs,
) -> anyhow::Result<Verdict> {
    let writers = stage.writers.take().context("the writers were stopped before")?;
    let never = writers.stop().await?.never;
    stage.start(Setup::Direct)?;
    let delivered = stage.wait_confirmed(DELIVERY).await;
    stage.router.sigterm()?;
    let status = stage.router.wait_exit(SOON).await?;
    costs.repeated(look(&mut stage, tally, Way::OfItself, Ending::Drained).await?.duplicates);

    let truth = Truth::from_ledger(&stage.session, &stage.mapping).await?.never(never);
    let (told, seen) = (truth.events.len(), tally.committed());
    ensure!(told == seen, "the ledger has {told} events, the observer saw {seen}");
    let history = check(&truth, stage.tail.seen(), &checker::Options::default());
    let (one, other) = (history.duplicates, tally.duplicates());
    ensure!(one == other, "duplicates were counted in two ways: {one} and {other}");
    let kills = costs.kills();
    ensure!(one > 0 || kills < 10, "every kill hit an idle router: the run proves nothing");

    let mut violations = tally.violations().to_vec();
    violations.extend(delivered.err().map(|error| format!("{error:#}")));
    if !status.success() {
        violations.push(format!("the last router did not drain: {status}"));
    }
    Ok(Verdict { kills, wrong: tally.wrong(), history, violations })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(wrong: Wrong) -> Verdict {
        let history = checker::Verdict { duplicates: 7, ..checker::Verdict::default() };
        Verdict { kills: 3, wrong, history, violations: Vec::new() }
    }

    #[test]
    fn a_run_without_a_violation_holds_and_its_last_line_counts_every_kind() {
        let verdict = verdict(Wrong::default());
        assert_eq!(verdict.outcome(), Outcome::Held);
        assert_eq!(
            verdict.to_string().lines().last().unwrap(),
            "kills 3 · lost 0 · order violations 0 · confirmed ahead 0 · slot ahead of witness 0 \
             · witness ahead of acks 0 · covered and repeated 0 · duplicates 7"
        );
    }

    #[test]
    fn each_kind_alone_breaks_the_run() {
        let none = Wrong::default();
        for wrong in [
            Wrong { confirmed_ahead: 1, ..none },
            Wrong { slot_ahead: 1, ..none },
            Wrong { witness_ahead: 1, ..none },
            Wrong { repeated: 1, ..none },
        ] {
            assert_eq!(verdict(wrong).outcome(), Outcome::Broken, "{wrong}");
        }
    }
}
