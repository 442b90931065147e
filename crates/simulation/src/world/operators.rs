//! People who decide about dead letters, and who remove their causes or not.

use relay::{
    Code,
    held::{Decision, EventId, HeldRequest, KeyHash, Letter, Outcome},
};

use super::World;
use crate::{
    history::{IDS, RowKind},
    invariant::Invariant,
    postgres::ServerPhase,
};

impl World {
    /// Now and then rows are written that cannot be delivered, a cause is removed, or somebody
    /// decides.
    pub(super) fn step_dead_letters(&mut self) {
        if !self.has_dead_letters() {
            return;
        }
        match self.random.below(48) {
            0 => self.write_poison(),
            1 => self.remove_a_cause(),
            2..6 => self.decide(),
            6 => self.end_orphans(),
            _ => {}
        }
    }

    /// Rows are written some of which cannot be delivered.
    pub(super) fn write_poison(&mut self) {
        if self.server.phase != ServerPhase::Up {
            return;
        }
        let first = self.server.history.events.len();
        let catalog = self.server.catalog;
        self.server.history.write_poison(&mut self.random, catalog);
        for (number, event) in self.server.history.events.iter().enumerate().skip(first) {
            if event.kind == RowKind::Refused {
                self.held.refuse(number);
            }
        }
    }

    fn remove_a_cause(&mut self) {
        let refused = self.held.refused.len();
        if self.random.one_in(4) {
            let topic = self.random.index(self.kafka.topics.len());
            let topic = &mut self.kafka.topics[topic];
            (topic.limit, topic.usual_limit) = (None, None);
        } else if refused > 0 {
            let nth = self.random.index(refused);
            let number = self.held.refused.iter().nth(nth).copied();
            number.map(|number| self.held.refused.remove(&number));
        }
    }

    /// Somebody decides about a dead letter, sometimes two at once.
    pub(super) fn decide(&mut self) {
        if self.server.phase != ServerPhase::Up {
            return;
        }
        let undecided: Vec<EventId> = self.server.held.table.undecided().collect();
        if undecided.is_empty() {
            return;
        }
        let id = undecided[self.random.index(undecided.len())];
        for _ in 0..1 + usize::from(self.random.one_in(4)) {
            let decision = if self.random.one_in(3) { Decision::Drop } else { Decision::Deliver };
            self.decide_about(id, decision);
        }
    }

    pub(super) fn decide_about(&mut self, id: EventId, decision: Decision) {
        self.trace(|| format!("a person decides about {id}: {decision:?}"));
        self.server.decide(id, decision);
        self.checker.advance_past_accepted(&self.server.history);
    }

    /// The faults are over. Some causes are removed, and some never are.
    pub(super) fn end_dead_letters(&mut self) {
        if !self.has_dead_letters() {
            return;
        }
        self.held.is_over = true;
        for topic in &mut self.kafka.topics {
            if self.random.one_in(2) {
                (topic.limit, topic.usual_limit) = (None, None);
            }
        }
        let random = &mut self.random;
        self.held.refused.retain(|_| random.one_in(2));
    }

    /// The person decides about everything, sometimes wrongly.
    pub(super) fn decide_at_the_end(&mut self) {
        if !self.held.is_over || self.server.phase != ServerPhase::Up {
            return;
        }
        let undecided: Vec<EventId> = self.server.held.table.undecided().collect();
        for id in undecided {
            let is_deliverable = self.server.event_of(id).is_some_and(|n| self.is_deliverable(n));
            let decision = if is_deliverable || self.random.one_in(4) {
                Decision::Deliver
            } else {
                Decision::Drop
            };
            self.decide_about(id, decision);
        }
    }

    /// Whether an event can be delivered now.
    fn is_deliverable(&self, number: usize) -> bool {
        let event = &self.server.history.events[number];
        match event.kind {
            RowKind::Valid | RowKind::Refused => {
                let refused = self.refused_event.map(|(refused, _)| refused);
                !self.held.refused.contains(&number) && refused != Some(number)
            }
            RowKind::TooLarge => self.kafka.topics[event.key / IDS.len()].limit.is_none(),
            RowKind::NullKey | RowKind::NullId | RowKind::IllegalTopic | RowKind::Oversized => {
                false
            }
        }
    }

    /// Whether nothing waits in the table.
    pub(super) fn has_table_left_nothing(&self) -> bool {
        !self.server.held.table.rows().any(relay::testing::HeldRow::is_open)
    }

    /// What a router writes into the table has to be true.
    pub(super) fn check_held_request(&mut self, request: &HeldRequest) {
        match request {
            HeldRequest::Insert(events) => {
                for event in events.iter() {
                    self.check_held_event(event);
                }
            }
            HeldRequest::Close { leaving, .. } => {
                for leaving in leaving {
                    self.check_leaving(leaving.id, &leaving.outcome);
                }
            }
            HeldRequest::Load { .. }
            | HeldRequest::ReadDecided
            | HeldRequest::ReadNext { .. }
            | HeldRequest::ReadSkip { .. } => {}
        }
    }

    fn check_held_event(&mut self, held: &relay::held::HeldEvent) {
        let Some(number) = self.server.event_of(held.id) else {
            self.checker.report_violation(Invariant::S6Fidelity, || {
                format!("no committed event is known by {}", held.id)
            });
            return;
        };
        let event = &self.server.history.events[number];
        let id = (event.kind != RowKind::NullId).then(|| number.to_string());
        let key = IDS[event.key % IDS.len()].as_bytes();
        let key = (event.kind != RowKind::NullKey).then_some(key);
        let hash = match key.filter(|_| self.checker.holds_keys()) {
            Some(key) => KeyHash::of_key(key),
            None => KeyHash::of_event(held.id),
        };
        if held.event_id != id || held.key.as_deref() != key || held.hash != hash {
            self.checker.report_violation(Invariant::S6Fidelity, || {
                format!("event {number} is held as {held:?}")
            });
        }
        let is_new = self.server.held.table.row(held.id).is_none();
        match &held.letter {
            Some(letter) => {
                self.check_cause(number, letter);
                self.check_class_is_taken(number, letter.code);
                *self.coverage.held.letters.entry(letter.code).or_default() += u64::from(is_new);
            }
            None if !self.checker.holds_keys() => {
                self.checker.report_violation(Invariant::S12Held, || {
                    format!("event {number} is held behind a dead letter, and keys are not held")
                });
            }
            None => self.coverage.held.followers += u64::from(is_new),
        }
    }

    fn check_leaving(&mut self, id: EventId, outcome: &Outcome) {
        let Some(number) = self.server.event_of(id) else { return };
        let event = &self.server.history.events[number];
        match outcome {
            Outcome::Delivered => {
                self.coverage.held.released += 1;
                if !event.is_stored {
                    self.checker.report_violation(Invariant::S2NeverAhead, || {
                        format!("event {number} leaves the table as delivered, and is not in Kafka")
                    });
                }
            }
            Outcome::Dropped => {
                self.coverage.held.dropped += 1;
                // Somebody deleted the row after the session read its decision: nothing is dropped.
                let is_gone = event.is_row_lost && event.is_drop_lost;
                if !event.is_to_be_dropped() && !is_gone {
                    self.checker.report_violation(Invariant::S1Complete, || {
                        format!("event {number} is dropped, and nobody has decided so")
                    });
                }
            }
            Outcome::Refused(letter) => {
                self.coverage.held.refused_again += 1;
                self.checker.note_refused_again(number);
                self.check_cause(number, letter);
                self.check_released_letter(number);
            }
        }
    }

    /// An event that was held behind a dead letter is one itself now. The record of one that was a
    /// dead letter before may still be on its way: the position waits for it.
    fn check_released_letter(&mut self, number: usize) {
        let event = &self.server.history.events[number];
        if self.has_letters_topic() && !event.is_letter && !event.has_letter_record {
            self.checker.report_violation(Invariant::S2NeverAhead, || {
                format!("event {number} stays in the table as a dead letter, and the topic of dead letters has no record of it")
            });
        }
    }

    /// An event becomes a dead letter for a cause that it has.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other code makes dead letters here")]
    pub(super) fn check_cause(&mut self, number: usize, letter: &Letter) {
        let event = &self.server.history.events[number];
        let has_cause = match letter.code {
            Code::KeyIsNull => event.kind == RowKind::NullKey,
            Code::IdIsNull => event.kind == RowKind::NullId,
            Code::TopicIllegal => event.kind == RowKind::IllegalTopic,
            Code::RowTooLarge => event.kind == RowKind::Oversized,
            Code::RecordTooLarge => {
                event.kind == RowKind::TooLarge
                    || self.kafka.topics[event.key / IDS.len()].was_lowered
            }
            Code::RecordRefused => self.held.ever_refused.contains(&number),
            _ => false,
        };
        if !has_cause {
            self.checker.report_violation(Invariant::S11Reporting, || {
                format!("event {number} becomes a dead letter without a cause: {letter:?}")
            });
        }
    }
}
