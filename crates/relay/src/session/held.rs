//! What a session does with a row that cannot be delivered, or whose key has events in the table of
//! held events. [`crate::held`] says why this is right.

use pgoutput::{Frame, Lsn, Message, XLogData};

use super::{
    Session, SessionPhase, held_row::HeldRow, letters::LetterRecord, wait_reason::WaitReason,
};
use crate::{
    clock::Now,
    failpoint::{self, Failpoint},
    failure::{Case, Code, Failure, Name},
    held::{EventId, HeldEvent, HoldKeys, KnownAs, Letter, holding::Holding, messages},
    ports::{RecordSink, Refusal, RefusalReason},
    protocol::FrameOutcome,
    routing::topics::{Readiness, Topics},
};

/// What a row meets, beside the session.
pub(crate) struct Surroundings<'a, S> {
    pub(crate) now: Now,
    pub(crate) topics: &'a mut Topics,
    pub(crate) held: &'a mut Holding,
    pub(crate) sink: &'a mut S,
}

impl Session {
    /// Takes a frame while something is held or refused; `None` for a frame that goes the usual
    /// way.
    ///
    /// # Errors
    /// The frame is out of order (P007), or the row failed with a code that ends the session.
    pub(crate) fn frame_beside_held<S: RecordSink>(
        &mut self,
        payload: &[u8],
        mut around: Surroundings<'_, S>,
    ) -> Result<Option<FrameOutcome>, Failure> {
        if self.phase == SessionPhase::Finishing || self.covered.is_some() {
            return Ok(None);
        }
        let (data, insert) = match parsed(payload)? {
            Parsed::Message(data, Message::Insert(insert)) => (data, insert),
            Parsed::Message(_, message) => {
                match message {
                    Message::Begin(begin) => {
                        around.held.keys.forget_before(begin.final_lsn);
                        around.held.refusals.begun(&begin);
                    }
                    Message::Commit(commit) => around.held.keys.forget_before(commit.end_lsn),
                    Message::Insert(_)
                    | Message::Origin(_)
                    | Message::Relation(_)
                    | Message::Type(_)
                    | Message::Update(_)
                    | Message::Delete(_)
                    | Message::Truncate(_)
                    | Message::Logical(_)
                    | Message::StreamAbort(_) => {}
                }
                return Ok(None);
            }
            Parsed::Keepalive(wal_end) => {
                if !self.ledger.is_open() {
                    around.held.keys.forget_before(wal_end);
                }
                return Ok(None);
            }
        };
        let row = HeldRow::Whole(insert, data.data);
        let Some(outcome) = self.take_beside_held(row, &mut around)? else {
            // What is held is in no producer, so only this way leads to a refusal.
            self.event_id().into_iter().for_each(|id| around.held.refusals.offered(id));
            return Ok(None);
        };
        self.feedback.received_frame(around.now.at);
        self.sent_at = data.sent_at;
        if outcome == FrameOutcome::Taken {
            self.received = self.received.max(data.wal_start);
            self.inserts += 1;
        }
        Ok(Some(outcome))
    }

    /// Goes on after a frame that was not taken: a row that is waited at because of a failure that
    /// makes it a dead letter becomes one.
    ///
    /// # Errors
    /// As for [`Session::frame_beside_held`].
    pub(crate) fn frame_not_taken<S: RecordSink>(
        &mut self,
        payload: &[u8],
        mut around: Surroundings<'_, S>,
    ) -> Result<FrameOutcome, Failure> {
        let Parsed::Message(data, Message::Insert(insert)) = parsed(payload)? else {
            return Ok(FrameOutcome::NotTaken);
        };
        let outcome = self.not_taken(HeldRow::Whole(insert, data.data), &mut around)?;
        if outcome == FrameOutcome::Taken {
            self.received = self.received.max(data.wal_start);
            self.inserts += 1;
        }
        Ok(outcome)
    }

    /// Takes a row of which only the beginning was kept, and which the usual way would wait at.
    ///
    /// # Errors
    /// As for [`Session::frame_beside_held`].
    pub(super) fn take_cut_row<S: RecordSink>(
        &mut self,
        failure: Failure,
        row: HeldRow<'_>,
        mut around: Surroundings<'_, S>,
    ) -> Result<FrameOutcome, Failure> {
        let outcome = match self.take_beside_held(row, &mut around)? {
            Some(outcome) => outcome,
            None => {
                let failure = if around.held.takes(failure.code) && !self.is_holdable(row, &around)
                {
                    failure.with_case(Case::RowTooLargeForKey)
                } else {
                    failure
                };
                let _waits: FrameOutcome = self.wait_at_row(failure, None, around.now.at);
                self.not_taken(row, &mut around)?
            }
        };
        if outcome == FrameOutcome::Taken {
            self.inserts += 1;
        }
        Ok(outcome)
    }

    /// Handles a row that was not taken: where the session waits at the row because of a failure
    /// that makes it a dead letter, it becomes one.
    ///
    /// # Errors
    /// No transaction is open (P007), or the topic of dead letters is one too many (R011).
    fn not_taken<S: RecordSink>(
        &mut self,
        row: HeldRow<'_>,
        around: &mut Surroundings<'_, S>,
    ) -> Result<FrameOutcome, Failure> {
        let waits = matches!(self.wait_reason, Some(WaitReason::Row { .. }));
        if waits && self.is_delivered(around.held) {
            self.wait_reason = None;
            self.ledger.count_without_record()?;
            return Ok(FrameOutcome::Taken);
        }
        let is_holdable = self.is_holdable(row, around);
        let is_letter = |wait: &mut WaitReason| match wait {
            WaitReason::Row { failure, .. } => is_holdable && around.held.takes(failure.code),
            WaitReason::Topic(_)
            | WaitReason::QueueFull { .. }
            | WaitReason::SinkClosed
            | WaitReason::Isolate
            | WaitReason::Draining => false,
        };
        let Some(WaitReason::Row { failure, .. }) = self.wait_reason.take_if(is_letter) else {
            self.note_waiting_row(row, around);
            return Ok(FrameOutcome::NotTaken);
        };
        self.dead_letter(failure, row, around)
    }

    /// Whether it is known which later events would be held behind a row.
    fn is_holdable<S>(&mut self, row: HeldRow<'_>, around: &Surroundings<'_, S>) -> bool {
        around.held.settings.hold_keys == HoldKeys::No
            || self.rows.has_key(row.relation(), row.columns(), row.arrived())
    }

    /// A person may decide to skip the row at which the session waits, and names its table.
    fn note_waiting_row<S>(&mut self, row: HeldRow<'_>, around: &mut Surroundings<'_, S>) {
        let id = self.event_id();
        if let (Some(WaitReason::Row { failure, .. }), Some(id)) = (&mut self.wait_reason, id) {
            let (table, event_id) = self.rows.name(row.relation(), row.columns());
            failure.names.set(Name::Table, table.clone());
            around.held.skipping.waits_at(id, (table, event_id), around.now.at);
        }
    }

    /// What becomes of a row while something is held or refused; `None` for a row that goes the
    /// usual way.
    fn take_beside_held<S: RecordSink>(
        &mut self,
        row: HeldRow<'_>,
        around: &mut Surroundings<'_, S>,
    ) -> Result<Option<FrameOutcome>, Failure> {
        // Without a transaction, the usual way reports the disorder.
        let Some(id) = self.event_id() else { return Ok(None) };
        around.held.keys.forget_before_event(id);
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
        if around.held.skipping.takes(id) {
            let (table, event_id) = self.rows.name(row.relation(), row.columns());
            around.held.note_skip(id, table, event_id);
            self.ledger.count_without_record()?;
            self.retried_failure = None;
            return Ok(Some(FrameOutcome::Taken));
        }
        if let Some(failure) = around.held.refusals.culprit(id).cloned() {
            return self.dead_letter(failure, row, around).map(Some);
        }
        if self.must_wait(id, around) {
            return Ok(Some(self.wait_until_room(around.now.at)));
        }
        let holds = self
            .rows
            .key(row.relation(), row.columns(), row.arrived())
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
    fn is_delivered(&self, held: &Holding) -> bool {
        let known = self.event_id().and_then(|id| held.keys.known(id));
        known == Some(KnownAs::Delivered)
    }

    /// An event that cannot be delivered: it becomes a dead letter, unless its key is held. Then it
    /// is held like every other event of the key, and is looked at when its turn comes.
    ///
    /// # Errors
    /// The topic of dead letters is one too many (R011).
    pub(super) fn dead_letter<S: RecordSink>(
        &mut self,
        failure: Failure,
        row: HeldRow<'_>,
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
        row: HeldRow<'_>,
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
        row: HeldRow<'_>,
        around: &mut Surroundings<'_, S>,
    ) -> Result<FrameOutcome, Failure> {
        let Some(event) = self.held_event(letter, row, around.held) else {
            return Err(super::Disorder::RowOutsideTransaction.into());
        };
        if let Some(failure) = around.held.full(&event.hash, event.bytes()) {
            let outcome = self.wait_at_row(failure, None, around.now.at);
            self.note_waiting_row(row, around);
            return Ok(outcome);
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
        row: HeldRow<'_>,
        around: &mut Surroundings<'_, S>,
    ) -> Result<Option<FrameOutcome>, Failure> {
        let Some(name) = around.held.settings.topic.clone() else { return Ok(None) };
        let topic = around.topics.intern(name)?;
        let Readiness::Ready(facts) = around.topics.readiness(topic) else {
            return Ok(Some(self.wait(WaitReason::Topic(topic))));
        };
        let original = self.rows.original(row.relation(), row.columns(), row.arrived());
        let record = LetterRecord::new(event, original, facts, around.now.wall);
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
        row: HeldRow<'_>,
        held: &Holding,
    ) -> Option<HeldEvent> {
        let id = self.event_id()?;
        let (relation, columns) = (row.relation(), row.columns());
        let key = self.rows.key(relation, columns, row.arrived()).map(<[u8]>::to_vec);
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

/// What a frame is.
enum Parsed<'a> {
    Message(XLogData<'a>, Message<'a>),
    /// With its position.
    Keepalive(Lsn),
}

/// Parses a frame. It has one body for both callers, and takes any message, so that `Insert::parse`
/// stays inlined into the way of the stream.
#[cold]
#[inline(never)]
fn parsed(payload: &[u8]) -> Result<Parsed<'_>, Failure> {
    Ok(match Frame::parse(payload)? {
        Frame::XLogData(data) => Parsed::Message(data, Message::parse(data.data)?),
        Frame::Keepalive(keepalive) => Parsed::Keepalive(keepalive.wal_end),
    })
}
