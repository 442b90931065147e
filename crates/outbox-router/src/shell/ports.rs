//! What the shell calls of PostgreSQL and of Kafka, as traits, so that a test can play both.
//!
//! The shell is generic over both, so calls are dispatched statically. The product uses
//! [`super::Source`] and [`KafkaSettings`]; `tests` has scripted implementations. WAL needs no
//! trait: it comes through a `ReplicationStream`, and a test holds the other end of the socket.

use std::future::Future;

use relay::{
    Acks, BacklogFrom, Failure, RecordSink, RefusalReason, TopicId, TopicName, WriteAck,
    held::{HeldAnswer, HeldRequest},
    source::{Catalog, History, Server, SlotReading, TimelineHistory},
    witness::{TopicSight, TopicUuid},
};

use crate::{
    held::{HeldStore, HeldStream},
    kafka::{
        self, DeliveryFailure, Health, Identity, KafkaSettings, KafkaSink, StateExtent, StateLog,
        TopicDescription, TopicLimits, TopicReading,
    },
    monitor::Connect,
    postgres::ReplicationStream,
};

/// The steps from connecting to a stream. Each step takes the connection and returns it; dropping a
/// step's future closes the connection. A step fails when the server or the connection reports an
/// error, or when its time limit is over.
pub trait Postgres: Send + Sync + 'static {
    /// A connection between two steps, ready for a command.
    type Connection: Send + 'static;
    /// The table of held events.
    type HeldTable: HeldTable;

    /// Connects, and reads version, encoding and identity of the server.
    fn open(&self) -> impl Future<Output = Result<(Self::Connection, Server), Failure>> + Send;

    /// Reads the history file of a timeline (TIMELINE_HISTORY).
    fn timelines(
        &self,
        open: Self::Connection,
        timeline: u32,
    ) -> impl Future<Output = Result<(Self::Connection, TimelineHistory), Failure>> + Send;

    /// Reads the slot.
    fn read_slot(
        &self,
        open: Self::Connection,
    ) -> impl Future<Output = Result<(Self::Connection, SlotReading), Failure>> + Send;

    /// Reads the slot on a second connection, while a stream holds it. Fails if that connection
    /// reaches a server with another history.
    fn read_slot_beside(
        &self,
        history: &History,
    ) -> impl Future<Output = Result<SlotReading, Failure>> + Send;

    /// Reads publication and tables. Tables of `remembered`, an earlier catalog, are found by their
    /// OIDs. Fails while workers poll one of the tables (P043).
    fn catalog(
        &self,
        open: Self::Connection,
        remembered: Option<&Catalog>,
    ) -> impl Future<Output = Result<(Self::Connection, Catalog), Failure>> + Send;

    /// Starts streaming (START_REPLICATION). A backlog is read as asked, or from the walsender
    /// where it cannot be read by SQL.
    fn start(
        &self,
        open: Self::Connection,
        backlog: BacklogFrom,
    ) -> impl Future<Output = Result<Started, Failure>> + Send;

    /// Returns when the slot is free.
    fn watch_slot(&self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The table of held events. It has a connection of its own.
pub trait HeldTable: Send + 'static {
    /// Carries out a request for this stream. Dropping the future gives the request
    /// up; the next one is carried out after it has ended.
    fn answer(
        &mut self,
        request: &HeldRequest,
        stream: &HeldStream,
    ) -> impl Future<Output = Result<HeldAnswer, Failure>> + Send;
}

/// How `START_REPLICATION` ended.
pub enum Started {
    /// The server streams. The number is the walsender's process id, where it can be known.
    Streaming(Box<ReplicationStream>, Option<i32>),
    /// Another process holds the slot. The number is its process id, where the server names it.
    Held(Option<i32>),
}

/// Makes producers, and what asks Kafka beside them.
pub trait Kafka: Clone + Send + 'static {
    /// The producer, as the streaming task owns it.
    type Sink: Sink;
    /// Asks the cluster about topics.
    type TopicClient: TopicClient;
    /// The state topic, where the witness is kept.
    type StateTopic: StateTopic;

    /// Makes a producer. Blocks. [`kafka::open`] lists the errors.
    fn open(&self) -> Result<Self::Sink, Failure>;
    /// A client that asks through the producer's own client.
    fn topic_client(&self, sink: &Self::Sink) -> Self::TopicClient;
    /// The state topic through the same client. Also lets the producer write to it.
    fn state_topic(&self, sink: &mut Self::Sink, name: &TopicName) -> Self::StateTopic;
    /// Whether batches are compressed.
    fn compresses(&self) -> bool;
    /// The brokers, as `--bootstrap-server` takes them. Remedies name them.
    fn brokers(&self) -> &str;
}

/// A producer. Only [`Sink::close`] blocks. [`KafkaSink`] describes each call.
pub trait Sink: RecordSink + Send + 'static {
    /// Waits until [`Sink::poll_acks`] has something to collect. Cancel-safe.
    fn wait_acks(&self) -> impl Future<Output = ()>;
    /// Collects what has arrived. Returns the first failure, once.
    fn poll_acks(&mut self, acks: &mut Acks, limit: usize) -> Option<DeliveryFailure>;
    /// Enqueues a record for the state topic.
    fn write_state(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        write: u64,
    ) -> Result<(), RefusalReason>;
    /// The latest write that was acknowledged since the last call.
    fn written_state(&mut self) -> Option<WriteAck>;
    /// Uses the result of looking a topic up.
    fn bind_topic(&mut self, id: TopicId, name: &TopicName, limits: TopicLimits);
    /// Records the id of a topic, and compares it with the id before.
    fn identify_topic(&mut self, id: TopicId, uuid: &TopicUuid) -> Identity;
    /// Whether the topic takes smaller batches than the producer makes.
    fn limits_in_flight(&self, id: TopicId) -> bool;
    /// Whether Kafka answers.
    fn health(&self) -> Health<'_>;
    /// Records that Kafka has answered.
    fn clear_health(&mut self);
    /// Records that Kafka has not answered.
    fn note_down(&mut self, failure: Failure);
    /// Drops what is in flight and destroys the producer. Blocks.
    fn close(self);
}

/// Asks the cluster about topics. Every call blocks. [`kafka::TopicClient`] lists the errors.
pub trait TopicClient: Clone + Send + 'static {
    /// Looks a topic up.
    fn look_up(&self, name: &TopicName) -> Result<TopicDescription, Failure>;
    /// Reads the topics in use, in the order of `names`.
    fn read_topics(&self, names: &[TopicName]) -> Result<Vec<TopicReading>, Failure>;
    /// What there is under these names; shorter than `names` where the answer ends early, and
    /// `None` where a broker does not say.
    fn sights(&self, names: &[&TopicName]) -> Vec<Option<TopicSight>>;
    /// Whether any broker answers.
    fn ping(&self) -> Result<(), Failure>;
}

/// The state topic. Every call blocks. [`kafka::StateTopic`] lists the errors.
pub trait StateTopic: Clone + Send + 'static {
    /// Creates the topic if it is missing, and checks its settings. Returns cautions that do not
    /// prevent its use.
    fn open(&self) -> Result<Vec<Failure>, Failure>;
    /// Where the topic begins and ends.
    fn extent(&self) -> Result<StateExtent, Failure>;
    /// The id of the cluster that answers now; empty where the brokers do not report one.
    fn cluster_id(&self) -> Result<String, Failure>;
    /// The latest record of each key that begins with `prefix`.
    fn read(&self, prefix: &[u8]) -> Result<StateLog, Failure>;
    /// The same, starting from `known`, an earlier result for that prefix.
    fn read_on(&self, prefix: &[u8], known: &StateLog) -> Result<StateLog, Failure>;
}

impl<C: Connect + Send + Sync + 'static> HeldTable for HeldStore<C> {
    async fn answer(
        &mut self,
        request: &HeldRequest,
        stream: &HeldStream,
    ) -> Result<HeldAnswer, Failure> {
        self.answer(request, stream).await
    }
}

impl Kafka for KafkaSettings {
    type Sink = KafkaSink;
    type TopicClient = kafka::TopicClient;
    type StateTopic = kafka::StateTopic;

    fn open(&self) -> Result<KafkaSink, Failure> {
        kafka::open(self)
    }

    fn topic_client(&self, sink: &KafkaSink) -> kafka::TopicClient {
        sink.topic_client(self)
    }

    fn state_topic(&self, sink: &mut KafkaSink, name: &TopicName) -> kafka::StateTopic {
        sink.bind_state(name);
        sink.state_topic(self, name.clone())
    }

    fn compresses(&self) -> bool {
        self.compresses()
    }

    fn brokers(&self) -> &str {
        &self.bootstrap_servers
    }
}

impl Sink for KafkaSink {
    async fn wait_acks(&self) {
        self.wait_acks().await;
    }

    fn poll_acks(&mut self, acks: &mut Acks, limit: usize) -> Option<DeliveryFailure> {
        self.poll_acks(acks, limit)
    }

    fn write_state(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        write: u64,
    ) -> Result<(), RefusalReason> {
        self.write_state(key, value, write)
    }

    fn written_state(&mut self) -> Option<WriteAck> {
        self.written_state()
    }

    fn bind_topic(&mut self, id: TopicId, name: &TopicName, limits: TopicLimits) {
        self.bind_topic(id, name, limits);
    }

    fn identify_topic(&mut self, id: TopicId, uuid: &TopicUuid) -> Identity {
        self.identify_topic(id, uuid)
    }

    fn limits_in_flight(&self, id: TopicId) -> bool {
        self.limits_in_flight(id)
    }

    fn health(&self) -> Health<'_> {
        self.health()
    }

    fn clear_health(&mut self) {
        self.clear_health();
    }

    fn note_down(&mut self, failure: Failure) {
        self.note_down(failure);
    }

    fn close(self) {
        self.close();
    }
}

impl TopicClient for kafka::TopicClient {
    fn look_up(&self, name: &TopicName) -> Result<TopicDescription, Failure> {
        self.look_up(name)
    }

    fn read_topics(&self, names: &[TopicName]) -> Result<Vec<TopicReading>, Failure> {
        self.read_topics(names)
    }

    fn sights(&self, names: &[&TopicName]) -> Vec<Option<TopicSight>> {
        self.sights(names)
    }

    fn ping(&self) -> Result<(), Failure> {
        self.ping()
    }
}

impl StateTopic for kafka::StateTopic {
    fn open(&self) -> Result<Vec<Failure>, Failure> {
        self.open()
    }

    fn extent(&self) -> Result<StateExtent, Failure> {
        self.extent()
    }

    fn cluster_id(&self) -> Result<String, Failure> {
        self.cluster_id()
    }

    fn read(&self, prefix: &[u8]) -> Result<StateLog, Failure> {
        self.read(prefix)
    }

    fn read_on(&self, prefix: &[u8], known: &StateLog) -> Result<StateLog, Failure> {
        self.read_on(prefix, known)
    }
}
