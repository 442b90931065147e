//! When the witness is written, and what follows when it is.

use super::{Halt, Phase, Relay};
use crate::{
    clock::{Moment, Now},
    failure::{Case, Code, Failure},
    progress::WitnessStore,
    protocol::{Action, OnFailed, StateTopicRead, WriteAck},
    session::{Session, SessionPhase, WaitReason},
    witness::{OthersChange, TakenBack, WriteUrgency},
};

/// How long a process that exits because of a gap waits until the gap is in the witness.
const RECORD_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// How often a router reads what other processes have written to the state topic: a halted router
/// to find an acceptance, a streaming router to find another router's gap.
pub(super) const CHECK_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

impl Relay {
    /// Writes the witness, if a write is due.
    pub(super) fn write_witness(&mut self, now: Now) {
        let Phase::Streaming(session) = &self.phase else { return };
        if session.is_within_covered() || self.keeper.is_writing() {
            return;
        }
        if self.topics.take_news() {
            self.keeper.note_partitions(self.topics.partitions());
        }
        let write = match self.write_urgency(session) {
            Some(urgency) if self.keeper.may_write_position(urgency, now.at) => {
                let (ticket, last) = (session.ledger.issue_witness_ticket(), session.ledger.last());
                self.keeper.write_position(ticket, last, now.at)
            }
            Some(_) | None => self.keeper.write_rest(now.at),
        };
        self.actions.extend(write.map(Action::WriteStateTopic));
    }

    /// How urgently the session needs its settled position in the witness; `None` if there is
    /// nothing new.
    fn write_urgency(&self, session: &Session) -> Option<WriteUrgency> {
        if !session.ledger.has_unwritten() {
            return None;
        }
        let is_urgent = session.ledger.is_worth_writing(self.settings.window)
            || self.drain_by.is_some()
            || session.phase != SessionPhase::Following
            || session.wait_reason == Some(WaitReason::Isolate)
            || session.owes_reply();
        Some(if is_urgent {
            WriteUrgency::Now
        } else if session.ledger.has_unwritten_events() {
            WriteUrgency::Events
        } else {
            WriteUrgency::KeepalivesOnly
        })
    }

    /// When the next write is due, if no other input comes first.
    pub(super) fn witness_due_at(&self, session: &Session) -> Option<Moment> {
        if session.is_within_covered() || self.keeper.is_writing() {
            return None;
        }
        self.write_urgency(session).and_then(|urgency| self.keeper.due_at(urgency))
    }

    /// A write to the state topic is acknowledged. If it names a position, that position becomes
    /// confirmable; not where Kafka was taken back meanwhile: what had been acknowledged before may
    /// be gone.
    pub(super) fn state_topic_written(&mut self, ack: WriteAck, at: Moment) {
        self.sink.succeeded();
        let ticket = match self.keeper.written(ack) {
            Ok(ticket) => ticket,
            Err(TakenBack) => {
                if matches!(self.phase, Phase::Streaming(_)) {
                    self.state_topic_lost(at);
                }
                return;
            }
        };
        self.topics.partitions_recorded(self.keeper.recorded_partitions());
        if let (Some(ticket), Phase::Streaming(session)) = (ticket, &mut self.phase) {
            session.ledger.witness_acked(ticket);
        }
    }

    /// Reads the state topic. Only the answer to the last read counts.
    pub(super) fn read_state_topic(&mut self) {
        self.read_state_topic_by(Action::ReadStateTopic);
    }

    fn read_state_topic_by(&mut self, action: fn(u64) -> Action) {
        self.last_read_number += 1;
        self.keeper.asked();
        self.actions.push_back(action(self.last_read_number));
    }

    /// While it streams, reads every five seconds what other processes have written.
    pub(super) fn check_state_topic(&mut self, now: Now) {
        // The session may have ended in this pass; then nothing waits for the answer.
        if !matches!(self.phase, Phase::Streaming(_)) {
            return;
        }
        if self.check_at.is_some_and(|check_at| check_at <= now.at) {
            self.check_at = None;
            self.read_state_topic_by(Action::CheckStateTopic);
        }
    }

    /// No other process has written to the state topic.
    pub(super) fn state_topic_unchanged(&mut self, number: u64, at: Moment) {
        if number == self.last_read_number && matches!(self.phase, Phase::Streaming(_)) {
            self.check_at = self.next_check_at(at);
        }
    }

    /// The state topic was read while this router streams. A router that lost the slot may have
    /// found a gap, or a person may have accepted that the pipeline began without a witness.
    pub(super) fn state_topic_checked(
        &mut self,
        read: Result<StateTopicRead, Failure>,
        at: Moment,
    ) {
        self.check_at = self.next_check_at(at);
        let read = match read {
            Ok(read) => read,
            // The topic may not keep the next record.
            Err(failure) if failure.code == Code::StateTopicUnsuitable => {
                self.disconnect(failure, at);
                return;
            }
            // The topic is read again.
            Err(_) => return,
        };
        match self.keeper.take_others_records(read) {
            Ok(OthersChange::Nothing) => {}
            Ok(OthersChange::Gaps(gaps)) => self.halt(gaps, at),
            Ok(OthersChange::AnotherHistory) => {
                let why = "another router has written to the state topic";
                self.disconnect(Failure::new(Code::SlotInUse, why), at);
            }
            Ok(OthersChange::Lost) => self.state_topic_lost(at),
            Err(failure) => self.disconnect(failure, at),
        }
    }

    /// Ends the session: the next one begins with what the topic has.
    fn state_topic_lost(&mut self, at: Moment) {
        let what = "the state topic has lost what Kafka had acknowledged";
        self.disconnect(Failure::of(Case::StateTopicUnread, what), at);
    }

    /// What a halted router does: it writes the gap into the witness, then reads until a person has
    /// accepted it.
    pub(super) fn proceed_halted(&mut self, now: Now) {
        if !self.sink.is_ready() {
            return;
        }
        if let Some(write) = self.keeper.write_gap(now.at) {
            self.actions.push_back(Action::WriteStateTopic(write));
            return;
        }
        let Phase::Halted(halt) = &mut self.phase else { return };
        if self.keeper.are_gaps_written()
            && halt.check_at.is_some_and(|check_at| check_at <= now.at)
        {
            halt.check_at = None;
            self.read_state_topic();
        }
    }

    /// Whether a process that exits because of a gap has waited long enough for the gap to be
    /// written down.
    pub(super) fn has_waited(halt: &Halt, at: Moment) -> bool {
        at >= halt.since + RECORD_TIMEOUT
    }

    pub(super) fn halt_deadline(&self, halt: &Halt) -> Option<Moment> {
        let leaves = self.drain_by.is_some() || self.on_failed == OnFailed::Exit;
        let patience =
            (leaves && !self.keeper.are_gaps_written()).then(|| halt.since + RECORD_TIMEOUT);
        let reading = halt.check_at.filter(|_| self.keeper.are_gaps_written());
        let work = [self.keeper.deadline(), reading];
        // While the sink is being replaced nothing can be written or read;
        // [`crate::Input::SinkReady`] is an input of its own.
        let work = work.into_iter().flatten().filter(|_| self.sink.is_ready());
        work.chain(patience).min()
    }

    /// When this router next reads what other processes have written; `None` without a state topic.
    pub(super) fn next_check_at(&self, at: Moment) -> Option<Moment> {
        (self.keeper.store() == WitnessStore::Kafka).then(|| at + CHECK_EVERY)
    }
}
