//! The rounds of a run and their order, decided from the seed before anything starts.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::args::Args;
use crate::failpoints::FailpointCase;

/// The longest time that a router works before it is killed at a random instant.
const WORK: Duration = Duration::from_millis(700);
/// The longest that a router works before something is done to reach a failpoint.
const LEAD: Duration = Duration::from_millis(250);
/// How long responses are held.
const HOLD: std::ops::Range<Duration> = Duration::from_millis(400)..Duration::from_millis(2500);

/// How a process of the router ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillPlan {
    /// SIGKILL, this long after its start.
    Instant(Duration),
    /// The router kills itself when it reaches the failpoint for the n-th time. The trigger follows
    /// `lead` after the start.
    Failpoint { failpoint: &'static FailpointCase, times: u32, lead: Duration },
    /// The broker's responses are held for this long.
    Hold { length: Duration, end: HoldEnd },
}

impl fmt::Display for KillPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instant(after) => write!(f, "killed after {after:.1?}"),
            Self::Failpoint { failpoint, times, .. } => {
                write!(f, "killed at {}, reached {times} times", failpoint.name)
            }
            Self::Hold { length, .. } => write!(f, "responses held for {length:.1?}"),
        }
    }
}

/// What follows the held responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldEnd {
    /// The responses are released, and the router is stopped by SIGTERM.
    Release,
    /// SIGKILL.
    Kill,
}

/// The rounds of a run.
pub(crate) fn plan(args: &Args, seed: u64) -> Vec<KillPlan> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut plans: Vec<KillPlan> = Vec::new();
    // The first failpoint is random, so that short runs do not always have the same ones.
    let all = args.failpoints();
    let start = random.random_range(0..all.len());
    let mut failpoints = all.iter().cycle().skip(start);
    for kill in 0..args.kills() {
        if kill % 2 == 0 {
            plans.push(KillPlan::Instant(part_of(WORK, &mut random)));
        } else {
            plans.extend(failpoints.next().map(|failpoint| at(failpoint, &mut random)));
        }
    }
    for _ in 0..args.per_failpoint {
        plans.extend(all.iter().map(|failpoint| at(failpoint, &mut random)));
    }
    for round in 0..args.hold {
        let end = if round % 2 == 0 { HoldEnd::Kill } else { HoldEnd::Release };
        plans.push(KillPlan::Hold { length: random.random_range(HOLD), end });
    }
    plans.shuffle(&mut random);
    plans
}

fn at(failpoint: &'static FailpointCase, random: &mut StdRng) -> KillPlan {
    let times = random.random_range(1..=failpoint.times_at_most);
    KillPlan::Failpoint { failpoint, times, lead: part_of(LEAD, random) }
}

fn part_of(span: Duration, random: &mut StdRng) -> Duration {
    span.mul_f64(random.random_range(0.0..1.0))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::failpoints::FAILPOINTS;

    fn planned(line: &[&str], seed: u64) -> Vec<KillPlan> {
        plan(&Args::try_parse_from(line).unwrap(), seed)
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_seed_another_plan() {
        let line = ["crash-test", "--kills", "50"];
        assert_eq!(planned(&line, 1), planned(&line, 1));
        assert_ne!(planned(&line, 1), planned(&line, 2));
    }

    #[test]
    fn per_failpoint_plans_that_many_kills_at_every_failpoint() {
        let plans = planned(&["crash-test", "--per-failpoint", "3", "--hold", "0"], 1);
        for failpoint in &FAILPOINTS {
            let is_there = |plan: &&KillPlan| matches!(plan, KillPlan::Failpoint { failpoint: p, .. } if *p == failpoint);
            assert_eq!(plans.iter().filter(is_there).count(), 3, "{}", failpoint.name);
        }
        assert_eq!(plans.len(), 3 * FAILPOINTS.len());
    }

    #[test]
    fn only_named_failpoints_are_planned_and_unknown_names_are_refused() {
        let line = ["crash-test", "--per-failpoint", "2", "--only", "released,held"];
        let names: Vec<&str> = planned(&line, 1)
            .iter()
            .filter_map(|plan| match plan {
                KillPlan::Failpoint { failpoint, .. } => Some(failpoint.name),
                KillPlan::Instant(_) | KillPlan::Hold { .. } => None,
            })
            .collect();
        assert_eq!(names.iter().filter(|name| **name == "held").count(), 2);
        assert_eq!((names.iter().filter(|name| **name == "released").count(), names.len()), (2, 4));
        assert!(Args::try_parse_from(["crash-test", "--only", "elsewhere"]).is_err());
    }

    #[test]
    fn kills_alternate_between_random_instants_and_failpoints() {
        let plans = planned(&["crash-test", "--kills", "46", "--hold", "0"], 1);
        let instants = plans.iter().filter(|plan| matches!(plan, KillPlan::Instant(_))).count();
        assert_eq!((plans.len(), instants), (46, 23));
    }
}
