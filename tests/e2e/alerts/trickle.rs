//! One event a minute for each pipeline: an outbox at night. What only shows while many events flow
//! shows nothing here.

use std::time::Duration;

use e2e::Fixture;
use testbed::load::{Load, Mix, RunningLoad, Schema, TransactionKind};
use testbed::postgres::{DATABASE, SUPERUSER};
use tokio::time::Instant;

const PAUSE: Duration = Duration::from_secs(60);

/// Who writes the events.
pub(super) struct Trickle {
    outboxes: Vec<(String, Schema)>,
    /// An event whose server does not answer is written when it does.
    running: Vec<RunningLoad>,
    due: Instant,
}

impl Trickle {
    /// Nothing is written yet.
    pub(super) fn new() -> Self {
        Self { outboxes: Vec::new(), running: Vec::new(), due: Instant::now() }
    }

    /// Writes into this outbox, too, from the next event on.
    pub(super) fn add(&mut self, fixture: &Fixture) {
        self.outboxes.push((fixture.postgres.url(SUPERUSER, DATABASE), fixture.schema.clone()));
    }

    /// Writes an event into each outbox, if a minute has passed since the last one.
    pub(super) fn tick(&mut self) {
        if Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + PAUSE;
        for (url, schema) in &self.outboxes {
            self.running.push(one().start(url, schema));
        }
    }

    /// Writes an event into one outbox now: a fault that is not noticed while there is nothing to
    /// do needs it.
    pub(super) fn write(&mut self, fixture: &Fixture) {
        self.running.push(fixture.load(one()));
    }
}

fn one() -> Load {
    let others = TransactionKind::ALL.into_iter().filter(|kind| *kind != TransactionKind::Single);
    let mix = others.fold(Mix::default(), Mix::without);
    Load { writers: 1, events: Some(1), mix, ..Load::default() }
}
