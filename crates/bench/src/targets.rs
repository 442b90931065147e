//! Targets, and whether what was measured meets them.

use serde_json::{Value, json};

use crate::figures::Spread;
use crate::yardstick::{Needs, Yardstick};

/// A limit for a figure: not to be exceeded, or to be reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(limit) => figure >= limit,
            Self::AtMost(limit) => figure <= limit,
        }
    }

    fn show(self) -> String {
        match self {
            Self::AtLeast(limit) => format!(">= {limit}"),
            Self::AtMost(limit) => format!("<= {limit}"),
        }
    }
}

/// Which runs have to meet a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// The median; runs on the other side of the limit are mentioned.
    Median,
    /// Each.
    EveryRun,
}

/// A target and what was measured.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    what: String,
    limit: Limit,
    /// A stricter limit that is aimed at.
    aim: Option<f64>,
    counts: Counts,
    measured: Spread,
    needs: Needs,
    /// Why what was measured says nothing.
    obstacle: Option<String>,
}

impl Target {
    /// A target for the median, which needs nothing of the machine.
    pub(crate) fn new(what: impl Into<String>, limit: Limit, measured: impl Into<Spread>) -> Self {
        Self {
            what: what.into(),
            limit,
            aim: None,
            counts: Counts::Median,
            measured: measured.into(),
            needs: Needs::Nothing,
            obstacle: None,
        }
    }

    /// Aims beyond the limit.
    pub(crate) fn aim(self, aim: f64) -> Self {
        Self { aim: Some(aim), ..self }
    }

    /// Every run has to meet it.
    pub(crate) fn in_every_run(self) -> Self {
        Self { counts: Counts::EveryRun, ..self }
    }

    /// Says nothing on another machine.
    pub(crate) fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    /// Says nothing if there is such an obstacle.
    pub(crate) fn unless(self, obstacle: Option<String>) -> Self {
        Self { obstacle: self.obstacle.or(obstacle), ..self }
    }

    /// The same, judged by what the machine can do.
    pub(crate) fn on(self, machine: &Yardstick) -> Self {
        let obstacle = machine.obstacle(self.needs);
        self.unless(obstacle)
    }

    fn verdict(&self) -> String {
        if let Some(obstacle) = &self.obstacle {
            return format!("not measurable here: {obstacle}");
        }
        let Spread { min, median, max } = self.measured;
        let (worst, aim) = match self.limit {
            Limit::AtLeast(_) => (min, self.aim.map(Limit::AtLeast)),
            Limit::AtMost(_) => (max, self.aim.map(Limit::AtMost)),
        };
        let counts = match self.counts {
            Counts::Median => median,
            Counts::EveryRun => worst,
        };
        let verdict = if !self.limit.holds(counts) {
            "missed"
        } else if !self.limit.holds(worst) {
            "ok, but not in every run"
        } else if aim.is_some_and(|aim| aim.holds(counts)) {
            "aim reached"
        } else {
            "ok"
        };
        verdict.to_owned()
    }

    fn limit(&self) -> String {
        match self.counts {
            Counts::Median => self.limit.show(),
            Counts::EveryRun => format!("{} in every run", self.limit.show()),
        }
    }

    /// The headings of the cells of a target.
    pub(crate) const HEADINGS: [&'static str; 5] = ["target", "limit", "aim", "measured", ""];

    /// For people.
    pub(crate) fn cells(&self) -> [String; 5] {
        let Spread { min, median, max } = self.measured;
        let measured = if min < max {
            format!("{median:.2} ({min:.2} to {max:.2})")
        } else {
            format!("{median:.2}")
        };
        let aim = self.aim.map_or("-".to_owned(), |aim| aim.to_string());
        [self.what.clone(), self.limit(), aim, measured, self.verdict()]
    }

    /// For programs.
    pub(crate) fn line(&self) -> Value {
        let Spread { min, median, max } = self.measured;
        json!({ "what": self.what, "limit": self.limit(), "aim": self.aim, "measured": median,
                "min": min, "max": max, "verdict": self.verdict() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(target: impl Fn(Spread) -> Target, cases: &[([f64; 3], &str)]) {
        for (figures, expected) in cases {
            let measured = Spread::of(*figures).unwrap();
            assert_eq!(target(measured).verdict(), *expected, "{figures:?}");
        }
    }

    #[test]
    fn a_target_is_met_when_the_median_reaches_the_limit_and_names_runs_that_did_not() {
        verdicts(
            |measured| Target::new("", Limit::AtLeast(0.8), measured).aim(1.2),
            &[
                ([0.79; 3], "missed"),
                ([0.8; 3], "ok"),
                ([0.79, 1.24, 1.52], "ok, but not in every run"),
                ([0.81, 1.24, 1.52], "aim reached"),
            ],
        );
        verdicts(
            |measured| Target::new("", Limit::AtMost(8.0), measured).aim(5.0),
            &[
                ([8.1; 3], "missed"),
                ([1.0, 8.5, 9.0], "missed"),
                ([8.0; 3], "ok"),
                ([1.0, 1.5, 8.5], "ok, but not in every run"),
                ([5.0; 3], "aim reached"),
            ],
        );
    }

    #[test]
    fn a_target_for_every_run_is_missed_by_one() {
        verdicts(
            |measured| Target::new("", Limit::AtLeast(1.8), measured).aim(2.2).in_every_run(),
            &[
                ([1.79, 2.4, 2.5], "missed"),
                ([1.8, 2.4, 2.5], "ok"),
                ([2.2, 2.4, 2.5], "aim reached"),
            ],
        );
    }

    #[test]
    fn a_target_with_an_obstacle_is_neither_met_nor_missed() {
        let slow = Yardstick { floor_p50_ms: Some(0.7), others_cores: 0.0 };
        let time = || Target::new("", Limit::AtMost(1.5), 0.1).needs(Needs::FastMachine);
        let verdict = "not measurable here: the floor is 0.70 ms: p50 of a producer alone at \
                       1,000/s";
        assert_eq!(time().on(&slow).verdict(), verdict);
        assert_eq!(time().on(&Yardstick::default()).verdict(), "ok");
        let own = Some("the floor is 1 ms".to_owned());
        assert_eq!(
            time().unless(own).on(&slow).verdict(),
            "not measurable here: the floor is 1 ms"
        );
        assert_eq!(Target::new("", Limit::AtMost(1.5), 2.0).on(&slow).verdict(), "missed");
    }
}
