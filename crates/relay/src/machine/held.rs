//! How events get into the table of held events and out of it: the requests to the table, what
//! follows from its answers, and the production of what is released. [`crate::held`] says why this
//! is right.

use super::{Phase, Relay};
use crate::{
    clock::{Moment, Now},
    failpoint::{self, Failpoint},
    failure::{Case, Code, Failure, Name},
    held::{
        Decision, HeldAnswer, HeldEvent, HeldMessages, Letter, Outcome,
        holding::{Answered, Follows},
        suspects::Narrowed,
    },
    ports::{AckRun, RecordSink, Refusal, RefusalReason},
    progress::{LastTransaction, TransactionRef},
    protocol::{Action, FrameOutcome},
    routing::{record::TopicId, topic::TopicName},
    session::{Row, Rows, Surroundings},
};

/// What became of the attempt to produce the event in front.
enum Produced {
    /// It is enqueued.
    Yes(TopicId),
    /// It cannot be produced now; the same event is offered again.
    NotNow,
    /// Its topic has to be looked up.
    LookUp(TopicId),
    /// It leaves without being produced.
    No(Outcome),
}

impl Relay {
    /// A request to the table was answered.
    pub(super) fn held_answered(
        &mut self,
        number: u64,
        answer: Result<HeldAnswer, Failure>,
        at: Moment,
    ) {
        if !self.held.take_answer(number) {
            return;
        }
        match &self.phase {
            Phase::Connecting(_) => self.held_loaded(answer, at),
            Phase::Streaming(_) => match answer {
                Ok(answer) => {
                    let answered = self.held.answered(answer, at);
                    self.held_changed(answered, at);
                }
                // The table serves the holder of the slot.
                Err(failure) if failure.code == Code::SlotInUse => self.leave(failure, at),
                Err(failure) => {
                    self.totals.count_error(failure.code);
                    self.held.failed(failure, at);
                }
            },
            Phase::Waiting { .. }
            | Phase::Standby { .. }
            | Phase::Leaving(_)
            | Phase::Halted(_)
            | Phase::Exited => {}
        }
    }

    fn held_changed(&mut self, answered: Answered, at: Moment) {
        match answered {
            Answered::Nothing => {}
            Answered::Skip { notes } => {
                // Positions behind the row rely on the decision.
                self.keeper.update(|witness| witness.notes = witness.notes.and(notes));
                if let Phase::Streaming(session) = &mut self.phase {
                    session.offer_again();
                }
            }
            Answered::Replaced => {
                let what = "outbox_router.held was made again or taken back while the router ran";
                self.disconnect(Failure::new(Code::HeldTable, what), at);
                // The next session reads the table, which needs nobody.
                if let Phase::Waiting { until } = &mut self.phase {
                    *until = at;
                }
            }
            Answered::Written(tickets) => {
                self.held_written();
                let Phase::Streaming(session) = &mut self.phase else { return };
                let mut broken = None;
                for ticket in tickets {
                    if let Err(disorder) = session.ledger.held(ticket) {
                        broken = Some(disorder);
                    }
                }
                session.room_made();
                failpoint::reached(Failpoint::Held);
                if let Some(disorder) = broken {
                    self.disconnect(disorder.into(), at);
                }
            }
            Answered::Closed(leaving) => {
                self.held_written();
                failpoint::reached(Failpoint::ReleaseClosed);
                self.held.totals.count(&leaving);
                if let Phase::Streaming(session) = &mut self.phase {
                    session.table_has_room();
                }
            }
        }
    }

    /// Takes a frame while something is held or refused; `None` for a frame that goes the usual
    /// way.
    #[cold]
    #[inline(never)]
    pub(super) fn frame_beside_held<S: RecordSink>(
        &mut self,
        payload: &[u8],
        now: Now,
        sink: &mut S,
    ) -> Option<FrameOutcome> {
        let Phase::Streaming(session) = &mut self.phase else { return None };
        let (topics, held) = (&mut self.topics, &mut self.held);
        let around = Surroundings { now, topics, held, sink };
        match session.frame_beside_held(payload, around) {
            Ok(Some(FrameOutcome::Taken)) => Some(FrameOutcome::Taken),
            Ok(Some(FrameOutcome::NotTaken)) => Some(self.frame_not_taken(now.at)),
            Ok(None) => None,
            Err(failure) => {
                self.disconnect(failure, now.at);
                Some(FrameOutcome::NotTaken)
            }
        }
    }

    /// A frame was not taken: its row may become a dead letter.
    #[cold]
    #[inline(never)]
    pub(super) fn frame_waits<S: RecordSink>(
        &mut self,
        payload: &[u8],
        now: Now,
        sink: &mut S,
    ) -> FrameOutcome {
        let Phase::Streaming(session) = &mut self.phase else { return FrameOutcome::NotTaken };
        let (topics, held) = (&mut self.topics, &mut self.held);
        let around = Surroundings { now, topics, held, sink };
        match session.frame_not_taken(payload, around) {
            Ok(FrameOutcome::Taken) => FrameOutcome::Taken,
            Ok(FrameOutcome::NotTaken) => self.frame_not_taken(now.at),
            Err(failure) => {
                self.disconnect(failure, now.at);
                FrameOutcome::NotTaken
            }
        }
    }

    /// Asks the table for what is due.
    pub(super) fn proceed_held(&mut self, now: Now) {
        self.held.review();
        let Phase::Streaming(session) = &self.phase else { return };
        if session.row_failure().is_none() {
            self.held.skipping.goes_on();
        }
        let follows = session.follows();
        if follows == Follows::No {
            self.held.release.stop();
        }
        if let Some((number, request)) = self.held.next_request(now.at, follows) {
            self.actions.push_back(Action::Held(number, request));
        }
    }

    /// Whether [`Relay::release`] has something to produce.
    pub fn has_release(&self) -> bool {
        self.held.release.front().is_some()
    }

    /// Produces events that a person has released, as far as the sink takes them.
    pub fn release<S: RecordSink>(&mut self, now: Now, sink: &mut S) {
        let Phase::Streaming(_) = &self.phase else { return };
        if self.must_release_wait() {
            return;
        }
        if let Some(topic) = self.held.release.looking_up() {
            self.look_up(topic, now.at);
            return;
        }
        while let Some((event, decision)) = self.held.release.front() {
            if self.held.release.is_blocked(event) {
                self.held.release.skip();
                continue;
            }
            let (event, decision) = (event.clone(), *decision);
            match self.produce_held(&event, decision, sink) {
                Produced::Yes(topic) => {
                    self.topics.produced(topic);
                    self.held.refusals.tried_again(event.id);
                    self.held.release.produced();
                }
                Produced::No(outcome) => {
                    if let Outcome::Refused(letter) = &outcome
                        && let Err(topic) = self.refuse_released(event, letter, now.wall, sink)
                    {
                        topic.into_iter().for_each(|topic| self.look_up(topic, now.at));
                        return;
                    }
                    self.held.release.leave(outcome);
                }
                Produced::LookUp(topic) => {
                    self.look_up(topic, now.at);
                    return;
                }
                Produced::NotNow => return,
            }
        }
    }

    /// Whether what is released must wait, so that a batch which the broker refuses holds either
    /// records of the one transaction that is searched, or one released record.
    fn must_release_wait(&self) -> bool {
        let Phase::Streaming(session) = &self.phase else { return true };
        let is_searching = self.held.refusals.is_searching() || self.held.release.is_alone();
        let of_stream = session.ledger.unacked().saturating_sub(self.held.queued());
        is_searching && of_stream > 0
    }

    fn produce_held<S: RecordSink>(
        &mut self,
        event: &HeldEvent,
        decision: Decision,
        sink: &mut S,
    ) -> Produced {
        if decision == Decision::Drop {
            return Produced::No(Outcome::Dropped);
        }
        if let Some(letter) = self.held.release.culprit(event.id) {
            return Produced::No(Outcome::Refused(letter.clone()));
        }
        let Phase::Streaming(session) = &mut self.phase else { return Produced::NotNow };
        let messages = HeldMessages::new(&event.messages);
        let insert = match messages.insert() {
            Ok(Some(insert)) => insert,
            Ok(None) => {
                let what = "only the beginning of the row was kept, since it is too large";
                return Produced::No(refused(&Failure::new(Code::RowTooLarge, what)));
            }
            Err(failure) => return Produced::No(refused(&failure)),
        };
        let rows = &mut session.held_rows;
        if let Err(failure) = describe(rows, &self.settings.outboxes, messages, insert.relation) {
            return Produced::No(refused(&failure));
        }
        let release = &mut self.held.release;
        let row = rows.route_held(&insert, event.committed_at, &mut self.topics, |record, size| {
            let ticket = release.issue(size.held_bytes());
            sink.releasing(event);
            sink.produce(record, ticket).map_err(|Refusal { reason, .. }| reason)?;
            Ok(record.topic)
        });
        match row {
            Row::Event(Ok(topic)) => Produced::Yes(topic),
            Row::Event(Err(
                RefusalReason::Full | RefusalReason::PartitionWaits | RefusalReason::Closed,
            )) => Produced::NotNow,
            Row::TopicPending(topic) => Produced::LookUp(topic),
            // A person decides what becomes of it: the configuration was another one.
            Row::FilteredOut => {
                let what = format!(
                    "`where` of {} leaves the row out now, and took it when it was written",
                    event.table
                );
                Produced::No(refused(&Failure::of(Case::FilteredSince, what)))
            }
            Row::NotOutbox => {
                let what = format!("{} is not configured any more", event.table);
                Produced::No(refused(&Failure::new(Code::TableUnconfigured, what)))
            }
            Row::Refused(row) => match row.topic {
                Some(topic) if self.held.release.must_look_up(topic) => Produced::LookUp(topic),
                Some(_) | None => Produced::No(refused(&row.failure)),
            },
        }
    }

    /// Kafka acknowledged records of held events.
    #[cold]
    pub(super) fn released(&mut self, run: &AckRun) {
        self.topics.acknowledged(run.topic, run.records);
        if self.held.release.is_of_batch(run.transaction) {
            self.held.release.acknowledged(run);
            if self.held.release.finished().is_some() {
                failpoint::reached(Failpoint::Released);
            }
        } else {
            self.left_in_flight = self.left_in_flight.saturating_sub(u64::from(run.records));
        }
    }

    /// Records that Kafka has not acknowledged, of the present session. What waits for the table
    /// has a ticket, and is in no producer; what is released is in no ledger.
    pub(super) fn unacked_by_kafka(&self) -> u64 {
        let unacked = self.phase.session().map_or(0, |session| session.ledger.unacked());
        unacked.saturating_sub(self.held.queued()) + self.held.release.in_flight()
    }

    /// The failure of a record, as one of the record that shows a dead letter if it was refused by
    /// their topic.
    pub(super) fn of_letter(&self, failure: Failure) -> Failure {
        let letters = self.held.settings.topic.as_ref().map(TopicName::as_str);
        if letters.is_none() || failure.names.get(Name::Topic) != letters {
            return failure;
        }
        if failure.code == Code::RecordTooLarge {
            failure.with_case(Case::LetterTooLarge)
        } else if failure.code == Code::RecordRefused {
            failure.with_case(Case::LetterRefused)
        } else {
            failure
        }
    }

    /// A broker refused a record: what follows if such records become dead letters. Returns whether
    /// the failure is dealt with by the next sessions, so that it needs nobody yet.
    pub(super) fn narrow(
        &mut self,
        transaction: Option<TransactionRef>,
        known: Option<LastTransaction>,
        failure: &Failure,
    ) -> Narrowed {
        // With compression only the broker knows that a record is too large. What shows a dead
        // letter says nothing about the events in flight, and its event is a dead letter already.
        let is_of_record = matches!(failure.code, Code::RecordTooLarge | Code::RecordRefused);
        let is_of_letter = matches!(failure.case, Some(Case::LetterTooLarge | Case::LetterRefused));
        if !is_of_record || is_of_letter {
            return Narrowed::No;
        }
        match (transaction, known) {
            (Some(of), _) if of.is_release() => {
                let message = failure.message_with_causes();
                self.held.release.refused(of, Letter { code: failure.code, message });
                Narrowed::Further
            }
            (_, Some(known)) if self.held.takes(failure.code) => self.held.refused(known, failure),
            _ => Narrowed::No,
        }
    }
}

/// Notes the messages that describe an event's relation, unless the event before it had the same.
pub(super) fn describe(
    rows: &mut Rows,
    outboxes: &crate::Outboxes,
    messages: HeldMessages<'_>,
    relation: pgoutput::Oid,
) -> Result<(), Failure> {
    if rows.description(relation) == messages.description_bytes() {
        return Ok(());
    }
    for message in messages.description() {
        match message? {
            (bytes, pgoutput::Message::Type(named)) => rows.name_type(&named, bytes),
            (bytes, pgoutput::Message::Relation(relation)) => {
                rows.describe(outboxes, &relation, bytes);
            }
            _ => {}
        }
    }
    Ok(())
}

fn refused(failure: &Failure) -> Outcome {
    Outcome::Refused(Letter { code: failure.code, message: failure.message_with_causes() })
}
