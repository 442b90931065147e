//! S2, S3, S6 and S7, as far as they are about the records of dead letters in their topic.

use super::{InvariantChecker, partition};
use crate::{
    history::{CommittedEvent, IDS, RowKind},
    invariant::Invariant,
    kafka::{LETTERS_INDEX, ProducedLetter, SimulatedKafka},
    postgres::{large_payload, payload},
};

impl InvariantChecker {
    /// A session gave the record of a dead letter to the producer, whose event this is.
    pub fn check_letter_produced(
        &mut self,
        kafka: &SimulatedKafka,
        session: usize,
        (number, event): (usize, &CommittedEvent),
        produced: &ProducedLetter,
    ) {
        if self.sessions.get(session).is_some_and(|log| log.is_over) {
            self.report_violation(Invariant::S7SingleWriter, || {
                "a session that has ended produces the record of a dead letter".to_owned()
            });
        }
        if !shows(number, event, produced) {
            self.report_violation(Invariant::S6Fidelity, || {
                format!("{produced:?} was produced for {event:?}")
            });
        }
        let counts = kafka.topics.get(LETTERS_INDEX).map_or(&[][..], |topic| &topic.counts);
        let ProducedLetter { key, partition, .. } = produced;
        if !counts.iter().any(|count| partition::of_key(key, *count) == *partition) {
            self.report_violation(Invariant::S3Order, || {
                format!("{produced:?} was produced to another partition than its key's")
            });
        }
    }

    /// A position past a dead letter is confirmed, or is in a witness.
    pub fn check_letter_record(&mut self, number: usize, event: &CommittedEvent, position: u64) {
        // What has left the table is decided about, and needs to be shown to nobody. Past what is
        // accepted as missing, a person has moved the position.
        if self.has_letters_topic()
            && event.is_letter
            && event.is_open()
            && !event.is_accepted
            && !event.has_letter_record
        {
            self.report_violation(Invariant::S2NeverAhead, || {
                format!("the position {position} is past the dead letter {number}, of which the topic of dead letters has no record")
            });
        }
    }
}

/// Whether the record shows the event: with its key and value, or without both, if the topic takes
/// no record of that size.
fn shows(number: usize, event: &CommittedEvent, produced: &ProducedLetter) -> bool {
    let id = (event.kind != RowKind::NullId).then(|| number.to_string());
    let key = match event.kind {
        RowKind::NullKey => "",
        RowKind::Valid
        | RowKind::NullId
        | RowKind::IllegalTopic
        | RowKind::Oversized
        | RowKind::TooLarge
        | RowKind::Refused => IDS[event.key % IDS.len()],
    };
    let is_key = produced.key == key.as_bytes() || produced.key.is_empty();
    let is_value = produced.value.as_ref().is_none_or(|value| {
        *value == payload(number).into_bytes() || *value == large_payload(number).into_bytes()
    });
    produced.event_id == id && is_key && is_value
}
