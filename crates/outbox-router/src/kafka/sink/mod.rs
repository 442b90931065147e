//! [`KafkaSink`]: the producer, as the streaming task owns it.
//!
//! The sink never blocks and never leaves a gap: at the first error of any kind it closes, drops
//! everything that is not yet acknowledged, and refuses every further record. Acknowledgements that
//! still arrive are valid and are passed on; everything else is sent again from the slot's
//! position, in another session.
//!
//! An acknowledgement is a success report *with an offset*, by which the broker says where the
//! record is. librdkafka also reports success in two other cases: for a refused batch when a later
//! batch of the same partition is stored, and for a batch that the broker calls a duplicate. The
//! first inference is wrong where the broker's state of the producer began in between, as with a
//! topic that is deleted and re-created: the later batch is then the first that the broker sees.
//! Both reports come without an offset, do not prove that the record is stored, and close the sink
//! like a failure.
//!
//! Where a broker holds no state of the producer, a record could also overtake an earlier one;
//! `bound` prevents that.

mod failure;
mod reports;
mod state;
mod writes;

use std::{future, io, sync::Arc};

use rdkafka::types::RDKafkaErrorCode;
use relay::{
    Acks, Failure, Record, RecordSink, Refusal, RefusalReason, Ticket, TopicId, TopicName,
    witness::TopicUuid,
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    bound::{BoundTopics, Identity, TopicLimits},
    errors::Cluster,
    ffi::{Producer, Served},
    health::{ClientErrors, Health},
    settings::KafkaSettings,
    state::StateTopic,
    stored::StoredOffsets,
    timestamps::Keeps,
    topics::TopicClient,
};
pub use failure::DeliveryFailure;
use failure::SinkPhase;
use reports::{Pass, Reports};

/// Produces records and collects their acknowledgements. The module's documentation states its
/// guarantees.
pub struct KafkaSink {
    producer: Arc<Producer>,
    signal: AsyncFd<Arc<Producer>>,
    reports: Reports,
    /// Whether [`KafkaSink::wait_acks`] returns at once. It may wait only after the queue was read
    /// to its end and any failure was reported.
    backlog: PollBacklog,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollBacklog {
    None,
    Some,
}

impl KafkaSink {
    /// Wraps a producer. Must be called within a tokio runtime that does I/O.
    pub(super) fn new(
        producer: Arc<Producer>,
        cluster: Cluster,
        settings: &KafkaSettings,
    ) -> io::Result<Self> {
        let signal = producer.signal()?;
        let reports = Reports {
            topics: BoundTopics::new(settings.batch_bytes()),
            cluster,
            unacked: 0,
            phase: SinkPhase::Open,
            client_errors: ClientErrors::default(),
            state: None,
            statistics: settings.statistics.clone(),
            stored: None,
        };
        if let Some(statistics) = &reports.statistics {
            statistics.begin();
        }
        // librdkafka signals the first event in an *empty* queue, and the queue may already hold
        // log lines.
        Ok(Self { producer, signal, reports, backlog: PollBacklog::Some })
    }

    /// Compares from now on where records are stored.
    pub fn compare_offsets(&mut self) {
        self.reports.stored = Some(StoredOffsets::default());
    }

    /// Where records were stored, if that is compared.
    pub fn take_stored(&mut self) -> StoredOffsets {
        self.reports.stored.take().unwrap_or_default()
    }

    /// Takes over a topic that was looked up, with its limits. A topic that was bound before may
    /// have been re-created since, and its partitions may hold no state of this producer. So each
    /// partition is sent one record first, as with any new topic.
    pub fn bind_topic(&mut self, id: TopicId, name: &TopicName, limits: TopicLimits) {
        if !self.reports.topics.contains(id) {
            match self.producer.topic(name) {
                // librdkafka returns the same topic object for the same name, so reports about
                // events and state could not be distinguished; no event is routed there.
                Some(handle) if !self.reports.is_state(name) => {
                    self.reports.topics.insert(id, name, handle);
                }
                Some(_) | None => return self.fail(None, Some(id), RDKafkaErrorCode::InvalidTopic),
            }
        }
        self.reports.topics.renew(id, limits);
    }

    /// Whether the topic takes smaller batches than the producer makes, so that little of it may be
    /// in flight.
    pub fn limits_in_flight(&self, id: TopicId) -> bool {
        self.reports.topics.is_limited(id)
    }

    /// The topics that would have deleted records before they are read, and how many records of
    /// each carry the time of sending instead of their own.
    pub fn sent_as_new(&self) -> impl Iterator<Item = (&TopicName, u64, Keeps)> {
        self.reports.topics.sent_as_new()
    }

    /// Records the id of a topic in use. After [`Identity::Another`] the topic's partitions count
    /// as new, and what was looked up of the former topic is out of date.
    pub fn identify_topic(&mut self, id: TopicId, uuid: &TopicUuid) -> Identity {
        self.reports.topics.identify(id, uuid)
    }

    /// Collects what has arrived, without waiting, until about `limit` reports are read (the event
    /// that reaches the limit, one batch, is read to its end). Returns the first failure, once, as
    /// soon as it is known which record caused it.
    pub fn poll_acks(&mut self, acks: &mut Acks, limit: usize) -> Option<DeliveryFailure> {
        self.take_signal();
        let open = self.reports.is_open();
        self.reports.topics.tick();
        let mut pass = Pass { reports: &mut self.reports, acks, served: 0 };
        self.backlog = loop {
            if pass.served >= limit {
                break PollBacklog::Some;
            }
            if self.producer.serve(&mut pass) == Served::QueueEmpty {
                break PollBacklog::None;
            }
        };
        if open && !self.reports.is_open() {
            self.producer.purge();
        }
        self.reports.take_failure()
    }

    /// Waits until [`KafkaSink::poll_acks`] has something to read; may return early. Cancel-safe:
    /// the signal stays set until the next poll.
    pub async fn wait_acks(&self) {
        if self.backlog == PollBacklog::Some {
            return;
        }
        match self.signal.readable().await {
            Ok(mut guard) => guard.retain_ready(),
            // The runtime is shutting down: there is nothing left to wait for.
            Err(_) => future::pending().await,
        }
    }

    /// How many records were enqueued and not yet reported, including one for the state topic.
    pub fn unacked(&self) -> usize {
        self.reports.unacked
    }

    /// Whether Kafka answers, as far as librdkafka's errors show.
    pub fn health(&self) -> Health<'_> {
        self.reports.client_errors.health()
    }

    /// The cluster answered a request, so earlier errors no longer count.
    pub fn clear_health(&mut self) {
        self.reports.client_errors.clear();
    }

    /// No broker answered a request, for this reason.
    pub fn note_down(&mut self, failure: Failure) {
        self.reports.client_errors.unanswered(failure);
    }

    /// Drops what is in flight and destroys the producer. If a [`TopicClient`] or a
    /// [`StateTopic`] is still in use, the last of them destroys the producer instead. Blocks for
    /// as long as librdkafka takes to join its threads.
    pub fn close(self) {
        self.producer.purge();
        drop(self);
    }

    /// A client that asks the cluster about topics through this sink's own client.
    pub fn topic_client(&self, settings: &KafkaSettings) -> TopicClient {
        TopicClient::new(Arc::clone(&self.producer), self.reports.cluster.clone(), settings)
    }

    /// The state topic `name` of the cluster that records go to, through the same client.
    pub fn state_topic(&self, settings: &KafkaSettings, name: TopicName) -> StateTopic {
        let (producer, cluster) = (Arc::clone(&self.producer), self.reports.cluster.clone());
        StateTopic::new(producer, cluster, settings, name)
    }

    /// Resets the signal *before* the queue is read, so that whatever arrives afterwards signals
    /// again.
    fn take_signal(&self) {
        while self.signal.try_io(Interest::READABLE, |producer| producer.take_signal()).is_ok() {}
    }

    /// Closes the sink because a record could not be enqueued.
    fn fail(&mut self, ticket: Option<&Ticket>, topic: Option<TopicId>, error: RDKafkaErrorCode) {
        // After a fatal error every call returns only `Fatal`; the client names the error.
        let (error, detail) =
            self.producer.client().fatal_error().unwrap_or((error, String::new()));
        self.reports.fail(ticket.map(Ticket::transaction), topic, error, &detail);
        self.producer.purge();
        self.backlog = PollBacklog::Some;
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
            // The report that opens the partition is an acknowledgement, after which the record is
            // offered again, or a failure, which closes the sink.
            return Err(Refusal { ticket, reason: RefusalReason::PartitionWaits });
        }
        let opaque = ticket.into_opaque();
        let (own, timestamp_ms) = (record.timestamp_ms, place.time_of(record));
        let record = &Record { timestamp_ms, ..*record };
        let Err(error) = self.producer.produce(place.topic, record, opaque) else {
            place.sent(bytes, (own, timestamp_ms));
            self.reports.unacked += 1;
            return Ok(());
        };
        // The record was not enqueued, so this is still the only copy of the ticket.
        let ticket = Ticket::from_opaque(opaque);
        if error == RDKafkaErrorCode::QueueFull {
            return Err(Refusal { ticket, reason: RefusalReason::Full });
        }
        self.fail(Some(&ticket), Some(record.topic), error);
        Err(Refusal { ticket, reason: RefusalReason::Closed })
    }
}
