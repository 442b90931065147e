//! Reads a copy of the slot and the topics side by side, and gives both to the comparison.

use std::time::Duration;

use relay::{Code, DryFrame, Failure, Lsn, Record, TopicId};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::topics::Topics;
use crate::{
    cli::TaskError,
    compare::{Comparison, Expected},
    shell::DryStream,
};

/// What is compared, and how long is waited.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// Events of earlier transactions are not compared, in microseconds since 1970.
    pub(super) since_micros: Option<i64>,
    pub(super) until: Until,
    pub(super) wait: Duration,
    pub(super) lookback: Duration,
    pub(super) id_header: String,
}

/// Where the comparison ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// At this position.
    Position(Lsn),
    /// After so many events.
    Events(u64),
}

/// The two sides of a comparison.
pub(super) struct Sides {
    pub(super) stream: DryStream,
    pub(super) topics: Topics,
    pub(super) comparison: Comparison,
}

/// How the reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Everything was compared.
    Whole,
    /// Too many events wait for records that do not come.
    Stuck,
    /// By Ctrl-C.
    Interrupted,
}

/// How far the reading is.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Events are compared.
    Comparing,
    /// All events were read; records are waited for.
    Settling,
}

/// Frames and records that are taken before the other side has its turn.
const TURN: usize = 1_000;
/// How long both sides are waited for when neither has anything.
const PAUSE: Duration = Duration::from_millis(20);
/// How often records without an event are decided.
const DECIDE_EVERY: Duration = Duration::from_millis(500);

impl Sides {
    /// Reads until the end of the scope; `progress` is called several times a second.
    pub(super) async fn follow(
        &mut self,
        scope: &Scope,
        client: &Client,
        mut progress: impl FnMut(&Self) -> std::io::Result<()>,
    ) -> Result<Ended, TaskError> {
        let mut phase = Phase::Comparing;
        // Where WAL ended after records were marked.
        let mut marked: Option<Lsn> = None;
        let mut marked_at = Instant::now();
        let mut advanced = (Instant::now(), 0);
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            let frames = self.frames(scope, phase)?;
            self.comparison.take_all();
            let records = self.topics.poll(Duration::ZERO, TURN, &mut self.comparison)?;
            if self.comparison.is_full() {
                self.comparison.decide_overtaken();
            }
            self.topics.resume(&self.comparison)?;
            let steps = self.comparison.report().found + self.comparison.report().events;
            if steps != advanced.1 {
                advanced = (Instant::now(), steps);
            }
            if marked.is_some_and(|wal_end| self.has_reached(wal_end)) {
                self.comparison.decide_marked();
                marked = None;
            }
            if marked.is_none()
                && self.comparison.load().records > 0
                && marked_at.elapsed() > DECIDE_EVERY
            {
                self.comparison.mark();
                marked = Some(wal_end(client).await?);
                self.stream.expect_end();
                marked_at = Instant::now();
            }
            if self.has_read(scope) {
                phase = Phase::Settling;
            }
            let has_waited = advanced.0.elapsed() > scope.wait;
            if self.comparison.is_full() && has_waited {
                return Ok(Ended::Stuck);
            }
            if let Phase::Settling = phase
                && (self.comparison.load().events == 0 || has_waited)
            {
                return self.settle(scope, client).await;
            }
            progress(self)?;
            let idle = frames == 0 && records == 0;
            tokio::select! {
                biased;
                _ = &mut interrupt => return Ok(Ended::Interrupted),
                filled = self.stream.fill(if idle { PAUSE } else { Duration::ZERO }) => filled?,
            }
        }
    }

    /// Whether every event of the scope was read.
    fn has_read(&self, scope: &Scope) -> bool {
        match scope.until {
            Until::Position(wal_end) => self.has_reached(wal_end),
            Until::Events(count) => self.comparison.report().events >= count,
        }
    }

    /// Whether all WAL was read up to its end of a moment ago.
    fn has_reached(&self, wal_end: Lsn) -> bool {
        self.stream.passed() >= wal_end || self.stream.is_at_end()
    }

    /// Takes the frames that have arrived, for one turn. Returns how many.
    fn frames(&mut self, scope: &Scope, phase: Phase) -> Result<usize, Failure> {
        let mut taken = 0;
        while taken < TURN && !self.comparison.is_full() {
            let is_done = matches!(phase, Phase::Settling) || self.has_read(scope);
            let committed = self.stream.transaction().map(|open| open.committed_at);
            let millis = committed.map_or(0, |at| at.unix_millis());
            let mut shown = None;
            let take =
                |record: &Record<'_>| shown = Some(Shown::of(record, millis, &scope.id_header));
            let Some(seen) = self.stream.next(take)? else { break };
            match seen {
                DryFrame::LookUpTopic(id, name) => {
                    let facts = self.topics.facts(&name)?;
                    self.stream.topic(id, facts);
                    continue;
                }
                DryFrame::Event => match shown {
                    Some(shown) if is_done => self.comparison.skip(&shown.expected(scope)?.id),
                    Some(shown) => self.event(shown, scope)?,
                    None => {}
                },
                DryFrame::Refused(failure, id) if !is_done => {
                    self.comparison.refuse(&failure, id.as_deref());
                }
                DryFrame::Refused(..)
                | DryFrame::FilteredOut
                | DryFrame::Passed(_)
                | DryFrame::Other => {}
            }
            taken += 1;
        }
        Ok(taken)
    }

    /// Gives an event to the comparison; one from before `--since` as one that is not compared.
    fn event(&mut self, shown: Shown, scope: &Scope) -> Result<(), Failure> {
        let Shown { topic, committed_ms, timestamp_ms, .. } = shown;
        let mut expected = shown.expected(scope)?;
        if scope.since_micros.is_some_and(|since| committed_ms * 1_000 < since) {
            self.comparison.skip(&expected.id);
            return Ok(());
        }
        if let Some(name) = self.stream.topic_name(topic) {
            let lookback = i64::try_from(scope.lookback.as_millis()).unwrap_or(i64::MAX);
            let earliest = match timestamp_ms {
                Record::NOW => committed_ms,
                millis => committed_ms.min(millis),
            };
            let from = earliest.saturating_sub(lookback).max(0);
            let number = self.topics.number(name, from, &mut self.comparison)?;
            expected.partition.topic = number;
        }
        self.comparison.expect(expected);
        Ok(())
    }

    /// Takes what is in the topics by now, and reads the WAL up to now, so that it is known what
    /// belongs to later events.
    async fn settle(&mut self, scope: &Scope, client: &Client) -> Result<Ended, TaskError> {
        let ends = self.topics.ends()?;
        let started = Instant::now();
        while !self.topics.have_reached(&ends) && started.elapsed() < scope.wait {
            self.topics.poll(PAUSE, TURN, &mut self.comparison)?;
            self.comparison.mark();
            self.topics.resume(&self.comparison)?;
            self.frames(scope, Phase::Settling)?;
            self.stream.fill(Duration::ZERO).await?;
        }
        let wal_end = wal_end(client).await?;
        self.stream.expect_end();
        while !self.has_reached(wal_end) && !self.comparison.is_full() {
            self.frames(scope, Phase::Settling)?;
            self.stream.fill(PAUSE).await?;
        }
        Ok(Ended::Whole)
    }
}

/// A record of a dry run, copied, since it borrows from the frame.
struct Shown {
    topic: TopicId,
    committed_ms: i64,
    timestamp_ms: i64,
    expected: Option<Expected>,
}

impl Shown {
    fn of(record: &Record<'_>, committed_ms: i64, id_header: &str) -> Self {
        Self {
            topic: record.topic,
            committed_ms,
            timestamp_ms: record.timestamp_ms,
            expected: Expected::of(record, 0, committed_ms, id_header),
        }
    }

    fn expected(self, scope: &Scope) -> Result<Expected, Failure> {
        self.expected.ok_or_else(|| {
            let what = format!("a record has no header {}, or a null one", scope.id_header);
            Failure::new(Code::IdIsNull, what)
        })
    }
}

/// The server's WAL position: on a standby, that of what it has replayed.
pub(super) async fn wal_end(client: &Client) -> Result<Lsn, TaskError> {
    let position = "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() \
        else pg_current_wal_flush_lsn() end::text";
    let text: String = client.query_one(position, &[]).await?.try_get(0)?;
    Ok(text.parse().unwrap_or(Lsn::ZERO))
}

/// The server's clock, in microseconds since 1970.
pub(super) async fn server_micros(client: &Client) -> Result<i64, TaskError> {
    micros_of(client, "now").await
}

/// A time in any form that PostgreSQL reads, in microseconds since 1970.
pub(super) async fn micros_of(client: &Client, time: &str) -> Result<i64, TaskError> {
    let micros = "select (extract(epoch from $1::text::timestamptz) * 1000000)::int8";
    Ok(client.query_one(micros, &[&time]).await?.try_get(0)?)
}
