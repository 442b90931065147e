//! [`KafkaSink`]: the port to Kafka as the streaming task owns it.
//!
//! It never blocks and never leaves a gap: the first error of any kind closes it, drops everything
//! that was not yet acknowledged, and refuses whatever is offered afterwards. Acknowledgements that
//! still arrive then are true and are passed on; everything else is replayed from the slot in
//! another session.
//!
//! An acknowledgement is a success report *with an offset*: the broker said where the record is.
//! librdkafka reports success also for a batch that was refused when a later one of the same
//! partition is stored, and for one that the broker calls a duplicate. The first conclusion is
//! wrong where the broker's memory of the producer began in between, as with a topic that is
//! deleted and made again: the later batch is then the first that it sees. Both come without an
//! offset, are nobody's word that the record is there, and close the sink like a failure.
//!
//! The same lack of memory would let a record overtake an earlier one; `bound` says how that is
//! prevented.

mod reports;
mod state;
mod trouble;
mod writes;

use std::{future, io, sync::Arc};

use rdkafka::types::RDKafkaErrorCode;
use relay::{
    Acks, Failure, Record, RecordSink, Refusal, RefusalReason, Ticket, TopicId, TopicName,
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    bound::{Identity, Topics},
    errors::Cluster,
    ffi::{Producer, Served, TopicUuid},
    health::{ClientErrors, Health},
    settings::KafkaSettings,
    state::StateTopic,
    topics::TopicDirectory,
};
use reports::{Pass, Reports};
pub use trouble::DeliveryTrouble;
use trouble::Phase;

/// Produces records and collects their acknowledgements. See the module's promises.
pub struct KafkaSink {
    producer: Arc<Producer>,
    signal: AsyncFd<Arc<Producer>>,
    reports: Reports,
    /// Whether [`KafkaSink::wait_acks`] may wait: only after the queue was read to its end and all
    /// trouble was told.
    backlog: Backlog,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backlog {
    None,
    Some,
}

impl KafkaSink {
    /// Wraps a producer, within a tokio runtime that does I/O.
    pub(super) fn new(
        producer: Arc<Producer>,
        cluster: Cluster,
        batch_bytes: usize,
    ) -> io::Result<Self> {
        let signal = producer.signal()?;
        let reports = Reports {
            topics: Topics::new(batch_bytes),
            cluster,
            unacked: 0,
            phase: Phase::Open,
            client_errors: ClientErrors::default(),
            state: None,
        };
        // The signal tells of the first event in an *empty* queue, and log lines may already be in
        // it.
        Ok(Self { producer, signal, reports, backlog: Backlog::Some })
    }

    /// Takes over a topic that was looked up, with its `max.message.bytes` where that is known. One
    /// that was looked up before may have been made anew since, so that its partitions know nothing
    /// of this producer: each is sent one record at first, as of any new topic.
    pub fn bind_topic(&mut self, id: TopicId, name: &TopicName, max_message_bytes: Option<usize>) {
        if !self.reports.topics.contains(id) {
            match self.producer.topic(name) {
                // librdkafka gives the same topic for the same name: its reports could not be told
                // apart.
                Some(_) if self.reports.is_state(name) => return self.mixed_up(name),
                Some(handle) => self.reports.topics.insert(id, name, handle),
                None => return self.fail(None, Some(id), RDKafkaErrorCode::InvalidTopic),
            }
        }
        self.reports.topics.renew(id, max_message_bytes);
    }

    /// Whether the topic takes smaller batches than the producer makes, and so may have little on
    /// its way.
    pub fn holds_back(&self, id: TopicId) -> bool {
        self.reports.topics.is_limited(id)
    }

    /// Takes note of the id of a topic in use. When it is another topic than before, its partitions
    /// are new, and what was looked up of the former one is out of date.
    pub fn identify_topic(&mut self, id: TopicId, uuid: TopicUuid) -> Identity {
        self.reports.topics.identify(id, uuid)
    }

    /// Collects what has arrived, without waiting, until some `limit` reports are read (the event
    /// that reaches the limit is read to its end: one batch). Returns the first failure, once, as
    /// soon as it is clear which record caused it.
    pub fn poll_acks(&mut self, acks: &mut Acks, limit: usize) -> Option<DeliveryTrouble> {
        self.take_signal();
        let open = self.reports.is_open();
        self.reports.topics.tick();
        let mut pass = Pass { reports: &mut self.reports, acks, served: 0 };
        self.backlog = loop {
            if pass.served >= limit {
                break Backlog::Some;
            }
            if self.producer.serve(&mut pass) == Served::QueueEmpty {
                break Backlog::None;
            }
        };
        if open && !self.reports.is_open() {
            self.producer.purge();
        }
        self.reports.take_trouble()
    }

    /// Waits until [`KafkaSink::poll_acks`] has something to read; may return early. Cancel-safe:
    /// it takes nothing, the signal stands until the next poll.
    pub async fn wait_acks(&self) {
        if self.backlog == Backlog::Some {
            return;
        }
        match self.signal.readable().await {
            Ok(mut guard) => guard.retain_ready(),
            // The runtime is shutting down: there is nothing left to wait for.
            Err(_) => future::pending().await,
        }
    }

    /// Records that were enqueued and not yet reported, successful or not; one for the state topic
    /// included.
    pub fn unacked(&self) -> usize {
        self.reports.unacked
    }

    /// Whether Kafka answers, as far as librdkafka's client_errors tell.
    pub fn health(&self) -> Health<'_> {
        self.reports.client_errors.health()
    }

    /// The cluster answered a question: whatever it was, it is over.
    pub fn clear_health(&mut self) {
        self.reports.client_errors.clear();
    }

    /// Nobody answered a question.
    pub fn note_down(&mut self, failure: Failure) {
        self.reports.client_errors.unanswered(failure);
    }

    /// Drops what is in flight and destroys the producer, unless a [`TopicDirectory`] is still at
    /// work, which then does so when it ends. Blocks for as long as librdkafka takes to join its
    /// threads.
    pub fn close(self) {
        self.producer.purge();
        drop(self);
    }

    /// Asks the cluster about topics, through this sink's own client.
    pub fn directory(&self, settings: &KafkaSettings) -> TopicDirectory {
        TopicDirectory::new(Arc::clone(&self.producer), self.reports.cluster.clone(), settings)
    }

    /// The state topic `name` of the cluster that records go to, through the same client.
    pub fn state_topic(&self, settings: &KafkaSettings, name: TopicName) -> StateTopic {
        let (producer, cluster) = (Arc::clone(&self.producer), self.reports.cluster.clone());
        StateTopic::new(producer, cluster, settings, name)
    }

    /// Takes the signal back *before* the queue is read: what arrives from then on signals anew.
    fn take_signal(&self) {
        while self.signal.try_io(Interest::READABLE, |producer| producer.take_signal()).is_ok() {}
    }

    /// Closes the sink because of a record that could not even be enqueued.
    fn fail(&mut self, ticket: Option<&Ticket>, topic: Option<TopicId>, error: RDKafkaErrorCode) {
        // After a fatal error every call says no more than that there was one; the client knows
        // which.
        let (error, detail) =
            self.producer.client().fatal_error().unwrap_or((error, String::new()));
        self.reports.fail(ticket.map(Ticket::transaction), topic, error, &detail);
        self.producer.purge();
        self.backlog = Backlog::Some;
    }
}

impl RecordSink for KafkaSink {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        if !self.reports.is_open() {
            return Err(Refusal { ticket, reason: RefusalReason::Closed });
        }
        let Some(place) = self.reports.topics.place(record.topic, record.partition) else {
            self.fail(Some(&ticket), Some(record.topic), RDKafkaErrorCode::UnknownTopic);
            return Err(Refusal { ticket, reason: RefusalReason::Closed });
        };
        let bytes = ticket.held_bytes();
        if !place.is_open(bytes) {
            // The report that opens it is an acknowledgement, after which the record is offered
            // again; or it closes the sink.
            return Err(Refusal { ticket, reason: RefusalReason::Probing });
        }
        let opaque = ticket.into_opaque();
        let Err(error) = self.producer.produce(place.topic, record, opaque) else {
            place.sent(bytes);
            self.reports.unacked += 1;
            return Ok(());
        };
        // It never entered the producer, so this is still the only copy of the ticket.
        let ticket = Ticket::from_opaque(opaque);
        if error == RDKafkaErrorCode::QueueFull {
            return Err(Refusal { ticket, reason: RefusalReason::Full });
        }
        self.fail(Some(&ticket), Some(record.topic), error);
        Err(Refusal { ticket, reason: RefusalReason::Closed })
    }
}
