//! Both sides of a comparison, a copy of the slot and the topics, and how events are given to it.

use std::time::Duration;

use relay::{DryFrame, Failure, Lsn, Record, Transaction};

use super::topics::ReadTopics;
use crate::{
    compare::{Comparison, Expected, IdHeaders},
    owned_record::OwnedRecord,
    shell::DryStream,
};

/// What is compared, and how long is waited.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    /// Events of earlier transactions are not compared, in microseconds since 1970.
    pub(super) since_micros: Option<i64>,
    pub(super) last: LastEvent,
    pub(super) wait: Duration,
    pub(super) lookback: Duration,
    pub(super) id_headers: IdHeaders,
}

/// Which event is the last that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastEvent {
    /// The last one before this position.
    Before(Lsn),
    /// The one with this number.
    Number(u64),
}

/// See the module's header.
pub(super) struct Sides {
    pub(super) stream: DryStream,
    pub(super) topics: ReadTopics,
    pub(super) comparison: Comparison,
}

/// How far the reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Events are compared.
    Comparing,
    /// All events were read; records are waited for.
    Settling,
}

/// Frames and records that are taken before the other side has its turn.
pub(super) const TURN: usize = 1_000;

impl Sides {
    /// Whether every event of the scope was read.
    pub(super) fn has_read(&self, scope: &Scope) -> bool {
        match scope.last {
            LastEvent::Before(wal_end) => self.has_reached(wal_end),
            LastEvent::Number(count) => self.comparison.report().events >= count,
        }
    }

    /// Whether everything before this end of WAL was read.
    pub(super) fn has_reached(&self, wal_end: Lsn) -> bool {
        self.stream.passed() >= wal_end || self.stream.is_at_end()
    }

    /// Takes the frames that have arrived, for one turn. Returns how many.
    ///
    /// # Errors
    /// The server ended the stream, or no broker answers.
    pub(super) fn frames(&mut self, scope: &Scope, phase: Phase) -> Result<usize, Failure> {
        let mut taken = 0;
        while taken < TURN && !self.comparison.is_full() {
            let transaction = self.stream.transaction();
            let is_compared = phase == Phase::Comparing
                && !self.has_read(scope)
                && !transaction.is_some_and(|open| is_earlier(open, scope));
            let mut produced = None;
            let take = |record: &Record<'_>| {
                produced = transaction.map(|open| (OwnedRecord::of(record), open));
            };
            let Some(seen) = self.stream.next(take)? else { break };
            match seen {
                DryFrame::LookUpTopic(id, name) => {
                    let facts = self.topics.facts(&name)?;
                    self.stream.topic(id, facts);
                    continue;
                }
                DryFrame::Event => match produced {
                    Some((record, open)) if is_compared => self.event(record, open, scope)?,
                    Some((record, _)) => {
                        if let Some(id) = scope.id_headers.id_of(&record.headers) {
                            self.comparison.skip(id);
                        }
                    }
                    None => {}
                },
                DryFrame::Refused(failure, id) if is_compared => {
                    self.comparison.refuse(&failure, id.as_deref());
                }
                DryFrame::Refused(_, Some(id)) => self.comparison.skip(&id),
                DryFrame::Refused(_, None)
                | DryFrame::FilteredOut
                | DryFrame::Passed(_)
                | DryFrame::Other => {}
            }
            taken += 1;
        }
        Ok(taken)
    }

    /// Gives an event to the comparison, and begins to read its topic.
    fn event(
        &mut self,
        record: OwnedRecord,
        transaction: Transaction,
        scope: &Scope,
    ) -> Result<(), Failure> {
        let Some(name) = self.stream.topic_name(record.topic) else { return Ok(()) };
        let lookback = i64::try_from(scope.lookback.as_millis()).unwrap_or(i64::MAX);
        let committed_ms = transaction.committed_at.unix_millis();
        let earliest = match record.timestamp_ms {
            Record::NOW => committed_ms,
            millis => committed_ms.min(millis),
        };
        let from = earliest.saturating_sub(lookback).max(0);
        let number = self.topics.number(name, from, &mut self.comparison)?;
        let partition = record.partition;
        match Expected::of(record, number, committed_ms, &scope.id_headers) {
            Some(expected) => self.comparison.expect(expected),
            None => {
                let at = format!("{name}-{partition}, committed at {}", transaction.commit_lsn);
                self.comparison.expect_without_id(at);
            }
        }
        Ok(())
    }
}

/// Whether the transaction was committed before `--since`.
fn is_earlier(transaction: Transaction, scope: &Scope) -> bool {
    let millis = transaction.committed_at.unix_millis();
    scope.since_micros.is_some_and(|since| millis * 1_000 < since)
}
