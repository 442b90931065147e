//! What is made known of an event that was to be released and cannot be delivered.

use pgoutput::PgTimestamp;

use super::{Phase, Relay, held::describe};
use crate::{
    held::{HeldEvent, HeldMessages, Letter},
    ports::RecordSink,
    routing::{
        record::TopicId,
        route::{Arrived, Original},
        topics::Readiness,
    },
    session::{LetterRecord, Rows},
    telemetry::NewLetter,
};

impl Relay {
    /// An event cannot be delivered. One that was held behind a dead letter is one itself now; one
    /// that was a dead letter, and that a person has requeued, was refused again.
    ///
    /// # Errors
    /// The event is to be offered again, when this topic was looked up, if there is one.
    pub(super) fn refuse_released<S: RecordSink>(
        &mut self,
        event: HeldEvent,
        letter: &Letter,
        at: PgTimestamp,
        sink: &mut S,
    ) -> Result<(), Option<TopicId>> {
        if event.letter.is_some() {
            self.held.totals.refused_again += 1;
            self.refused_again.push(NewLetter::of(&event, letter));
            return Ok(());
        }
        let event = HeldEvent { letter: Some(letter.clone()), ..event };
        self.write_released_letter(&event, at, sink)?;
        self.held.note(&event, letter);
        Ok(())
    }

    /// The dead letters since the last call that were requeued and refused again, to be logged.
    pub fn take_refused_again(&mut self) -> Vec<NewLetter> {
        std::mem::take(&mut self.refused_again)
    }

    /// Produces the record that shows a dead letter to people: an event that was held behind one,
    /// and cannot be delivered itself. An error is to try again, for a topic that has to be looked
    /// up.
    fn write_released_letter<S: RecordSink>(
        &mut self,
        event: &HeldEvent,
        at: PgTimestamp,
        sink: &mut S,
    ) -> Result<(), Option<TopicId>> {
        let Some(name) = self.held.settings.topic.clone() else { return Ok(()) };
        let Phase::Streaming(session) = &mut self.phase else { return Err(None) };
        let Ok(topic) = self.topics.intern(name) else { return Ok(()) };
        let Readiness::Ready(facts) = self.topics.readiness(topic) else {
            return Err(Some(topic));
        };
        let original = original(&mut session.held_rows, &self.settings.outboxes, event);
        let record = LetterRecord::new(event, original, facts, at);
        let record = record.as_record(topic, facts);
        let ticket = self.held.release.issue(record.held_bytes());
        sink.produce(&record, ticket).map_err(|_refused| None)?;
        self.topics.produced(topic);
        self.held.release.letter_produced();
        Ok(())
    }
}

/// What the record would have been. Of a row that did not arrive whole, the table has nothing.
fn original(rows: &mut Rows, outboxes: &crate::Outboxes, event: &HeldEvent) -> Original {
    let messages = HeldMessages::new(&event.messages);
    let Ok(Some(insert)) = messages.insert() else { return Original::default() };
    // A record that the broker refused was produced by an earlier session.
    if describe(rows, outboxes, messages, insert.relation).is_err() {
        return Original::default();
    }
    rows.original(insert.relation, insert.tuple.iter(), Arrived::Whole)
}
