//! `crash-test`: kills the router, and compares the slot with the topics and the table of held
//! events before the router is started again.
//!
//! What the slot confirmed is never sent again, so it must be in Kafka at that moment, or in the
//! table, if it cannot be delivered or is held behind such an event. No process moves anything
//! then, so the check is exact and needs no tolerance. The witness is between the two: never
//! behind the slot and never ahead of what is in Kafka or held, and an event that it covers is
//! never sent again. Kills hit random instants and, in a router built for it, each failpoint. At
//! the end everything committed must have arrived, in order. A failpoint that is never reached
//! makes the run invalid.

mod args;
mod costs;
mod failpoints;
mod held_table;
mod hold;
mod observer;
mod plan;
mod provoke;
mod result;
mod round;
mod state_topic;
mod system;
mod tally;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::args::Args;
use crate::costs::Costs;
use crate::result::RunOutcome;
use crate::state_topic::SLOT;
use crate::system::{TestSystem, WINDOW_EVENTS};
use crate::tally::Tally;

/// The exit code that a shell reports for a program that was ended by Ctrl-C (128 + SIGINT).
const INTERRUPTED: u8 = 130;
/// Rounds between two checkpoints. From a checkpoint on, the server decodes for a new slot, and
/// only there older servers save the positions of slots.
const CHECKPOINT_EVERY: usize = 5;
/// Rounds between two lines of progress.
const LINE_EVERY: usize = 20;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "how an invalid run ends")]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(rand::random);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // However this ends, dropping the system ends every process.
    tokio::select! {
        outcome = run(&args, seed) => Ok(match outcome {
            Ok(RunOutcome::Passed) => ExitCode::SUCCESS,
            Ok(RunOutcome::Failed) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("INVALID: {error:#}\nrepeat this plan with --seed {seed}");
                ExitCode::FAILURE
            }
        }),
        _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
        _ = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

#[expect(clippy::print_stdout, reason = "what the tool is run for")]
async fn run(args: &Args, seed: u64) -> anyhow::Result<RunOutcome> {
    let rounds = plan::plan(args, seed);
    println!("{} rounds on PostgreSQL {}, seed {seed}", rounds.len(), args.postgres_version);
    let mut system = TestSystem::build(args.postgres_version, seed).await?;
    failpoints::check_names(&mut system.router).await?;
    let mut tally = Tally::new(WINDOW_EVENTS, system.postgres.confirmed(SLOT).await?);
    let mut costs = Costs::default();
    let started = Instant::now();
    for (index, plan) in (1..).zip(&rounds) {
        if index % CHECKPOINT_EVERY == 0 {
            system.session.batch_execute("CHECKPOINT").await?;
        }
        let wrong = tally.violations().len();
        let checked = round::run_round(&mut system, &mut tally, *plan).await;
        for text in tally.violations().iter().skip(wrong) {
            println!("round {index}, {plan}: {text}");
        }
        let result = checked.with_context(|| {
            format!("round {index}, {plan}, after {}", tally.violation_counts())
        })?;
        costs.repeated(result.duplicates);
        if round::ends_with_kill(*plan) {
            costs.killed(*plan, result.repeatable);
        }
        if index % LINE_EVERY == 0 {
            println!(
                "round {index}, {:.0} s: {} events, {}",
                started.elapsed().as_secs_f64(),
                tally.committed(),
                tally.violation_counts()
            );
        }
    }
    let result = result::finish(system, &mut tally, &mut costs).await?;
    println!("{}", costs.table());
    println!(
        "{:.2} s for each round",
        started.elapsed().as_secs_f64() / f64::from(u32::try_from(rounds.len())?.max(1))
    );
    println!("{result}");
    Ok(result.outcome())
}
