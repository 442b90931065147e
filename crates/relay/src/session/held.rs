//! What a session does with a row that cannot be delivered, or whose key has events in the table of
//! held events. [`crate::held`] says why this is right.

use pgoutput::{Insert, InsertPrefix, Oid, TupleColumns};

use super::{Session, letters::LetterRecord, wait_reason::WaitReason};
use crate::{
    clock::Now,
    failpoint::{self, Failpoint},
    failure::{Code, Failure},
    held::{EventId, HeldEvent, KnownAs, Letter, holding::Holding, messages},
    ports::{RecordSink, Refusal, RefusalReason},
    protocol::FrameOutcome,
    routing::topics::{Readiness, Topics},
};

/// A row of the stream that may have to be held.
#[derive(Clone, Copy)]
pub(super) enum HeldRow<'a> {
    /// With its Insert message.
    Whole(&'a Insert<'a>, &'a [u8]),
    /// A row that is larger than `limits.row_bytes`, of which only the beginning was kept.
    Cut(&'a InsertPrefix<'a>),
}

/// What a row meets, beside the session.
pub(crate) struct Surroundings<'a, S> {
    pub(crate) now: Now,
    pub(crate) topics: &'a mut Topics,
    pub(crate) held: &'a mut Holding,
    pub(crate) sink: &'a mut S,
}

impl<'a> HeldRow<'a> {
    #[inline]
    pub(super) fn whole(insert: &'a Insert<'a>, message: &'a [u8]) -> Self {
        Self::Whole(insert, message)
    }

    pub(super) fn relation(self) -> Oid {
        match self {
            Self::Whole(insert, _) => insert.relation,
            Self::Cut(prefix) => prefix.relation,
        }
    }

    pub(super) fn columns(self) -> TupleColumns<'a> {
        match self {
            Self::Whole(insert, _) => insert.tuple.iter(),
            Self::Cut(prefix) => prefix.columns(),
        }
    }
}

impl Session {
    /// Takes a row while something is held or refused. Returns `None` for a row that goes the usual
    /// way.
    ///
    /// # Errors
    /// The topic of dead letters is one too many (R011).
    #[cold]
    #[inline(never)]
    pub(super) fn insert_beside_held<S: RecordSink>(
        &mut self,
        row: &HeldRow<'_>,
        around: &mut Surroundings<'_, S>,
    ) -> Result<Option<FrameOutcome>, Failure> {
        // Without a transaction, the usual way reports the disorder.
        let Some(id) = self.event_id() else { return Ok(None) };
        match around.held.keys.known(id) {
            None => {}
            Some(KnownAs::Delivered) => return self.delivered_again(id, around),
            Some(KnownAs::Settled) => {
                self.ledger.count_without_record()?;
                return Ok(Some(FrameOutcome::Taken));
            }
            Some(KnownAs::OpenLetter(code)) => {
                return self.letter_again(code, row, around).map(Some);
            }
        }
        if let Some(failure) = around.held.refusals.culprit(id).cloned() {
            return self.dead_letter(failure, row, around).map(Some);
        }
        if self.must_wait(id, around) {
            return Ok(Some(self.wait_until_room(around.now.at)));
        }
        let holds = self
            .rows
            .key(row.relation(), row.columns())
            .is_some_and(|key| around.held.holds(key, id));
        if holds { self.hold(None, row, around).map(Some) } else { Ok(None) }
    }

    /// An event that comes again was delivered out of the table. Events of its key that come again
    /// before it are produced again, so it follows them again. If it cannot be delivered now, it is
    /// left out: it was delivered.
    fn delivered_again<S: RecordSink>(
        &mut self,
        id: EventId,
        around: &mut Surroundings<'_, S>,
    ) -> Result<Option<FrameOutcome>, Failure> {
        if around.held.refusals.culprit(id).is_some() {
            self.ledger.count_without_record()?;
            return Ok(Some(FrameOutcome::Taken));
        }
        Ok(self.must_wait(id, around).then(|| self.wait_until_room(around.now.at)))
    }

    /// Whether a record must wait, because something is searched that a broker refuses.
    fn must_wait<S: RecordSink>(&self, id: EventId, around: &Surroundings<'_, S>) -> bool {
        let in_flight = self.ledger.unacked() + around.held.release.in_flight();
        around.held.refusals.must_wait(id, in_flight) || around.held.release.is_alone()
    }

    /// Whether the next row is known to be delivered.
    pub(super) fn is_delivered(&self, held: &Holding) -> bool {
        let known = self.event_id().and_then(|id| held.keys.known(id));
        known == Some(KnownAs::Delivered)
    }

    /// A row was produced while something is held or refused.
    #[cold]
    pub(super) fn produced_beside_held(&self, held: &mut Holding) {
        if let Some(id) = self.event_id() {
            held.refusals.produced(id);
        }
    }

    /// An event that cannot be delivered: it becomes a dead letter, unless its key is held. Then it
    /// is held like every other event of the key, and is looked at when its turn comes.
    ///
    /// # Errors
    /// The topic of dead letters is one too many (R011).
    pub(super) fn dead_letter<S: RecordSink>(
        &mut self,
        failure: Failure,
        row: &HeldRow<'_>,
        around: &mut Surroundings<'_, S>,
    ) -> Result<FrameOutcome, Failure> {
        let letter = Letter { code: failure.code, message: failure.message_with_causes() };
        self.hold(Some(letter), row, around)
    }

    /// An open dead letter that the server sends again. Its row is in the table, but the record for
    /// people may not have been acknowledged.
    fn letter_again<S: RecordSink>(
        &mut self,
        code: Code,
        row: &HeldRow<'_>,
        around: &mut Surroundings<'_, S>,
    ) -> Result<FrameOutcome, Failure> {
        let letter = Letter { code, message: String::new() };
        if let Some(event) = self.held_event(Some(letter), row, around.held)
            && let Some(outcome) = self.write_letter(&event, row, around)?
        {
            return Ok(outcome);
        }
        self.ledger.count_without_record()?;
        Ok(FrameOutcome::Taken)
    }

    /// Puts an event into the table: it has a ticket from now on, which the table's commit redeems.
    fn hold<S: RecordSink>(
        &mut self,
        letter: Option<Letter>,
        row: &HeldRow<'_>,
        around: &mut Surroundings<'_, S>,
    ) -> Result<FrameOutcome, Failure> {
        let Some(event) = self.held_event(letter, row, around.held) else {
            return Err(super::Disorder::RowOutsideTransaction.into());
        };
        if let Some(failure) = around.held.full(&event.hash, event.bytes()) {
            return Ok(self.wait_at_row(failure, None, around.now.at));
        }
        if event.letter.is_some()
            && let Some(outcome) = self.write_letter(&event, row, around)?
        {
            return Ok(outcome);
        }
        let ticket = self.ledger.issue(event.bytes())?;
        failpoint::reached(Failpoint::BeforeHold);
        around.held.hold(event, ticket);
        self.retried_failure = None;
        Ok(FrameOutcome::Taken)
    }

    /// Produces the record that shows a dead letter to people, if there is a topic for them.
    /// Returns what the row waits for, if it must wait.
    fn write_letter<S: RecordSink>(
        &mut self,
        event: &HeldEvent,
        row: &HeldRow<'_>,
        around: &mut Surroundings<'_, S>,
    ) -> Result<Option<FrameOutcome>, Failure> {
        let Some(name) = around.held.settings.topic.clone() else { return Ok(None) };
        let topic = around.topics.intern(name)?;
        let Readiness::Ready(facts) = around.topics.readiness(topic) else {
            return Ok(Some(self.wait(WaitReason::Topic(topic))));
        };
        let original = match row {
            HeldRow::Whole(insert, _) => {
                self.rows.original(insert, self.committed_at, around.topics)
            }
            HeldRow::Cut(_) => None,
        };
        let record = LetterRecord::new(event, original, facts);
        let record = record.as_record(topic, facts);
        let ticket = self.ledger.issue(record.held_bytes())?;
        if let Err(Refusal { ticket, reason }) = around.sink.produce(&record, ticket) {
            self.ledger.withdraw(ticket);
            return Ok(Some(match reason {
                RefusalReason::Full | RefusalReason::PartitionWaits => {
                    self.wait_until_room(around.now.at)
                }
                RefusalReason::Closed => self.wait(WaitReason::SinkClosed),
            }));
        }
        around.topics.produced(topic);
        Ok(None)
    }

    fn held_event(
        &mut self,
        letter: Option<Letter>,
        row: &HeldRow<'_>,
        held: &Holding,
    ) -> Option<HeldEvent> {
        let id = self.event_id()?;
        let (relation, columns) = (row.relation(), row.columns());
        let key = self.rows.key(relation, columns).map(<[u8]>::to_vec);
        let mut description = self.rows.description(relation).to_vec();
        if let HeldRow::Whole(_, message) = row {
            messages::push(&mut description, message);
        }
        let (table, event_id) = self.rows.name(relation, columns);
        Some(HeldEvent {
            id,
            committed_at: self.committed_at,
            hash: held.hash(id, key.as_deref()),
            key,
            event_id,
            table,
            messages: description,
            letter,
        })
    }

    /// What the next Insert message of the open transaction is known by.
    fn event_id(&self) -> Option<EventId> {
        let commit_lsn = self.ledger.open_commit_lsn()?;
        Some(EventId { commit_lsn, index: self.inserts })
    }
}
