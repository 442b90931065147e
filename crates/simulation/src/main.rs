//! `simulate`: runs seeds until one breaks an invariant, or until it has run them all.
#![allow(clippy::print_stdout, reason = "what a program prints is its result")]

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use simulation::{
    coverage::{self, Coverage},
    plan::{Plan, Trace},
    polling::{self, PollingCoverage, plan::PollingPlan},
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
const VIOLATIONS_MAX: u64 = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    coverage::watch_failpoints();
    match arguments.seed {
        Some(seed) => {
            let trace = if arguments.trace { Trace::On } else { Trace::Off };
            if arguments.polling {
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

fn sweep(arguments: &Arguments) -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "this measures; the simulated clock is another")]
    let started = Instant::now();
    let limit = arguments.seconds.map(Duration::from_secs);
    let first = if arguments.fresh { fresh() } else { arguments.start };
    let mut coverage = Coverage::default();
    let mut polled = PollingCoverage::default();
    let mut violations = 0_u64;
    let mut seeds = 0_u64;
    println!("first seed {first}");
    let missing = |coverage: &Coverage, polled: &PollingCoverage| {
        let mut missing = polled.missing();
        if !arguments.polling {
            missing.extend(coverage.missing());
        }
        missing
    };
    let goes_on = |seeds: u64, coverage: &Coverage, polled: &PollingCoverage| {
        let Some(limit) = limit else { return seeds < arguments.seeds };
        let has_shown = || {
            arguments.any_coverage
                || (seeds >= SEEDS_FOR_COVERAGE && missing(coverage, polled).is_empty())
        };
        let elapsed = started.elapsed();
        elapsed < limit || (elapsed < limit * TIME_FACTOR_MAX && !has_shown())
    };
    while goes_on(seeds, &coverage, &polled) && violations < VIOLATIONS_MAX {
        let seed = first.wrapping_add(seeds);
        if arguments.polling || seeds.is_multiple_of(STREAM_SEEDS) {
            violations += u64::from(!run_polling(seed, &mut polled));
        }
        seeds += 1;
        if arguments.polling {
            continue;
        }
        let plan = Plan::of_seed(seed);
        if let Err(violation) = run(plan.clone(), &mut coverage) {
            violations += 1;
            report(&plan, &violation);
        }
    }
    if seeds < SEEDS_FOR_COVERAGE && limit.is_some() && !arguments.any_coverage {
        println!("too few seeds were run to check the coverage: {SEEDS_FOR_COVERAGE} are needed");
        return ExitCode::FAILURE;
    }
    let missed = if seeds >= SEEDS_FOR_COVERAGE && !arguments.any_coverage && violations == 0 {
        missing(&coverage, &polled)
    } else {
        Vec::new()
    };
    if !arguments.polling {
        print!("{}", coverage.report());
    }
    print!("{}", polled.report());
    if !missed.is_empty() {
        println!("never reached: {}", missed.join(", "));
    }
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    println!("seeds {seeds} · violations {violations} · seeds/s {}", seeds * 1000 / millis);
    if violations == 0 && missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a seed of the polling source. Returns whether nothing was violated.
fn run_polling(seed: u64, coverage: &mut PollingCoverage) -> bool {
    let plan = PollingPlan::of_seed(seed);
    let Err(violation) = polling::run::run(plan.clone(), coverage) else { return true };
    println!("polling seed {seed}: {violation}");
    let kept = polling::run::shrink(&plan);
    for number in &kept {
        if let Some(planned) = plan.faults.get(*number) {
            println!("  needs fault {number} at step {}: {}", planned.at, planned.fault.as_str());
        }
    }
    let list: Vec<String> = kept.iter().map(ToString::to_string).collect();
    let faults =
        if list.is_empty() { String::new() } else { format!(" --faults {}", list.join(",")) };
    println!("  replay: scripts/simulate.sh --polling --seed {seed}{faults}");
    false
}

fn report(plan: &simulation::plan::Plan, violation: &simulation::invariant::Violation) {
    println!("seed {}: {violation}", plan.seed);
    let kept = shrink(plan);
    let list: Vec<String> = kept.iter().map(ToString::to_string).collect();
    for number in kept {
        if let Some(planned) = plan.faults.get(number) {
            println!("  needs fault {number} at step {}: {}", planned.at, planned.fault.as_str());
        }
    }
    let faults =
        if list.is_empty() { String::new() } else { format!(" --faults {}", list.join(",")) };
    println!("  replay: scripts/simulate.sh --seed {}{faults}", plan.seed);
}

/// A seed that differs from run to run, from the clock; every run prints its seed.
fn fresh() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() << 20)
}
