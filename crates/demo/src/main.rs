//! `demo`: shows in half a minute what the product promises.
//!
//! It starts a throw-away PostgreSQL, a broker, the real `outbox-router`, and writers that do to an
//! outbox what applications do. Then the broker is stopped and started again, and the router is
//! killed. The last line compares what was committed, according to the database, with what is in
//! Kafka, according to a consumer that was there from the start. The exit code is 0 only when
//! nothing is lost and nothing out of order. Everything that was started is ended, after Ctrl-C,
//! too, unless `--keep` is given.

mod args;
mod count;
mod kafka;
mod live;
mod screen;
mod steps;
mod system;

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;
use crate::count::DemoOutcome;
use crate::screen::Screen;
use crate::system::CreatedTopics;

/// The exit code that a shell reports for a program that was ended by Ctrl-C (128 + SIGINT).
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let mut screen = Screen::of_this_process();
    match run(&args, &mut screen).await {
        Ok(Some(DemoOutcome::Passed)) => ExitCode::SUCCESS,
        Ok(Some(DemoOutcome::Failed)) => ExitCode::FAILURE,
        Ok(None) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            // The failure may be that of standard output, so an error here is ignored.
            screen.failure(&format!("{error:#}")).unwrap_or_default();
            ExitCode::FAILURE
        }
    }
}

/// Runs the demo; `None` when it was interrupted before the count.
async fn run(args: &Args, screen: &mut Screen) -> anyhow::Result<Option<DemoOutcome>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let interrupted = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let (mut created_topics, mut outcome) = (CreatedTopics::default(), None);
    // The steps own every process: however this ends, dropping them ends the processes.
    let end = tokio::select! {
        end = steps::run(args, screen, &mut created_topics, &mut outcome) => end.map(|()| End::Finished),
        () = interrupted => Ok(End::Interrupted),
    };
    let deleted = created_topics.delete().await;
    // An error of the steps is reported before an error of the clean-up.
    let end = end?;
    deleted?;
    if end == End::Interrupted {
        screen.note("interrupted: everything that was started is stopped and removed")?;
    }
    Ok(outcome)
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Finished,
    Interrupted,
}
