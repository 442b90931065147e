//! Reads a copy of the slot and the topics side by side until everything is compared.

use std::{ops::ControlFlow, time::Duration};

use relay::Lsn;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::{
    server,
    sides::{Phase, Scope, Sides, TURN},
};
use crate::{cli::TaskError, compare::Comparison};

/// How the reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completion {
    /// Everything was compared.
    Complete,
    /// Too many events wait for records that do not come.
    Stuck,
    /// By Ctrl-C.
    Interrupted,
}

/// How long both sides are waited for when neither has anything.
const PAUSE: Duration = Duration::from_millis(20);
/// How often records without an event are decided.
const DECIDE_EVERY: Duration = Duration::from_millis(500);

/// What is remembered from turn to turn.
struct Progress {
    phase: Phase,
    /// The end of WAL when the waiting records were noted.
    decide_at: Option<Lsn>,
    noted_at: Instant,
    /// How many events, and records of events, had come when one last came.
    steps: u64,
    stepped_at: Instant,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Self { phase: Phase::Comparing, decide_at: None, noted_at: now, steps: 0, stepped_at: now }
    }

    fn update(&mut self, comparison: &Comparison) {
        let steps = comparison.report().found + comparison.report().events;
        if steps != self.steps {
            (self.steps, self.stepped_at) = (steps, Instant::now());
        }
    }
}

impl Sides {
    /// Reads until the end of the scope; `show` is called several times a second.
    ///
    /// # Errors
    /// The server ends the stream or refuses a query, no broker answers, or the output cannot be
    /// written.
    pub(super) async fn follow(
        &mut self,
        scope: &Scope,
        client: &Client,
        mut show: impl FnMut(&Self) -> std::io::Result<()>,
    ) -> Result<Completion, TaskError> {
        let mut progress = Progress::new();
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            let frames = self.frames(scope, progress.phase)?;
            self.comparison.take_all();
            let records = self.topics.poll(Duration::ZERO, TURN, &mut self.comparison)?;
            if self.comparison.is_full() {
                self.comparison.decide_by_order();
            }
            self.topics.resume(&self.comparison)?;
            progress.update(&self.comparison);
            self.decide(&mut progress, client).await?;
            if self.has_read(scope) {
                progress.phase = Phase::Settling;
            }
            let has_waited = progress.stepped_at.elapsed() > scope.wait;
            if self.comparison.is_full() && has_waited {
                return Ok(Completion::Stuck);
            }
            if progress.phase == Phase::Settling
                && (self.comparison.load().events == 0 || has_waited)
            {
                return self.settle(scope, client, &mut interrupt).await;
            }
            show(self)?;
            let limit = if frames == 0 && records == 0 { PAUSE } else { Duration::ZERO };
            if self.fill(limit, &mut interrupt).await?.is_break() {
                return Ok(Completion::Interrupted);
            }
        }
    }

    /// Decides the records that were noted, once the WAL was read far enough, and notes those that
    /// wait then.
    async fn decide(&mut self, progress: &mut Progress, client: &Client) -> Result<(), TaskError> {
        if progress.decide_at.is_some_and(|wal_end| self.has_reached(wal_end)) {
            self.comparison.decide_noted();
            progress.decide_at = None;
        }
        if progress.decide_at.is_none()
            && self.comparison.load().records > 0
            && progress.noted_at.elapsed() > DECIDE_EVERY
        {
            self.comparison.note_waiting();
            progress.decide_at = Some(server::wal_end(client).await?);
            self.stream.restart_wait();
            progress.noted_at = Instant::now();
        }
        Ok(())
    }

    /// Takes what is in the topics by now, and reads the WAL up to now, so that it is known what
    /// belongs to later events.
    async fn settle(
        &mut self,
        scope: &Scope,
        client: &Client,
        interrupt: &mut (impl Future + Unpin),
    ) -> Result<Completion, TaskError> {
        let ends = self.topics.ends()?;
        let started = Instant::now();
        while !self.topics.have_reached(&ends) && started.elapsed() < scope.wait {
            self.topics.poll(PAUSE, TURN, &mut self.comparison)?;
            self.topics.resume(&self.comparison)?;
            self.frames(scope, Phase::Settling)?;
            if self.fill(Duration::ZERO, interrupt).await?.is_break() {
                return Ok(Completion::Interrupted);
            }
        }
        let wal_end = server::wal_end(client).await?;
        self.stream.restart_wait();
        while !self.has_reached(wal_end) && !self.comparison.is_full() {
            self.frames(scope, Phase::Settling)?;
            if self.fill(PAUSE, interrupt).await?.is_break() {
                return Ok(Completion::Interrupted);
            }
        }
        Ok(Completion::Complete)
    }

    /// Waits up to `limit` for the next bytes of the stream. Breaks at Ctrl-C, whose default is
    /// replaced from the first wait on.
    async fn fill(
        &mut self,
        limit: Duration,
        interrupt: &mut (impl Future + Unpin),
    ) -> Result<ControlFlow<()>, TaskError> {
        tokio::select! {
            biased;
            _ = interrupt => Ok(ControlFlow::Break(())),
            filled = self.stream.fill(limit) => {
                filled?;
                Ok(ControlFlow::Continue(()))
            }
        }
    }
}
