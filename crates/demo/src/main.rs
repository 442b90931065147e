//! `demo`: what the product promises, seen happening in half a minute.
//!
//! A throw-away PostgreSQL, a broker, the real `outbox-router`, and writers that do to an outbox
//! what applications do; then the broker goes away and comes back, and the router is killed. The
//! last line counts what was committed, by the database, against what is in Kafka, by a consumer
//! that was there from the start; the exit code is 0 only when nothing is lost and nothing out of
//! order. Whatever was started is gone at the end, Ctrl-C included, unless `--keep` says otherwise.

mod args;
mod broker;
mod count;
mod live;
mod screen;
mod stage;
mod story;

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;
use crate::count::Outcome;
use crate::screen::Screen;
use crate::stage::Borrowed;

/// What a shell reports of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let mut screen = Screen::of_this_process();
    match run(&args, &mut screen).await {
        Ok(Some(Outcome::Kept)) => ExitCode::SUCCESS,
        Ok(Some(Outcome::Broken)) => ExitCode::FAILURE,
        Ok(None) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            // Standard output may be what failed.
            screen.failure(&format!("{error:#}")).unwrap_or_default();
            ExitCode::FAILURE
        }
    }
}

/// Tells the story; `None` when somebody interrupted it before the count.
async fn run(args: &Args, screen: &mut Screen) -> anyhow::Result<Option<Outcome>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let interrupted = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let (mut borrowed, mut outcome) = (Borrowed::default(), None);
    // The story owns every process; whichever way this ends, they are gone when it is dropped.
    let told = tokio::select! {
        told = story::tell(args, screen, &mut borrowed, &mut outcome) => told.map(|()| Told::ToTheEnd),
        () = interrupted => Ok(Told::Interrupted),
    };
    let given_back = borrowed.give_back().await;
    // Why the story ended comes before what is left of it.
    let told = told?;
    given_back?;
    if told == Told::Interrupted {
        screen.note("stopped: everything that was started is gone")?;
    }
    Ok(outcome)
}

#[derive(Debug, PartialEq, Eq)]
enum Told {
    ToTheEnd,
    Interrupted,
}
