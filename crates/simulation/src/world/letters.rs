//! The topic of dead letters: what the routers write to it.

use relay::{Code, ErrorClass, held::Letter};

use super::World;
use crate::{
    checker::Origin,
    invariant::Invariant,
    kafka::{ProducedLetter, ProducedRecord},
    router::SimulatedRouter,
};

impl World {
    /// Whether dead letters are written to a topic.
    pub(super) fn has_letters_topic(&self) -> bool {
        self.checker.has_letters_topic()
    }

    /// What a router gave to the producer for the topic of dead letters.
    pub(super) fn check_produced_letters(&mut self, router: usize) {
        let SimulatedRouter { producer: Some(producer), session, epoch, .. } =
            &mut self.routers[router]
        else {
            return;
        };
        // A router that has not noticed that its server was taken back may still produce what is
        // lost; it is known by positions at which there are other events now.
        let common = self.server.common_with(*epoch);
        let server = &self.server;
        let letters = producer
            .take_letters(|id| server.event_of(id).filter(|_| id.commit_lsn.as_u64() < common));
        let session = *session;
        for letter in letters {
            self.check_produced_letter(session, common, &letter);
        }
    }

    fn check_produced_letter(&mut self, session: usize, common: u64, letter: &ProducedLetter) {
        let event = letter.id.and_then(|id| self.server.event_of(id));
        let (Some(id), Some(code)) = (letter.id, letter.code) else {
            self.checker.report_violation(Invariant::S6Fidelity, || {
                format!("the headers of {letter:?} do not say which event it is, and why")
            });
            return;
        };
        if id.commit_lsn.as_u64() >= common {
            return;
        }
        let Some(number) = event else {
            self.checker.report_violation(Invariant::S6Fidelity, || {
                format!("no committed event is known by the headers of {letter:?}")
            });
            return;
        };
        self.coverage.held.letter_records += 1;
        let event = &self.server.history.events[number];
        self.checker.check_letter_produced(&self.kafka, session, (number, event), letter);
        self.check_cause(number, &Letter { code, message: String::new() });
    }

    /// Counts an event that leaves a dead letter of its key behind.
    pub(super) fn count_overtaking(&mut self, origin: Origin, produced: &ProducedRecord) {
        let history = &self.server.history;
        let Some(number) = produced.event.filter(|_| origin == Origin::Stream) else { return };
        let Some(event) = history.events.get(number) else { return };
        let mut earlier = history.by_key[event.key].iter().take_while(|earlier| **earlier < number);
        let is_behind = earlier.any(|earlier| history.events[*earlier].is_open());
        self.coverage.held.overtakes += u64::from(is_behind);
    }

    /// Counts a router that makes dead letters, and stops at a row whose class halts.
    pub(super) fn count_halt(&mut self, code: Code) {
        let halts = self.plan.dead_letters.is_some_and(|letters| !letters.takes(code));
        let is_of_row = ErrorClass::of(code).is_some();
        self.coverage.held.halts += u64::from(halts && is_of_row);
    }

    /// The class of a failure halts: no event becomes a dead letter by it.
    pub(super) fn check_class_is_taken(&mut self, number: usize, code: Code) {
        if self.plan.dead_letters.is_some_and(|letters| letters.takes(code)) {
            return;
        }
        self.checker.report_violation(Invariant::S11Reporting, || {
            format!("event {number} becomes a dead letter by {code}, whose class halts")
        });
    }
}
