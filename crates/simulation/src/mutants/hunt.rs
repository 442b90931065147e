//! Runs seeds until an invariant is broken.
#![allow(clippy::print_stdout, reason = "what a program prints is its result")]

use std::{fmt, time::Instant};

use simulation::{
    coverage::Coverage,
    invariant::Violation,
    plan::{Plan, Trace},
    polling::{self, PollingCoverage, plan::PollingPlan},
    repairs::{self, RepairsCoverage},
    resources,
    rows::{self, RowsCoverage},
    run::run,
};

/// How a bug was caught, as [`until_caught`] prints it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Detection {
    pub(crate) detected_by: DetectedBy,
    /// The invariant, as its `Display` prints it.
    pub(crate) invariant: String,
    pub(crate) what: String,
    pub(crate) millis: u64,
}

/// What broke the invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DetectedBy {
    /// The probe of memory growth (S9), before any seed.
    Probe,
    /// A seed.
    Seed(u64),
    /// A seed of the polling source.
    PollingSeed(u64),
    /// A seed of the life of rows.
    RowsSeed(u64),
    /// A seed of repairs.
    RepairsSeed(u64),
}

impl fmt::Display for DetectedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probe => f.write_str("probe"),
            Self::Seed(seed) => write!(f, "seed {seed}"),
            Self::PollingSeed(seed) => write!(f, "polling seed {seed}"),
            Self::RowsSeed(seed) => write!(f, "rows seed {seed}"),
            Self::RepairsSeed(seed) => write!(f, "repairs seed {seed}"),
        }
    }
}

impl Detection {
    /// Parses a line that [`until_caught`] printed.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(4, '\t');
        let detected_by = match fields.next()? {
            "probe" => DetectedBy::Probe,
            seed => {
                let (kind, number) = seed.rsplit_once(' ')?;
                let number = number.parse().ok()?;
                match kind {
                    "polling seed" => DetectedBy::PollingSeed(number),
                    "rows seed" => DetectedBy::RowsSeed(number),
                    "repairs seed" => DetectedBy::RepairsSeed(number),
                    "seed" => DetectedBy::Seed(number),
                    _ => return None,
                }
            }
        };
        let millis = fields.next()?.parse().ok()?;
        let invariant = fields.next()?.to_owned();
        Some(Self { detected_by, invariant, what: fields.next()?.to_owned(), millis })
    }
}

/// Runs one seed.
///
/// # Errors
/// It breaks an invariant.
pub(crate) fn seed(seed: u64) -> Result<(), Violation> {
    run(Plan::of_seed(seed), &mut Coverage::default())
}

/// Runs one seed of the polling source.
///
/// # Errors
/// It breaks an invariant.
pub(crate) fn polling_seed(seed: u64) -> Result<(), Violation> {
    polling::run::run(PollingPlan::of_seed(seed), &mut PollingCoverage::default())
}

/// Runs one seed of the life of rows.
///
/// # Errors
/// It breaks an invariant.
pub(crate) fn rows_seed(seed: u64) -> Result<(), Violation> {
    rows::run::run(seed, Trace::Off, &mut RowsCoverage::default())
}

/// Runs one seed of repairs.
///
/// # Errors
/// It breaks an invariant.
pub(crate) fn repairs_seed(seed: u64) -> Result<(), Violation> {
    repairs::run::run(seed, Trace::Off, &mut RepairsCoverage::default())
}

/// Where to hunt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hunted {
    Stream,
    Polling,
    Rows,
    Repairs,
}

/// Prints the first violation in one line, the fields separated by tabs; nothing if there is none
/// in so many seeds.
pub(crate) fn until_caught(budget: u64, hunted: Hunted) {
    // A panic of the mutated core is one of the ways to be caught; its message would add nothing.
    std::panic::set_hook(Box::new(|_| {}));
    #[expect(clippy::disallowed_methods, reason = "this measures; the simulated clock is another")]
    let started = Instant::now();
    let caught = match hunted {
        Hunted::Stream => {
            let probed = resources::probe().err().map(|violation| (DetectedBy::Probe, violation));
            probed.or_else(|| {
                (0..budget).find_map(|number| Some((DetectedBy::Seed(number), seed(number).err()?)))
            })
        }
        Hunted::Polling => (0..budget).find_map(|number| {
            Some((DetectedBy::PollingSeed(number), polling_seed(number).err()?))
        }),
        Hunted::Rows => (0..budget)
            .find_map(|number| Some((DetectedBy::RowsSeed(number), rows_seed(number).err()?))),
        Hunted::Repairs => (0..budget).find_map(|number| {
            Some((DetectedBy::RepairsSeed(number), repairs_seed(number).err()?))
        }),
    };
    if let Some((detected_by, Violation { invariant, what })) = caught {
        let what = what.replace(['\n', '\t'], " ");
        println!("{detected_by}\t{}\t{invariant}\t{what}", started.elapsed().as_millis());
    }
}
