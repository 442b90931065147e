//! `mutants`: plants each seeded bug in turn and runs seeds until an invariant names it. One that
//! survives its budget fails the run: then the simulation does not look where that bug is.
#![allow(clippy::print_stdout, reason = "what a program prints is its result")]

use std::{
    fmt::Write as _,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use relay::bug::{self, Bug};
use simulation::{
    coverage::{self, Coverage},
    invariant::{Invariant, Violation},
    plan::Plan,
    resources,
    run::run,
};

/// Shows that every seeded bug is caught.
#[derive(Debug, Parser)]
#[command(name = "mutants", version)]
struct Arguments {
    /// Seeds that each bug has before it counts as a survivor.
    #[arg(long, default_value_t = 30_000)]
    budget: u64,
    /// One bug alone, by its name.
    #[arg(long)]
    only: Option<String>,
    /// Also write the table, as Markdown, between the markers of this file.
    #[arg(long)]
    table: Option<std::path::PathBuf>,
}

/// How a bug was caught.
struct Catch {
    violation: Violation,
    seeds: u64,
    took: Duration,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    coverage::watch_failpoints();
    // A panic under a planted bug is one of the ways to be caught; its message would say nothing
    // new.
    std::panic::set_hook(Box::new(|_| {}));
    let wanted = |bug: &&Bug| arguments.only.as_deref().is_none_or(|only| only == bug.as_str());
    let bugs: Vec<Bug> = Bug::ALL.iter().filter(wanted).copied().collect();
    let mut caught = 0;
    let mut table = String::from(
        "| Bug | What is wrong | Caught by | Seeds | Time |\n|---|---|---|---:|---:|\n",
    );
    for bug in &bugs {
        let row = match hunt(*bug, arguments.budget) {
            Ok(Catch { violation, seeds, took })
                if expected(*bug).contains(&violation.invariant) =>
            {
                caught += 1;
                println!("{:<24} {violation} (seed {}, {took:.1?})", bug.as_str(), seeds - 1);
                format!("{} | {seeds} | {} ms", violation.invariant, took.as_millis())
            }
            Ok(Catch { violation, .. }) => {
                println!("{:<24} CAUGHT FOR ANOTHER REASON: {violation}", bug.as_str());
                format!("{}, unexpectedly | | ", violation.invariant)
            }
            Err(()) => {
                println!("{:<24} SURVIVED {} seeds", bug.as_str(), arguments.budget);
                "**nothing** | | ".to_owned()
            }
        };
        let _infallible = writeln!(table, "| `{}` |{} | {row} |", bug.as_str(), bug.about());
    }
    bug::plant(None);
    if let Some(path) = &arguments.table
        && let Err(error) = simulation::document::rewrite(path, "mutants", &table)
    {
        println!("{}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    println!("caught {caught} of {}", bugs.len());
    if caught == bugs.len() && !bugs.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn hunt(bug: Bug, budget: u64) -> Result<Catch, ()> {
    #[expect(clippy::disallowed_methods, reason = "this measures; the simulated clock is another")]
    let started = Instant::now();
    let caught = |violation, seeds| Catch { violation, seeds, took: started.elapsed() };
    bug::plant(Some(bug));
    if let Err(violation) = resources::probe() {
        return Ok(caught(violation, 1));
    }
    let mut unseen = Coverage::default();
    for seed in 0..budget {
        bug::plant(Some(bug));
        if let Err(violation) = run(Plan::of_seed(seed), &mut unseen) {
            let caught = caught(violation, seed + 1);
            bug::plant(None);
            // What fails without the bug as well says nothing about it.
            return run(Plan::of_seed(seed), &mut unseen).map(|()| caught).map_err(|_| ());
        }
    }
    Err(())
}

/// The invariants that a bug breaks: caught by another, it was caught by accident.
fn expected(bug: Bug) -> &'static [Invariant] {
    use Invariant::{
        I1Complete, I2NeverAhead, I3Order, I4Duplicates, I6Fidelity, I7SingleWriter, I8Slot,
        I9Resources, I10Liveness, I11Loudness,
    };
    match bug {
        Bug::ConfirmOnEnqueue
        | Bug::ConfirmMaximum
        | Bug::ConfirmOneShort
        | Bug::KeepaliveWhilePending => &[I2NeverAhead],
        // What was told too early is followed by less.
        Bug::KeepaliveWhileOpen => &[I2NeverAhead, I8Slot, I10Liveness],
        Bug::CreditStaleAck => &[I2NeverAhead, I10Liveness],
        Bug::ConfirmPlusOne => &[I1Complete, I2NeverAhead, I3Order, I8Slot],
        Bug::ConfirmCommitLsn | Bug::NoWindow => &[I4Duplicates],
        Bug::KeepaliveBelowSlot | Bug::SilentWhileFull | Bug::NeverLetGo => &[I8Slot],
        Bug::ReplyAtOnce | Bug::NoBackoff => &[I8Slot],
        Bug::SkipEqualOnResume | Bug::DropTwinRow => &[I1Complete, I2NeverAhead, I3Order],
        // A row that is put aside before a pause of the stream stays aside.
        Bug::PassOnFull => &[I3Order, I4Duplicates, I10Liveness],
        Bug::RepinAtOnce | Bug::ProduceUnvouched | Bug::RankByPosition => &[I3Order],
        Bug::NeverRepin | Bug::SignedHash => &[I3Order],
        // A session that should have ended goes on with deadlines that it has passed.
        Bug::GoOnAfterFailure => &[I1Complete, I2NeverAhead, I3Order, I8Slot, I10Liveness],
        Bug::KeepFailedSink | Bug::ForgetWithdrawal => &[I10Liveness],
        Bug::TrustSilence => &[I10Liveness],
        Bug::LookUpOnce => &[I8Slot, I10Liveness],
        Bug::IgnoreWarning => &[I1Complete, I2NeverAhead, I3Order],
        Bug::RecreateSlot | Bug::TrustMovedSlot | Bug::TrustNewPublication => {
            &[I1Complete, I2NeverAhead, I3Order, I11Loudness, I10Liveness]
        }
        Bug::ConfirmBeforeWitness | Bug::WitnessAheadOfAcks => &[I2NeverAhead],
        Bug::TrustFirstLook => &[I1Complete, I2NeverAhead, I3Order, I8Slot, I11Loudness],
        Bug::NeverLook => &[I3Order, I10Liveness, I11Loudness],
        Bug::SkipOnFaith | Bug::ConfirmOnFaith => &[I1Complete, I2NeverAhead, I3Order, I11Loudness],
        // What a late write says is older: events come again, the slot seems to stand too far, an
        // acceptance is undone.
        Bug::OneWitnessKey => {
            &[I1Complete, I2NeverAhead, I3Order, I4Duplicates, I10Liveness, I11Loudness]
        }
        // A gap that is not written down is forgotten; or nobody can accept it.
        Bug::ForgetGap | Bug::GoOnAfterGap => {
            &[I1Complete, I2NeverAhead, I3Order, I10Liveness, I11Loudness]
        }
        Bug::TrustOtherHistory => &[I11Loudness],
        Bug::IgnoreStandstill => &[I7SingleWriter],
        // The row does not count in the window; its event does.
        Bug::SkipHeldRow | Bug::BindByNameOnly => {
            &[I1Complete, I2NeverAhead, I3Order, I4Duplicates]
        }
        // A column that is not where it was may hold nothing that can be read.
        Bug::IgnoreNewShape => &[I6Fidelity, I10Liveness, I11Loudness],
        Bug::Leak => &[I9Resources],
    }
}
