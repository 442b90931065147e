//! Writes records of the state topic, with the same producer and the same guarantees as events, but
//! without tickets. At most one is in flight.

use rdkafka::types::RDKafkaErrorCode;
use relay::{Record, RefusalReason, TopicName, WriteAck};

use super::{
    KafkaSink, PollBacklog,
    failure::DeliveryFailure,
    reports::Reports,
    writes::{Flight, StateWrites},
};
use crate::kafka::{
    ffi::{Delivery, NativeHeaders, OutgoingRecord, Report},
    state::{self, PARTITION},
};

impl KafkaSink {
    /// Makes the handle of the state topic. Does nothing when the handle exists.
    pub fn bind_state(&mut self, name: &TopicName) {
        if self.reports.is_state(name) {
            return;
        }
        match self.producer.topic(name) {
            Some(handle) if self.reports.topics.find(handle.address()).is_none() => {
                let (name, flight) = (name.clone(), Flight::None);
                self.reports.state = Some(StateWrites { name, handle, flight, written: None });
            }
            // No event is routed to it.
            Some(_) | None => self.fail(None, None, RDKafkaErrorCode::InvalidTopic),
        }
    }

    /// Enqueues a record for the state topic; a record without a value deletes the key.
    /// [`KafkaSink::written_state`] returns `write` once the broker has acknowledged the record.
    /// Does not wait.
    ///
    /// # Errors
    /// [`RefusalReason::PartitionWaits`] while another record for the state topic is in flight,
    /// [`RefusalReason::Full`] when the producer's queue is full, and [`RefusalReason::Closed`]
    /// when the sink is closed or no state topic is bound.
    pub fn write_state(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        write: u64,
    ) -> Result<(), RefusalReason> {
        if !self.reports.is_open() {
            return Err(RefusalReason::Closed);
        }
        let Some(state) = &mut self.reports.state else { return Err(RefusalReason::Closed) };
        if state.flight == Flight::One {
            return Err(RefusalReason::PartitionWaits);
        }
        let message =
            OutgoingRecord { partition: PARTITION, key, value, timestamp_ms: Record::NOW };
        let outcome = self.producer.enqueue(&state.handle, &message, NativeHeaders::none(), write);
        match outcome {
            Ok(()) => {
                state.flight = Flight::One;
                self.reports.unacked += 1;
                Ok(())
            }
            Err(RDKafkaErrorCode::QueueFull) => Err(RefusalReason::Full),
            Err(error) => {
                let (error, detail) =
                    self.producer.client().fatal_error().unwrap_or((error, String::new()));
                self.reports.state_failed(error, &detail);
                self.producer.purge();
                self.backlog = PollBacklog::Some;
                Err(RefusalReason::Closed)
            }
        }
    }

    /// The latest write to the state topic that was acknowledged since the last call.
    pub fn written_state(&mut self) -> Option<WriteAck> {
        self.reports.state.as_mut()?.written.take()
    }
}

impl Reports {
    pub(super) fn is_state(&self, name: &TopicName) -> bool {
        self.state.as_ref().is_some_and(|state| state.name == *name)
    }

    /// Takes a report about the state topic; `None` when it is about another topic.
    #[cold]
    pub(super) fn state_report(&mut self, report: &Report) -> Option<()> {
        let state = self.state.as_mut().filter(|state| state.is_about(report.topic))?;
        state.flight = Flight::None;
        match report.delivery {
            Delivery::Stored { offset } => {
                state.written = Some(WriteAck { number: report.opaque, offset });
                self.client_errors.clear();
            }
            Delivery::Inferred => {
                let failure = self.cluster.ack_without_offset(Some(state.name.as_str()));
                let trouble = DeliveryFailure { transaction: None, topic: None, failure };
                self.phase.explain(|| trouble);
            }
            Delivery::Failed(error) => self.state_failed(error, ""),
        }
        Some(())
    }

    fn state_failed(&mut self, error: RDKafkaErrorCode, detail: &str) {
        let Some(state) = &self.state else { return };
        self.phase.fail(error, || {
            let failure = self.cluster.failure(error, Some(state.name.as_str()), detail);
            let failure = state::explain(failure, &self.cluster, &state.name, None);
            DeliveryFailure { transaction: None, topic: None, failure }
        });
    }
}
