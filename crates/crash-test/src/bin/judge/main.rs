//! `judge`: plays random rounds against the real router from outside, and looks for rows that were
//! lost, removed before they were sent, or passed over.
//!
//! Each round has a scenario that its seed draws: which source delivers, what removes and marks
//! rows, how the table looks, what the writers do, and what is disturbed. The truth is kept by the
//! writers: each notes its events in a table, in the transactions that write them. What is in Kafka
//! and what is left in the tables is compared with that, during the round and after it. No code of
//! the product is used.

mod args;
mod faults;
mod figures;
mod interlude;
mod keep;
mod pipeline;
mod round;
mod scenario;
mod servers;
mod settle;
mod table;
mod topics;
mod truth;
mod verdict;
mod writers;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::args::Args;
use crate::figures::Figures;
use crate::scenario::{Play, Scenario};
use crate::servers::Servers;

/// The exit code that a shell reports for a program that was ended by Ctrl-C (128 + SIGINT).
const INTERRUPTED: u8 = 130;

#[tokio::main]
#[expect(clippy::print_stderr, reason = "how an invalid run ends")]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // However this ends, dropping the servers ends every process.
    tokio::select! {
        outcome = run(&args, seed) => Ok(match outcome {
            Ok(figures) if figures.is_clean() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("INVALID: {error:#}\nsee it again: {}", args.again(seed));
                ExitCode::FAILURE
            }
        }),
        _ = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
        _ = terminate.recv() => Ok(ExitCode::from(INTERRUPTED)),
    }
}

/// Plays rounds until the time is over, the last one to its end.
#[expect(clippy::print_stdout, reason = "what the tool is run for")]
async fn run(args: &Args, seed: u64) -> anyhow::Result<Figures> {
    println!(
        "judge on PostgreSQL {} for {} s, seed {seed}, logs of findings in {}",
        args.postgres_version,
        args.seconds,
        args.keep.display()
    );
    let mut servers = Servers::start(args.postgres_version).await?;
    let mut figures = Figures::on(args.postgres_version);
    let started = Instant::now();
    let mut plays = Plays::new(args, seed);
    for number in 1.. {
        let scenario = plays.next(number);
        let began = Instant::now();
        let outcome = round::play(&mut servers, &scenario, &args.keep)
            .await
            .with_context(|| format!("round {number}, {scenario}"))?;
        println!("{}", figures.line(&scenario, &outcome, began.elapsed()));
        figures.add(&scenario, &outcome);
        if started.elapsed() >= Duration::from_secs(args.seconds) {
            break;
        }
    }
    println!("{figures}");
    if !figures.is_clean() {
        println!("see it again: {}", args.again(seed));
    }
    Ok(figures)
}

/// The order of the rounds: every play comes once before one comes again.
struct Plays {
    /// Of the first round: so the draw of any round can be had alone.
    seed: u64,
    random: StdRng,
    all: Vec<Play>,
    left: Vec<Play>,
}

impl Plays {
    fn new(args: &Args, seed: u64) -> Self {
        Self { seed, random: StdRng::seed_from_u64(seed), all: args.plays(), left: Vec::new() }
    }

    fn next(&mut self, number: u32) -> Scenario {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
        }
        let play = self.left.swap_remove(self.random.random_range(0..self.left.len()));
        let seed = self.random.random();
        Scenario::draw(number, play, if number == 1 { self.seed } else { seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(line: &[&str], seed: u64, count: u32) -> Vec<String> {
        let mut plays = Plays::new(&Args::try_parse_from(line).unwrap(), seed);
        (1..=count).map(|number| plays.next(number).to_string()).collect()
    }

    #[test]
    fn a_seed_draws_the_same_rounds_again_and_another_seed_other_ones() {
        assert_eq!(drawn(&["judge"], 7, 30), drawn(&["judge"], 7, 30));
        assert_ne!(drawn(&["judge"], 7, 30), drawn(&["judge"], 8, 30));
    }

    #[test]
    fn every_play_comes_once_before_one_comes_again_and_a_named_one_comes_alone() {
        let mut plays = Plays::new(&Args::try_parse_from(["judge"]).unwrap(), 7);
        let count = u32::try_from(plays.all.len()).unwrap();
        let mut names: Vec<String> =
            (1..=count).map(|number| plays.next(number).play.to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), plays.all.len());
        let line = ["judge", "--scenario", "recover"];
        assert!(drawn(&line, 7, 5).iter().all(|round| round.starts_with("recover")));
    }
}
