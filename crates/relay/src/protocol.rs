//! What is said between the core and its shell: the settings it starts from, the inputs it is
//! given, the actions it asks for.

use std::{num::NonZeroI32, time::Duration};

use pgoutput::{Lsn, PgTimestamp, ReplyRequest};

use crate::{
    failure::Failure,
    ports::Acks,
    progress::ledger::ConfirmedLsn,
    progress::{feedback::Timing, ticket::TransactionRef, window::Window},
    routing::{record::TopicId, table::Outboxes, topic::TopicName, topics::TopicFacts},
    source::{Catalog, Gap, Server, SlotLook, TimelineHistory},
    witness::Pipeline,
};

/// What the core must know before it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The slot.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// Which tables, and how they are routed.
    pub outboxes: Outboxes,
    /// How the witness is kept; `None`: not at all.
    pub witness: Option<WitnessSettings>,
    /// What may lie past the position that may be told.
    pub window: Window,
    /// The largest row, in bytes of its frame.
    pub row_bytes: usize,
    /// Feedback to the server.
    pub timing: Timing,
    /// How long a drain may take.
    pub drain: Duration,
    /// What to do when a person is needed.
    pub on_fatal: OnFatal,
    /// Spreads reconnections; the same seed gives the same run.
    pub seed: u64,
}

/// Whose witness it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessSettings {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// Tells this process from every other, so that no two write under one key.
    pub process: String,
    /// Where it is kept: for people, who are told what they wait for.
    pub topic: TopicName,
}

/// What to do when a person is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFatal {
    /// Stay up and say so: a process that is gone exports no metric.
    Stay,
    /// Exit with 79, for those who prefer it.
    Exit,
}

/// Everything that can happen to the core, but for frames, which come through
/// [`crate::Relay::frame`].
#[derive(Debug)]
pub enum Input<'a> {
    /// [`Action::ReadState`] with this number was answered.
    State(u64, Result<StateRead, Failure>),
    /// [`Action::LookAtState`] with this number found nothing of anybody else's.
    StateUntouched(u64),
    /// [`Action::WriteState`] with this number was acknowledged.
    StateWritten(u64),
    /// [`Action::Connect`] succeeded: this server is at the other end.
    Opened(Server),
    /// [`Action::ReadTimelines`] was answered.
    Timelines(TimelineHistory),
    /// [`Action::ReadSlot`] was answered.
    Slot(SlotLook),
    /// [`Action::ReadCatalog`] was answered.
    Catalog(Catalog),
    /// [`Action::StartReplication`] succeeded: the server is streaming, by this process of it, if
    /// no pooler hides it.
    Connected(Option<i32>),
    /// Something that was asked of PostgreSQL failed, or the connection broke. After
    /// [`Action::Disconnect`] the connection that it closed is not heard of again.
    Disconnected(Failure),
    /// Part of a frame arrived: the server is alive, though it may take long to complete a large
    /// row.
    BytesArrived,
    /// Another process streams from the slot.
    SlotHeld(Option<i32>),
    /// [`Action::WatchSlot`] found the slot free.
    SlotFree,
    /// The server ended the stream in good order (`CopyDone`).
    StreamEnded,
    /// A NOTICE or WARNING arrived within the stream.
    Notice(&'a ServerNotice),
    /// The broker acknowledged records.
    Acks(&'a Acks),
    /// A record failed: the sink is closed.
    DeliveryFailed {
        /// Its transaction, if it was about one.
        transaction: Option<TransactionRef>,
        /// Why.
        failure: Failure,
    },
    /// [`Action::ReplaceSink`] is done, or the first sink is ready.
    SinkReady,
    /// What keeps Kafka from answering; `None` when it answers again.
    SinkTrouble(Option<Failure>),
    /// [`Action::LookUpTopic`] was answered.
    Topic(TopicId, Result<TopicFacts, Failure>),
    /// A topic in use was looked at again: it has so many partitions. Says nothing about a topic
    /// that is not in use.
    Partitions(TopicId, NonZeroI32),
    /// A topic in use was looked at again: it is not there any more.
    TopicGone(TopicId),
    /// The monitor saw that rows may be missing.
    GapSuspected(Gap),
    /// The monitor found slot, publication and tables as they must be.
    SourceSeen(&'a SlotLook, &'a Catalog),
    /// The monitor saw that the server is stopping: once is enough for a session.
    ServerStopping,
    /// This process did nothing for so long, although it had to, that the server may have given the
    /// slot to another: it was stopped (SIGSTOP, a frozen container), or starved.
    ProcessStalled(Duration),
    /// SIGTERM.
    Shutdown,
    /// Time passed.
    Tick,
}

/// What the state topic holds of this pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRead {
    /// Kafka's cluster id.
    pub cluster: String,
    /// The latest record of each of the pipeline's keys.
    pub records: Vec<StateRecord>,
}

/// A record of the state topic: the latest of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRecord {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Where it lies in the topic.
    pub offset: i64,
}

/// A NOTICE or WARNING of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNotice {
    /// `SQLSTATE`.
    pub code: String,
    /// In the server's language.
    pub message: String,
}

/// A write to the state topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Comes back with the acknowledgement.
    pub number: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The value; `None` deletes the key.
    pub value: Option<Vec<u8>>,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read the pipeline's records from the state topic. Answer: [`Input::State`] with this number.
    ReadState(u64),
    /// The same, if anybody else may have written there since it was read last. Answer:
    /// [`Input::State`] or [`Input::StateUntouched`], with this number.
    LookAtState(u64),
    /// Write to the state topic. Answer: [`Input::StateWritten`], or [`Input::DeliveryFailed`] as
    /// for any record.
    WriteState(Write),
    /// Make the replication connection, ask the server who it is. Answer: [`Input::Opened`] or
    /// [`Input::Disconnected`].
    Connect,
    /// On that connection, read the history of this timeline. Answer: [`Input::Timelines`] or
    /// [`Input::Disconnected`].
    ReadTimelines(u32),
    /// On that connection, read the slot. Answer: [`Input::Slot`] or [`Input::Disconnected`].
    ReadSlot,
    /// On that connection, read the publication and the outbox tables, also those of this catalog.
    /// Answer: [`Input::Catalog`] or [`Input::Disconnected`].
    ReadCatalog(Option<Box<Catalog>>),
    /// Start streaming from that server; the slot can still be read beside the stream. Answer:
    /// [`Input::Connected`], [`Input::SlotHeld`] or [`Input::Disconnected`].
    StartReplication,
    /// See by SQL whether the slot is free. Answer: [`Input::SlotFree`], [`Input::SlotHeld`] or
    /// [`Input::Disconnected`].
    WatchSlot,
    /// Close the replication connection, or give up making it, and drop what was read from it. A
    /// status update that was asked for before is still sent, if that can be done without waiting.
    Disconnect,
    /// Send a status update.
    Status(StatusUpdate),
    /// Send `CopyDone`, then read until the server's. Answer: [`Input::StreamEnded`].
    CopyDone,
    /// Purge and destroy the producer, at once, and make a new one after this wait. Answer:
    /// [`Input::SinkReady`].
    ReplaceSink {
        /// Zero, unless one after the other fails.
        wait: Duration,
    },
    /// Ask Kafka for a topic's partitions. Answer: [`Input::Topic`].
    LookUpTopic(TopicId, TopicName),
    /// Leave.
    Exit(Outcome),
}

/// What the server is told. `flush` and `apply` are the same position, and only the ledger makes
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusUpdate {
    /// Received: the server does not keep it, but shows it in `pg_stat_replication`.
    pub write: Lsn,
    /// Delivered: the slot's `confirmed_flush_lsn`. `0/0`, as long as nothing may be confirmed,
    /// tells the server nothing.
    pub flush: ConfirmedLsn,
    /// Our clock.
    pub clock: PgTimestamp,
    /// Whether the server should answer.
    pub reply: ReplyRequest,
}

/// What became of a frame that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Done with it.
    Taken,
    /// Not now: offer the same frame again when [`crate::Relay::wants_wal`] says so.
    Blocked,
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was read is delivered and confirmed.
    Drained,
    /// Events were read but not confirmed, because the shutdown deadline passed, the session had
    /// broken, or the rest of their transaction waits for a person: they will come again.
    DeadlinePassed,
    /// A person must decide.
    Fatal,
}

/// How eagerly to read.
///
/// The walsender wakes a waiting reader for every message, and that costs both more than the
/// message. A reader that lets the socket fill instead makes the *server* faster, and what it reads
/// in one go reaches Kafka in fewer requests. `docs/performance-log.md` has the figures behind the
/// constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Nothing is gained by letting anything gather: commits are far apart, or the rest of a
    /// transaction is right behind what was read of it.
    AtOnce,
    /// Once something was read, let the socket fill for so long.
    Coalesce(Duration),
}
