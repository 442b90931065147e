//! `simulate`: runs seeds until one breaks an invariant, or until it has run them all.
#![allow(clippy::print_stdout, reason = "what a program prints is its result")]

use std::{
    fmt::Display,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use simulation::{
    coverage::{self, Coverage},
    invariant::Violation,
    plan::{Plan, Trace},
    polling::{self, PollingCoverage, plan::PollingPlan},
    repairs::{self, RepairsCoverage},
    rows::{self, RowsCoverage},
    run::{run, shrink},
};

/// Runs the core between a simulated PostgreSQL and a simulated Kafka.
#[derive(Debug, Parser)]
#[command(name = "simulate", version)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
struct Arguments {
    /// Number of seeds.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Begin at a seed made from the clock, so that each run has other seeds.
    #[arg(long, conflicts_with = "start")]
    fresh: bool,
    /// Stop after this many seconds instead of a number of seeds; later, if the run has not yet
    /// reached everything that it must reach.
    #[arg(long)]
    seconds: Option<u64>,
    /// Run only this seed, and print its plan.
    #[arg(long, conflicts_with_all = ["seeds", "start", "seconds"])]
    seed: Option<u64>,
    /// Only the polling source. Without this, one seed of it is run for every four of the stream.
    #[arg(long)]
    polling: bool,
    /// Only the life of rows. Without this, one seed of it is run for each of the stream.
    #[arg(long, conflicts_with_all = ["polling", "faults"])]
    rows: bool,
    /// Only repairs: what closes gaps, and what a switch marks. Without this, one seed of them is
    /// run for each of the stream.
    #[arg(long, conflicts_with_all = ["polling", "rows", "faults"])]
    repairs: bool,
    /// With --seed: inject only these of its faults, by number.
    #[arg(long, value_delimiter = ',', requires = "seed")]
    faults: Option<Vec<usize>>,
    /// With --seed: print every event, on standard error.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Do not fail when a fault, state, error or failpoint was never reached.
    #[arg(long)]
    any_coverage: bool,
}

/// With fewer seeds than this, rare events may not have happened.
const SEEDS_FOR_COVERAGE: u64 = 10_000;
/// How many times longer than asked a run may take while something was not reached: whether a rare
/// event happens within so many seeds is chance, and a slow machine runs fewer of them.
const TIME_FACTOR_MAX: u32 = 6;

/// For so many seeds of the stream, one of the polling source is run.
const STREAM_SEEDS: u64 = 4;
/// After so many violations a run ends.
const VIOLATIONS_MAX: usize = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    coverage::watch_failpoints();
    match arguments.seed {
        Some(seed) => {
            let trace = if arguments.trace { Trace::On } else { Trace::Off };
            if arguments.rows {
                replay_rows(seed, trace)
            } else if arguments.repairs {
                replay_repairs(seed, trace)
            } else if arguments.polling {
                replay_polling(seed, arguments.faults.as_deref(), trace)
            } else {
                replay(seed, arguments.faults.as_deref(), trace)
            }
        }
        None => sweep(&arguments),
    }
}

fn replay(seed: u64, faults: Option<&[usize]>, trace: Trace) -> ExitCode {
    let mut plan = Plan { trace, ..Plan::of_seed(seed) };
    if let Some(faults) = faults {
        plan = plan.with_only(faults);
    }
    describe(&plan);
    let mut coverage = Coverage::default();
    let result = run(plan, &mut coverage);
    print!("{}", coverage.report());
    match result {
        Ok(()) => {
            println!("seed {seed} · violations 0");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{violation}\nseed {seed} · violations 1");
            ExitCode::FAILURE
        }
    }
}

fn replay_polling(seed: u64, faults: Option<&[usize]>, trace: Trace) -> ExitCode {
    let mut plan = PollingPlan { trace, ..PollingPlan::of_seed(seed) };
    if let Some(faults) = faults {
        plan = plan.with_only(faults);
    }
    println!("{plan:#?}");
    let mut coverage = PollingCoverage::default();
    let result = polling::run::run(plan, &mut coverage);
    print!("{}", coverage.report());
    match result {
        Ok(()) => {
            println!("polling seed {seed} · violations 0");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{violation}\npolling seed {seed} · violations 1");
            ExitCode::FAILURE
        }
    }
}

fn replay_rows(seed: u64, trace: Trace) -> ExitCode {
    let mut coverage = RowsCoverage::default();
    let result = rows::run::run(seed, trace, &mut coverage);
    print!("{}", coverage.report());
    replayed("rows", seed, result)
}

fn replay_repairs(seed: u64, trace: Trace) -> ExitCode {
    let mut coverage = RepairsCoverage::default();
    let result = repairs::run::run(seed, trace, &mut coverage);
    print!("{}", coverage.report());
    replayed("repairs", seed, result)
}

fn replayed(of: &str, seed: u64, result: Result<(), Violation>) -> ExitCode {
    match result {
        Ok(()) => {
            println!("{of} seed {seed} · violations 0");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{violation}\n{of} seed {seed} · violations 1");
            ExitCode::FAILURE
        }
    }
}

/// Runs a seed of the life of rows.
fn run_rows(seed: u64, coverage: &mut RowsCoverage) -> Result<(), Replay> {
    rows::run::run(seed, Trace::Off, coverage).map_err(|violation| {
        println!("rows seed {seed}: {violation}");
        Replay::new(format!("--rows --seed {seed} --trace"))
    })
}

/// Runs a seed of repairs.
fn run_repairs(seed: u64, coverage: &mut RepairsCoverage) -> Result<(), Replay> {
    repairs::run::run(seed, Trace::Off, coverage).map_err(|violation| {
        println!("repairs seed {seed}: {violation}");
        Replay::new(format!("--repairs --seed {seed} --trace"))
    })
}

fn describe(plan: &Plan) {
    let Plan { seed, steps, version, routers, state_topic, window, .. } = plan;
    let Plan { person, queue, partitions, dead_letters, faults, .. } = plan;
    println!(
        "seed {seed}: {steps} steps, PostgreSQL {version:?}, {routers} routers, state topic {state_topic:?}, person {person:?}, window {window}, queue {queue}, {partitions} partitions"
    );
    if let Some(letters) = dead_letters {
        println!("  {letters:?}");
    }
    for (number, planned) in faults.iter().enumerate() {
        println!("  fault {number} at step {}: {}", planned.at, planned.fault.as_str());
    }
}

/// What is run: one of them alone, or all.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is run or not")]
struct With {
    stream: bool,
    polling: bool,
    rows: bool,
    repairs: bool,
}

impl With {
    fn of(arguments: &Arguments) -> Self {
        let Arguments { polling, rows, repairs, .. } = *arguments;
        let is_all = !(polling || rows || repairs);
        let [polling, rows, repairs] = [polling, rows, repairs].map(|it| is_all || it);
        Self { stream: is_all, polling, rows, repairs }
    }
}

/// The command that runs a seed again which violates an invariant.
struct Replay(String);

impl Replay {
    /// Prints it below the violation.
    fn new(arguments: String) -> Self {
        println!("  replay: scripts/simulate.sh {arguments}");
        Self(arguments)
    }
}

/// What the runs have reached.
#[derive(Debug, Default)]
struct Reached {
    stream: Coverage,
    polling: PollingCoverage,
    rows: RowsCoverage,
    repairs: RepairsCoverage,
}

impl Reached {
    fn missing(&self, with: With) -> Vec<String> {
        let of = |is_run: bool, missing: Vec<String>| if is_run { missing } else { Vec::new() };
        [
            of(with.stream, self.stream.missing()),
            of(with.polling, self.polling.missing()),
            of(with.rows, self.rows.missing()),
            of(with.repairs, self.repairs.missing()),
        ]
        .concat()
    }

    fn report(&self, with: With) -> String {
        let of = |is_run: bool, report: String| if is_run { report } else { String::new() };
        [
            of(with.stream, self.stream.report()),
            of(with.polling, self.polling.report()),
            of(with.rows, self.rows.report()),
            of(with.repairs, self.repairs.report()),
        ]
        .concat()
    }

    /// Runs a seed of each. `seeds` were run before. Returns what violates an invariant.
    fn run(&mut self, seed: u64, seeds: u64, with: With) -> Vec<Replay> {
        let mut results = Vec::new();
        if with.polling && (!with.stream || seeds.is_multiple_of(STREAM_SEEDS)) {
            results.push(run_polling(seed, &mut self.polling));
        }
        if with.rows {
            results.push(run_rows(seed, &mut self.rows));
        }
        if with.repairs {
            results.push(run_repairs(seed, &mut self.repairs));
        }
        if with.stream {
            results.push(run_stream(seed, &mut self.stream));
        }
        results.into_iter().filter_map(Result::err).collect()
    }
}

fn sweep(arguments: &Arguments) -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "this measures; the simulated clock is another")]
    let started = Instant::now();
    let limit = arguments.seconds.map(Duration::from_secs);
    let first = if arguments.fresh { fresh() } else { arguments.start };
    let with = With::of(arguments);
    let mut reached = Reached::default();
    let mut violations = Vec::new();
    let mut seeds = 0_u64;
    println!("first seed {first}");
    let goes_on = |seeds, reached: &Reached| {
        let Some(limit) = limit else { return seeds < arguments.seeds };
        let has_shown = || {
            arguments.any_coverage
                || (seeds >= SEEDS_FOR_COVERAGE && reached.missing(with).is_empty())
        };
        let elapsed = started.elapsed();
        elapsed < limit || (elapsed < limit * TIME_FACTOR_MAX && !has_shown())
    };
    while goes_on(seeds, &reached) && violations.len() < VIOLATIONS_MAX {
        violations.extend(reached.run(first.wrapping_add(seeds), seeds, with));
        seeds += 1;
    }
    if seeds < SEEDS_FOR_COVERAGE && limit.is_some() && !arguments.any_coverage {
        println!("too few seeds were run to check the coverage: {SEEDS_FOR_COVERAGE} are needed");
        return ExitCode::FAILURE;
    }
    let missed = if seeds >= SEEDS_FOR_COVERAGE && !arguments.any_coverage && violations.is_empty()
    {
        reached.missing(with)
    } else {
        Vec::new()
    };
    print!("{}", reached.report(with));
    if !missed.is_empty() {
        println!("never reached: {}", missed.join(", "));
    }
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    print!("seeds {seeds} · violations {} · seeds/s {}", violations.len(), seeds * 1000 / millis);
    // A log that is cut keeps its last line.
    for Replay(arguments) in &violations {
        print!(" · simulate.sh {arguments}");
    }
    println!();
    if violations.is_empty() && missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a seed of the polling source.
fn run_polling(seed: u64, coverage: &mut PollingCoverage) -> Result<(), Replay> {
    let plan = PollingPlan::of_seed(seed);
    polling::run::run(plan.clone(), coverage).map_err(|violation| {
        println!("polling seed {seed}: {violation}");
        let needed = polling::run::shrink(&plan);
        let planned = plan.faults.iter().map(|planned| (planned.at, planned.fault.as_str()));
        let faults = needed_faults(&needed, planned);
        Replay::new(format!("--polling --seed {seed}{faults}"))
    })
}

/// Runs a seed of the stream.
fn run_stream(seed: u64, coverage: &mut Coverage) -> Result<(), Replay> {
    let plan = Plan::of_seed(seed);
    run(plan.clone(), coverage).map_err(|violation| {
        println!("seed {seed}: {violation}");
        let needed = shrink(&plan);
        let planned = plan.faults.iter().map(|planned| (planned.at, planned.fault.as_str()));
        let faults = needed_faults(&needed, planned);
        Replay::new(format!("--seed {seed}{faults}"))
    })
}

/// Prints the faults that a violation needs, of those that are planned, each with its step. Returns
/// the argument that names them.
fn needed_faults<At: Display>(
    needed: &[usize],
    planned: impl Iterator<Item = (At, &'static str)>,
) -> String {
    for (number, (at, fault)) in planned.enumerate().filter(|(number, _)| needed.contains(number)) {
        println!("  needs fault {number} at step {at}: {fault}");
    }
    if needed.is_empty() {
        return String::new();
    }
    let numbers: Vec<String> = needed.iter().map(ToString::to_string).collect();
    format!(" --faults {}", numbers.join(","))
}

/// A seed that differs from run to run, from the clock; every run prints its seed.
fn fresh() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() << 20)
}
