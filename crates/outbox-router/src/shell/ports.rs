//! What the shell asks of PostgreSQL and of Kafka: exactly its calls, so that a test can play both.
//!
//! The shell is compiled for its two peers, so nothing is looked up while it runs. In the product
//! they are [`super::Source`] and [`KafkaSettings`]; in `tests` both are scripted. WAL itself needs
//! no port: it comes through a `ReplicationStream`, and a test sits at the other end of its socket.

use std::future::Future;

use relay::{
    Acks, Failure, RecordSink, RefusalReason, TopicId, TopicName,
    source::{Catalog, Server, SlotLook, TimelineHistory},
    witness::History,
};

use crate::{
    kafka::{
        self, DeliveryTrouble, Found, Health, Identity, KafkaSettings, KafkaSink, Seen, StateEnd,
        StateRead, TopicDirectory, TopicUuid,
    },
    postgres::ReplicationStream,
};

/// The way to a stream. Each step takes the connection and gives it back; dropping a step drops its
/// connection.
pub trait Postgres: Send + Sync + 'static {
    /// A connection between two steps: ready for a command.
    type Open: Send + 'static;

    /// Connects, and asks the server who it is.
    fn open(&self) -> impl Future<Output = Result<(Self::Open, Server), Failure>> + Send;

    /// Reads the history of a timeline.
    fn timelines(
        &self,
        open: Self::Open,
        timeline: u32,
    ) -> impl Future<Output = Result<(Self::Open, TimelineHistory), Failure>> + Send;

    /// Reads the slot.
    fn look(
        &self,
        open: Self::Open,
    ) -> impl Future<Output = Result<(Self::Open, SlotLook), Failure>> + Send;

    /// Reads the slot beside the stream that holds it, on the server with this history.
    fn look_beside(
        &self,
        history: &History,
    ) -> impl Future<Output = Result<SlotLook, Failure>> + Send;

    /// Reads publication and tables.
    fn catalog(
        &self,
        open: Self::Open,
        remembered: Option<&Catalog>,
    ) -> impl Future<Output = Result<(Self::Open, Catalog), Failure>> + Send;

    /// Starts streaming.
    fn start(&self, open: Self::Open) -> impl Future<Output = Result<Started, Failure>> + Send;

    /// Returns when the slot is free.
    fn watch_slot(&self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// How `START_REPLICATION` ended.
pub enum Started {
    /// The server is streaming: this process of it, if it can be known.
    Streaming(Box<ReplicationStream>, Option<i32>),
    /// Another process has the slot: this one, if the server says so.
    Held(Option<i32>),
}

/// How to make a producer, and what is asked beside it.
pub trait Kafka: Clone + Send + 'static {
    /// The producer, as the streaming task owns it.
    type Sink: Sink;
    /// What the cluster knows of topics.
    type Directory: Directory;
    /// Where the witness is kept.
    type StateTopic: StateTopic;

    /// Makes a producer. Blocks.
    fn open(&self) -> Result<Self::Sink, Failure>;
    /// Asks through the producer's own client.
    fn directory(&self, sink: &Self::Sink) -> Self::Directory;
    /// The same, and lets the producer write there.
    fn state_topic(&self, sink: &mut Self::Sink, name: &TopicName) -> Self::StateTopic;
    /// Whether a record takes less room on the wire than it has bytes.
    fn compresses(&self) -> bool;
}

/// The producer. But for [`Sink::close`] nothing blocks; [`KafkaSink`] says what each call means.
pub trait Sink: RecordSink + Send + 'static {
    /// Waits until there is something to poll. Cancel-safe.
    fn wait_acks(&self) -> impl Future<Output = ()>;
    /// Collects what has arrived; the first failure, once.
    fn poll_acks(&mut self, acks: &mut Acks, limit: usize) -> Option<DeliveryTrouble>;
    /// Enqueues a record for the state topic.
    fn write_state(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        write: u64,
    ) -> Result<(), RefusalReason>;
    /// The latest of them that was acknowledged since this was asked last.
    fn written_state(&mut self) -> Option<u64>;
    /// Takes over a topic that was looked up.
    fn bind_topic(&mut self, id: TopicId, name: &TopicName, max_message_bytes: Option<usize>);
    /// Takes note of which topic it is.
    fn identify_topic(&mut self, id: TopicId, uuid: TopicUuid) -> Identity;
    /// Whether the topic may have little on its way.
    fn holds_back(&self, id: TopicId) -> bool;
    /// Whether Kafka answers.
    fn health(&self) -> Health<'_>;
    /// It has answered.
    fn clear_health(&mut self);
    /// It has not.
    fn note_down(&mut self, failure: Failure);
    /// Drops what is in flight. Blocks.
    fn close(self);
}

/// What the cluster knows of topics. Blocks.
pub trait Directory: Clone + Send + 'static {
    /// Looks a topic up.
    fn look_up(&self, name: &TopicName) -> Result<Found, Failure>;
    /// What topics in use look like now, in the order of `names`.
    fn see(&self, names: &[TopicName]) -> Result<Vec<Seen>, Failure>;
    /// Whether anybody answers.
    fn ping(&self) -> Result<(), Failure>;
}

/// The state topic. Blocks.
pub trait StateTopic: Clone + Send + 'static {
    /// Sees to it that the topic exists, and that it is fit for its purpose; what speaks against it
    /// all the same.
    fn open(&self) -> Result<Vec<Failure>, Failure>;
    /// Where it ends.
    fn end(&self) -> Result<StateEnd, Failure>;
    /// The latest record of each key that begins with `prefix`.
    fn read(&self, prefix: &[u8]) -> Result<StateRead, Failure>;
    /// The same, when it held `known` of that prefix before.
    fn read_on(&self, prefix: &[u8], known: &StateRead) -> Result<StateRead, Failure>;
}

impl Kafka for KafkaSettings {
    type Sink = KafkaSink;
    type Directory = TopicDirectory;
    type StateTopic = kafka::StateTopic;

    fn open(&self) -> Result<KafkaSink, Failure> {
        kafka::open(self)
    }

    fn directory(&self, sink: &KafkaSink) -> TopicDirectory {
        sink.directory(self)
    }

    fn state_topic(&self, sink: &mut KafkaSink, name: &TopicName) -> kafka::StateTopic {
        sink.bind_state(name);
        sink.state_topic(self, name.clone())
    }

    fn compresses(&self) -> bool {
        self.compresses()
    }
}

impl Sink for KafkaSink {
    async fn wait_acks(&self) {
        self.wait_acks().await;
    }

    fn poll_acks(&mut self, acks: &mut Acks, limit: usize) -> Option<DeliveryTrouble> {
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

    fn written_state(&mut self) -> Option<u64> {
        self.written_state()
    }

    fn bind_topic(&mut self, id: TopicId, name: &TopicName, max_message_bytes: Option<usize>) {
        self.bind_topic(id, name, max_message_bytes);
    }

    fn identify_topic(&mut self, id: TopicId, uuid: TopicUuid) -> Identity {
        self.identify_topic(id, uuid)
    }

    fn holds_back(&self, id: TopicId) -> bool {
        self.holds_back(id)
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

impl Directory for TopicDirectory {
    fn look_up(&self, name: &TopicName) -> Result<Found, Failure> {
        self.look_up(name)
    }

    fn see(&self, names: &[TopicName]) -> Result<Vec<Seen>, Failure> {
        self.see(names)
    }

    fn ping(&self) -> Result<(), Failure> {
        self.ping()
    }
}

impl StateTopic for kafka::StateTopic {
    fn open(&self) -> Result<Vec<Failure>, Failure> {
        self.open()
    }

    fn end(&self) -> Result<StateEnd, Failure> {
        self.end()
    }

    fn read(&self, prefix: &[u8]) -> Result<StateRead, Failure> {
        self.read(prefix)
    }

    fn read_on(&self, prefix: &[u8], known: &StateRead) -> Result<StateRead, Failure> {
        self.read_on(prefix, known)
    }
}
