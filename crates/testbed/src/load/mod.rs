//! Load: writers that do everything to an outbox table that applications do.
//!
//! Each event has a number within its aggregate, taken under a row lock that is kept until the
//! commit, so the numbers rise in commit order. The unpublished table of *committed* events
//! gets one row per event in the same transaction, so it shows what was committed, whatever happens
//! to a connection.
//! The writers themselves keep the ids that were rolled back, which must never appear anywhere.

mod bulk;
mod journal;
mod mix;
mod poisoned;
mod random_choices;
mod schema;
mod transaction;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use bulk::{Backlog, backlog, big_transaction};
pub use journal::Journal;
pub use mix::{Mix, TransactionKind};
pub use poisoned::{POISONED, poisoned_transaction};
pub use schema::{COMMITTED, Columns, Partitioning, Preset, Schema};

/// How payloads are sized: uniformly between two limits, in bytes of padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadBytes {
    /// Smallest.
    pub min: usize,
    /// Largest.
    pub max: usize,
}

/// The parameters of a load.
#[derive(Debug, Clone)]
pub struct Load {
    /// Concurrent writers, each with a connection.
    pub writers: usize,
    /// What their transactions do.
    pub mix: Mix,
    /// The longest pause between two statements of a transaction of several statements.
    pub think: Duration,
    /// Sizes of payloads.
    pub payload: PayloadBytes,
    /// Ends the load when at least this many events are committed; `None` runs until stopped.
    pub events: Option<u64>,
    /// At most so many events a second, of all writers together; `None` is as many as possible.
    pub events_per_second: Option<u32>,
    /// Seed of the random choices: the same seed gives the same transactions, with new ids.
    pub seed: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            writers: 4,
            mix: Mix::default(),
            think: Duration::from_millis(2),
            payload: PayloadBytes { min: 1, max: 600 },
            events: None,
            events_per_second: None,
            seed: 1,
        }
    }
}

impl Load {
    /// Starts the writers against the tables of `schema` in the database at `url`.
    pub fn start(self, url: &str, schema: &Schema) -> RunningLoad {
        let (stop, stopped) = watch::channel(());
        let committed = Arc::new(AtomicU64::default());
        let mut writers = JoinSet::new();
        for index in 0..self.writers {
            let writer = writer::Writer::new(
                index,
                url.to_owned(),
                schema.clone(),
                self.clone(),
                Arc::clone(&committed),
            );
            writers.spawn(writer.run(stopped.clone()));
        }
        RunningLoad { stop, committed, writers }
    }
}

/// A load in progress. Dropping it stops the writers at once.
#[derive(Debug)]
pub struct RunningLoad {
    stop: watch::Sender<()>,
    committed: Arc<AtomicU64>,
    writers: JoinSet<anyhow::Result<Journal>>,
}

impl RunningLoad {
    /// Events whose commit was acknowledged to the writers so far.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Waits until the wanted number of events is committed.
    ///
    /// # Errors
    ///
    /// Fails when a writer cannot go on.
    pub async fn finished(self) -> anyhow::Result<Journal> {
        // Kept until the end: dropping it would stop the writers.
        let Self { stop, mut writers, .. } = self;
        let journal = collect(&mut writers).await;
        drop(stop);
        journal
    }

    /// Lets every writer finish its transaction, and ends the load. The server must be up.
    ///
    /// # Errors
    ///
    /// Fails when a writer cannot finish.
    pub async fn stop(self) -> anyhow::Result<Journal> {
        let Self { stop, mut writers, .. } = self;
        drop(stop);
        collect(&mut writers).await
    }
}

async fn collect(writers: &mut JoinSet<anyhow::Result<Journal>>) -> anyhow::Result<Journal> {
    let mut all = Journal::default();
    while let Some(journal) = writers.join_next().await {
        all.merge(journal.context("a writer panicked")??);
    }
    Ok(all)
}
