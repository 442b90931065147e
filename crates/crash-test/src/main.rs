//! `crash-test`: kills the router, and compares the slot with the topics before the router may
//! continue.
//!
//! What the slot confirmed is never sent again, so at that moment it must be in Kafka. As
//! everything stands still, this check is exact and allows nothing for time. The witness stands
//! between the two: never behind the slot and never ahead of what is in Kafka, and what it covers
//! never comes again. Kills hit random instants and, in a router built for it, each failpoint. At
//! the end everything committed must have arrived, in order. A failpoint that is never reached
//! makes the run invalid.

mod args;
mod costs;
mod hold;
mod observer;
mod plan;
mod points;
mod provoke;
mod round;
mod stage;
mod state;
mod tally;
mod verdict;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::args::Args;
use crate::costs::Costs;
use crate::stage::{Stage, WINDOW_EVENTS};
use crate::tally::Tally;
use crate::verdict::Outcome;

/// The exit code that a shell reports for a program that was ended by Ctrl-C (128 + SIGINT).
const INTERRUPTED: u8 = 130;
/// Rounds between two checkpoints. From a checkpoint on, the server decodes for a new slot, and
/// only there older servers save the positions of slots.
const CHECKPOINT_EVERY: usize = 5;
/// Rounds between two lines of progress.
const LINE_EVERY: usize = 20;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "how a run that proves nothing ends")]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(rand::random);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // However this ends, dropping the stage ends every process.
    tokio::select! {
        outcome = run(&args, seed) => Ok(match outcome {
            Ok(Outcome::Held) => ExitCode::SUCCESS,
            Ok(Outcome::Broken) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("INVALID: {error:#}\nplan again with --seed {seed}");
                ExitCode::FAILURE
            }
        }),
        _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
        _ = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

#[expect(clippy::print_stdout, reason = "what the tool is run for")]
async fn run(args: &Args, seed: u64) -> anyhow::Result<Outcome> {
    let rounds = plan::plan(args, seed);
    println!("{} rounds on PostgreSQL {}, seed {seed}", rounds.len(), args.postgres_version);
    let mut stage = Stage::build(args.postgres_version, seed).await?;
    points::are_those_of(&mut stage.router).await?;
    let mut tally = Tally::new(WINDOW_EVENTS, stage.slot().await?.1);
    let mut costs = Costs::default();
    let started = Instant::now();
    for (index, plan) in (1..).zip(&rounds) {
        if index % CHECKPOINT_EVERY == 0 {
            stage.session.batch_execute("CHECKPOINT").await?;
        }
        let wrong = tally.violations().len();
        let played = round::play(&mut stage, &mut tally, *plan).await;
        for text in tally.violations().iter().skip(wrong) {
            println!("round {index}, {plan}: {text}");
        }
        let finding =
            played.with_context(|| format!("round {index}, {plan}, after {}", tally.wrong()))?;
        costs.repeated(finding.duplicates);
        if round::kills(*plan) {
            costs.killed(*plan, finding.past_witness);
        }
        if index % LINE_EVERY == 0 {
            println!(
                "round {index}, {:.0} s: {} events, {}",
                started.elapsed().as_secs_f64(),
                tally.committed(),
                tally.wrong()
            );
        }
    }
    let verdict = verdict::reach(stage, &mut tally, &mut costs).await?;
    println!("{}", costs.table());
    println!(
        "{:.2} s for each round",
        started.elapsed().as_secs_f64() / f64::from(u32::try_from(rounds.len())?.max(1))
    );
    println!("{verdict}");
    Ok(verdict.outcome())
}
