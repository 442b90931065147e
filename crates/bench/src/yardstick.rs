//! What a machine must be able to do before a target says anything about the router.
//!
//! A target that a machine cannot show is neither met nor missed there. So each kind of target has
//! a yardstick that does not depend on the router: the latency of a producer alone, the speed of
//! `pg_recvlogical` in the same turn, and what other processes used.

use serde::Serialize;

use crate::figures::Spread;
use crate::machine_info::OTHER_CORES_MAX;

/// A producer alone takes less than this, p50, at 1,000 events a second, on a machine that is fast
/// enough to measure times of milliseconds on it.
pub(crate) const FLOOR_P50_MAX: f64 = 0.5;
/// What the producer alone needs is a part of the router's time: it may be this part of a limit.
const FLOOR_PART_MAX: f64 = 1.0 / 3.0;

/// What a figure needs of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: memory, and what has a yardstick of its own in each run.
    Nothing,
    /// No other processes that use its cores: ratios, CPU time, rates.
    QuietMachine,
    /// That, and a fast producer: times.
    FastMachine,
}

/// The machine, as far as targets depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Yardstick {
    /// Of a producer alone, at the start; `None` if it was not measured.
    pub(crate) floor_p50_ms: Option<f64>,
    /// Cores that other processes kept busy before what is measured now.
    pub(crate) others_cores: f64,
}

impl Yardstick {
    /// Why a figure that needs this says nothing here.
    pub(crate) fn obstacle(&self, needs: Needs) -> Option<String> {
        let others = || {
            (self.others_cores > OTHER_CORES_MAX)
                .then(|| format!("other processes kept {:.2} cores busy", self.others_cores))
        };
        let floor = || {
            let floor = self.floor_p50_ms.filter(|floor| *floor >= FLOOR_P50_MAX)?;
            Some(format!("the floor is {floor:.2} ms: p50 of a producer alone at 1,000/s"))
        };
        match needs {
            Needs::Nothing => None,
            Needs::QuietMachine => others(),
            Needs::FastMachine => floor().or_else(others),
        }
    }
}

/// Why a latency may not be measurable against `limit`: a producer alone, at the same rate and in
/// the same turns, takes more than a third of it.
pub(crate) fn latency_obstacle(floor: Option<Spread>, what: &str, limit: f64) -> Option<String> {
    let floor = floor?.median;
    (floor > limit * FLOOR_PART_MAX).then(|| {
        format!("the floor is {floor:.2} ms: {what} of a producer alone, over a third of the limit")
    })
}

/// Why a rate in MB/s may not be measurable: `pg_recvlogical` does not reach it in the same turns.
pub(crate) fn rate_obstacle(baseline: Option<Spread>, limit: f64) -> Option<String> {
    let baseline = baseline?.median;
    (baseline < limit)
        .then(|| format!("the floor is {baseline:.0} MB/s: pg_recvlogical, which writes nothing"))
}

/// The figures of turns that nothing disturbed, and how many there are of how many.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuietTurns {
    /// Of the quiet turns; of all, if there are none.
    pub(crate) figures: Spread,
    quiet: usize,
    turns: usize,
    /// Cores that other processes kept busy in the quietest turn.
    others_cores: f64,
}

impl QuietTurns {
    /// From the figure of each turn, and the cores that other processes kept busy meanwhile.
    pub(crate) fn of(turns: &[(f64, f64)]) -> Option<Self> {
        let quiet = || turns.iter().filter(|(_, others)| *others <= OTHER_CORES_MAX);
        let figures = Spread::of(quiet().map(|(figure, _)| *figure))
            .or_else(|| Spread::of(turns.iter().map(|(figure, _)| *figure)))?;
        let others_cores = Spread::of(turns.iter().map(|(_, others)| *others))?.min;
        Some(Self { figures, quiet: quiet().count(), turns: turns.len(), others_cores })
    }

    /// Why they say nothing here.
    pub(crate) fn obstacle(&self) -> Option<String> {
        (self.quiet == 0).then(|| {
            let others = self.others_cores;
            format!("other processes kept {others:.2} cores busy, or more, in every turn")
        })
    }

    /// What is left out, for people; empty if nothing is.
    pub(crate) fn note(&self) -> String {
        match self {
            Self { quiet, turns, .. } if quiet == turns || *quiet == 0 => String::new(),
            Self { quiet, turns, .. } => format!(" ({quiet} quiet turns of {turns})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_producer_makes_times_unmeasurable_and_other_processes_all_but_memory() {
        let machine = |floor, others_cores| Yardstick { floor_p50_ms: floor, others_cores };
        let obstacles = |machine: Yardstick| {
            [Needs::Nothing, Needs::QuietMachine, Needs::FastMachine]
                .map(|needs| machine.obstacle(needs))
        };
        for fast in [machine(Some(0.49), 0.1), machine(None, 0.0)] {
            assert_eq!(obstacles(fast), [const { None }; 3], "{fast:?}");
        }
        let slow = "the floor is 0.50 ms: p50 of a producer alone at 1,000/s".to_owned();
        assert_eq!(obstacles(machine(Some(0.5), 0.0)), [None, None, Some(slow)]);
        let busy = Some("other processes kept 0.11 cores busy".to_owned());
        assert_eq!(obstacles(machine(Some(0.2), 0.11)), [None, busy.clone(), busy]);
    }

    #[test]
    fn a_latency_is_measurable_where_the_producer_alone_takes_at_most_a_third_of_its_limit() {
        let obstacle = |floor: Option<f64>| latency_obstacle(floor.map(Spread::from), "p50", 1.5);
        assert_eq!(obstacle(None), None);
        assert_eq!(obstacle(Some(0.5)), None);
        assert!(obstacle(Some(0.51)).unwrap().starts_with("the floor is 0.51 ms: p50 of"));
    }

    #[test]
    fn a_rate_that_pg_recvlogical_does_not_reach_is_not_measurable() {
        assert_eq!(rate_obstacle(Some(Spread::from(80.0)), 80.0), None);
        assert_eq!(rate_obstacle(None, 80.0), None);
        assert!(rate_obstacle(Some(Spread::from(79.0)), 80.0).unwrap().contains("79 MB/s"));
    }

    #[test]
    fn disturbed_turns_are_left_out_and_named_unless_there_are_no_others() {
        let some = QuietTurns::of(&[(2.0, 0.0), (1.0, 0.2), (1.9, 0.1)]).unwrap();
        assert_eq!((some.figures.min, some.figures.max), (1.9, 2.0));
        assert_eq!((some.obstacle(), some.note()), (None, " (2 quiet turns of 3)".to_owned()));
        let all = QuietTurns::of(&[(2.0, 0.0)]).unwrap();
        assert_eq!((all.obstacle(), all.note()), (None, String::new()));
        let none = QuietTurns::of(&[(2.0, 0.5), (1.0, 0.2)]).unwrap();
        assert_eq!((none.figures.min, none.figures.max), (1.0, 2.0));
        let obstacle = none.obstacle().unwrap();
        assert_eq!(obstacle, "other processes kept 0.20 cores busy, or more, in every turn");
        assert_eq!((none.note(), QuietTurns::of(&[])), (String::new(), None));
    }
}
