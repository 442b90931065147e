//! Accumulates delivery reports and errors of the client into acknowledgements and at most one
//! failure.

use rdkafka::types::RDKafkaErrorCode;
use relay::{Acks, Ticket, TopicId, TransactionRef};

use super::{
    failure::{DeliveryFailure, SinkPhase},
    writes::StateWrites,
};
use crate::kafka::{
    bound::BoundTopics,
    errors::Cluster,
    ffi::{ClientError, Delivery, Events, Report, Severity},
    health::ClientErrors,
    log,
    statistics::StatisticsFeed,
    stored::StoredOffsets,
};

/// The sink's state, as far as it follows from reports.
pub(super) struct Reports {
    pub(super) topics: BoundTopics,
    pub(super) cluster: Cluster,
    pub(super) unacked: usize,
    pub(super) phase: SinkPhase,
    pub(super) client_errors: ClientErrors,
    pub(super) state: Option<StateWrites>,
    pub(super) statistics: Option<StatisticsFeed>,
    /// Where records were stored, for a command.
    pub(super) stored: Option<StoredOffsets>,
}

impl Reports {
    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, SinkPhase::Open)
    }

    pub(super) fn fail(
        &mut self,
        transaction: Option<TransactionRef>,
        topic: Option<TopicId>,
        error: RDKafkaErrorCode,
        detail: &str,
    ) {
        self.phase.fail(error, || {
            let name = topic.and_then(|topic| self.topics.name(topic));
            let failure = self.cluster.failure(error, name, detail);
            DeliveryFailure { transaction, topic, failure }
        });
    }

    /// Closes the sink: librdkafka reports a record as delivered, but without an offset.
    #[cold]
    pub(super) fn missing_offset(&mut self, transaction: TransactionRef, topic: TopicId) {
        self.phase.explain(|| {
            let failure = self.cluster.ack_without_offset(self.topics.name(topic));
            DeliveryFailure { transaction: Some(transaction), topic: Some(topic), failure }
        });
    }

    /// Compares where a record of a command was stored. Closes the sink where Kafka was taken back.
    fn note_stored(&mut self, transaction: TransactionRef, topic: TopicId, at: (i32, i64)) {
        let (Some(stored), Some(name)) = (&mut self.stored, self.topics.topic_name(topic)) else {
            return;
        };
        if let Err(failure) = stored.add(name, at.0, at.1) {
            self.phase.explain(|| DeliveryFailure {
                transaction: Some(transaction),
                topic: Some(topic),
                failure,
            });
        }
    }

    pub(super) fn take_failure(&mut self) -> Option<DeliveryFailure> {
        let is_known = match &self.phase {
            SinkPhase::Explained(_) => true,
            SinkPhase::Unexplained(_) => self.unacked == 0,
            SinkPhase::Open | SinkPhase::Reported => false,
        };
        if !is_known {
            return None;
        }
        match std::mem::replace(&mut self.phase, SinkPhase::Reported) {
            SinkPhase::Explained(failure) | SinkPhase::Unexplained(failure) => Some(failure),
            SinkPhase::Open | SinkPhase::Reported => None,
        }
    }
}

/// One call of [`super::KafkaSink::poll_acks`].
pub(super) struct Pass<'a> {
    pub(super) reports: &'a mut Reports,
    pub(super) acks: &'a mut Acks,
    pub(super) served: usize,
}

impl Pass<'_> {
    /// Handles a report about a topic that is not bound for events: the state topic.
    #[cold]
    fn unbound(&mut self, report: &Report) {
        if self.reports.state_report(report).is_none() {
            // Cannot happen, because only topics that were produced to are reported. It must not
            // count as a success.
            let transaction = Ticket::from_opaque(report.opaque).transaction();
            let error = RDKafkaErrorCode::UnknownTopic;
            let detail = "a report names a topic that is not known here";
            self.reports.fail(Some(transaction), None, error, detail);
        }
    }
}

impl Events for Pass<'_> {
    #[inline]
    fn report(&mut self, report: Report) {
        self.served += 1;
        self.reports.unacked = self.reports.unacked.saturating_sub(1);
        let Some(topic) = self.reports.topics.find(report.topic) else {
            return self.unbound(&report);
        };
        let ticket = Ticket::from_opaque(report.opaque);
        match report.delivery {
            Delivery::Stored { offset } => {
                self.reports.client_errors.clear();
                if self.reports.stored.is_some() {
                    let at = (report.partition, offset);
                    self.reports.note_stored(ticket.transaction(), topic, at);
                }
                self.reports.topics.stored(topic, report.partition, ticket.held_bytes());
                self.acks.push(ticket, topic);
            }
            Delivery::Inferred => self.reports.missing_offset(ticket.transaction(), topic),
            Delivery::Failed(error) => {
                self.reports.fail(Some(ticket.transaction()), Some(topic), error, "");
            }
        }
    }

    fn client_error(&mut self, error: ClientError) {
        self.served += 1;
        match error.severity {
            Severity::Fatal => self.reports.fail(None, None, error.code, &error.text),
            Severity::Transient => {
                let failure = self.reports.cluster.failure(error.code, None, &error.text);
                self.reports.client_errors.add(error.code, failure);
            }
        }
    }

    fn log(&mut self, level: i32, facility: &str, text: &str) {
        self.served += 1;
        log::write(level, facility, text);
    }

    fn statistics(&mut self, document: &[u8]) {
        self.served += 1;
        if let Some(statistics) = &self.reports.statistics {
            statistics.take(document);
        }
    }
}
