//! What the core and its shell exchange: the settings that the core starts with, the inputs that it
//! receives, and the actions that it asks for.

use std::{num::NonZeroI32, time::Duration};

use pgoutput::{Lsn, PgTimestamp, ReplyRequest};

use crate::{
    backlog::{BacklogFrom, BacklogSettings},
    failure::Failure,
    held::{HeldAnswer, HeldRequest, HeldSettings},
    notice::ServerNotice,
    ports::Acks,
    progress::{feedback::Timing, ledger::ConfirmedLsn, ticket::TransactionRef, window::Window},
    routing::{record::TopicId, table::Outboxes, topic::TopicName, topics::TopicFacts},
    source::{Catalog, Gap, Server, SlotReading, TimelineHistory},
    witness::{TopicSight, WitnessKey},
};

/// The configuration of the core; it does not change while the process runs.
#[derive(Debug, Clone)]
pub struct RelaySettings {
    /// The slot's name; `run` never creates it.
    pub slot: String,
    /// The publication's name; `run` never creates it.
    pub publication: String,
    /// Which tables are outboxes, and how their rows are routed.
    pub outboxes: Outboxes,
    /// Where the witness is kept; `None` if there is no state topic.
    pub witness: Option<WitnessSettings>,
    /// What becomes a dead letter, and how much is held.
    pub held: HeldSettings,
    /// Limits of what lies past the confirmable position.
    pub window: Window,
    /// The largest frame that is read whole, in bytes; the session waits at an outbox row in a
    /// larger one (R005).
    pub row_bytes: usize,
    /// How often a status update is due, and how long the server may be silent.
    pub timing: Timing,
    /// How long a drain may take, from SIGTERM on.
    pub shutdown_limit: Duration,
    /// How a long backlog is read.
    pub backlog: BacklogSettings,
    /// What to do where the state becomes `failed`, because a person is needed.
    pub on_failed: OnFailed,
    /// Seeds the jitter of reconnections; the same seed gives the same run.
    pub seed: u64,
}

/// Whose witness it is, and where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessSettings {
    /// Under what the state topic keeps it.
    pub key: WitnessKey,
    /// A name that no other process has, so that no two processes write under one key.
    pub process: String,
    /// The state topic; its name appears in messages only.
    pub topic: TopicName,
}

/// What to do where the state becomes `failed`: a person is needed, to repair the cause or to
/// accept a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailed {
    /// Stay up and report it: a process that has exited exports no metric.
    Stay,
    /// Exit, with status 79, after what can be delivered is delivered.
    Exit,
}

/// Everything that can happen to the core, except frames: those come through
/// [`crate::Relay::frame`].
#[derive(Debug)]
pub enum Input<'a> {
    /// [`Action::ReadStateTopic`] with this number was answered.
    StateTopic(u64, Result<StateTopicRead, Failure>),
    /// [`Action::CheckStateTopic`] with this number found no record of another process.
    StateTopicUnchanged(u64),
    /// A write of [`Action::WriteStateTopic`] was acknowledged.
    StateTopicWritten(WriteAck),
    /// [`Action::Held`] with this number was answered.
    Held(u64, Result<HeldAnswer, Failure>),
    /// [`Action::Connect`] succeeded: the connection leads to this server.
    Connected(Server),
    /// [`Action::ReadTimelines`] was answered.
    Timelines(TimelineHistory),
    /// [`Action::ReadSlot`] was answered.
    Slot(SlotReading),
    /// [`Action::ReadCatalog`] was answered.
    Catalog(Catalog),
    /// [`Action::StartReplication`] succeeded: the server is streaming. With the process id of its
    /// walsender, unless a pooler hides it.
    ReplicationStarted(Option<i32>),
    /// The frames that come now are read so; from the walsender, unless something else was said
    /// after [`Input::ReplicationStarted`]. What is read by SQL shows nothing of the walsender,
    /// which holds the slot: for each sign of its life there is [`Input::BytesArrived`].
    FramesFrom(BacklogFrom),
    /// A request to PostgreSQL failed, or the connection broke. The shell never reports this of a
    /// connection that [`Action::Disconnect`] has closed.
    Disconnected(Failure),
    /// Part of a frame arrived: the server is alive, though it may take long to complete a large
    /// row.
    BytesArrived,
    /// Another process streams from the slot; with the process id of its walsender, if known.
    SlotHeld(Option<i32>),
    /// [`Action::WatchSlot`] found the slot free.
    SlotFree,
    /// The server ended the stream with `CopyDone`.
    StreamEnded,
    /// A NOTICE or WARNING arrived within the stream.
    Notice(&'a ServerNotice),
    /// The broker acknowledged records.
    Acks(&'a Acks),
    /// A record failed: the sink is closed.
    DeliveryFailed {
        /// The transaction of the record, if the failure concerns one record.
        transaction: Option<TransactionRef>,
        /// What failed.
        failure: Failure,
    },
    /// [`Action::ReplaceSink`] is done, or the first sink is ready.
    SinkReady,
    /// Why Kafka does not answer; `None` when it answers again.
    BrokersUnreachable(Option<Failure>),
    /// [`Action::LookUpTopic`] was answered.
    Topic(TopicId, Result<TopicFacts, Failure>),
    /// The metadata of a topic in use was read again: its partition count. Ignored for a topic that
    /// is not in use.
    Partitions(TopicId, NonZeroI32),
    /// The metadata of a topic in use was read again: the topic does not exist any more.
    TopicGone(TopicId),
    /// Kafka was asked for topics by their names: what is there. One that is missing is ignored
    /// unless its id was seen before.
    TopicsSeen(&'a [(TopicName, TopicSight)]),
    /// The monitor saw that rows may be missing.
    GapSuspected(Gap),
    /// The monitor checked slot, publication and tables, and found no defect.
    SourceVerified(&'a SlotReading, &'a Catalog),
    /// The monitor saw that the server is stopping. Repeating it has no effect within a session.
    ServerStopping,
    /// This process did not run for this long, although something was due: it was stopped (SIGSTOP,
    /// a frozen container) or got no CPU time. The server may have given the slot to another
    /// process.
    ProcessStalled(Duration),
    /// SIGTERM or SIGINT: drain, and exit.
    Shutdown,
    /// [`crate::Relay::deadline`] has passed.
    Tick,
}

/// What the state topic holds of this pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateTopicRead {
    /// Kafka's cluster id.
    pub cluster: String,
    /// The latest record of each of the pipeline's keys.
    pub records: Vec<StateTopicRecord>,
}

/// One record of the state topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateTopicRecord {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its offset; the state topic has one partition.
    pub offset: i64,
}

/// The acknowledgement of a write to the state topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteAck {
    /// The write's.
    pub number: u64,
    /// The offset that it was given.
    pub offset: i64,
}

/// A write to the state topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Returned in [`Input::StateTopicWritten`] when the write is acknowledged.
    pub number: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The value; `None` deletes the key.
    pub value: Option<Vec<u8>>,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read the pipeline's records from the state topic. Answer: [`Input::StateTopic`] with this
    /// number.
    ReadStateTopic(u64),
    /// The same, but only if another process may have written to the state topic since the last
    /// read. Answer: [`Input::StateTopic`] or [`Input::StateTopicUnchanged`], with this number.
    CheckStateTopic(u64),
    /// Write to the state topic. Answer: [`Input::StateTopicWritten`], or
    /// [`Input::DeliveryFailed`] as for any record.
    WriteStateTopic(Write),
    /// Do this with the table of held events, after everything that was asked of it before. Answer:
    /// [`Input::Held`] with this number.
    Held(u64, HeldRequest),
    /// Make the replication connection and read the server's identity. Answer: [`Input::Connected`]
    /// or [`Input::Disconnected`].
    Connect,
    /// On that connection, read the history of this timeline. Answer: [`Input::Timelines`] or
    /// [`Input::Disconnected`].
    ReadTimelines(u32),
    /// On that connection, read the slot. Answer: [`Input::Slot`] or [`Input::Disconnected`].
    ReadSlot,
    /// On that connection, read the publication and the outbox tables, including the tables of this
    /// earlier catalog. Answer: [`Input::Catalog`] or [`Input::Disconnected`].
    ReadCatalog(Option<Box<Catalog>>),
    /// Start streaming from that server, and read what the slot has now as said. It makes no
    /// difference to the frames. [`Action::ReadSlot`] stays possible while it streams.
    /// Answer: [`Input::ReplicationStarted`], [`Input::SlotHeld`] or [`Input::Disconnected`].
    StartReplication(BacklogFrom),
    /// Wait, by SQL, until the slot is free. Answer: [`Input::SlotFree`] or
    /// [`Input::Disconnected`].
    WatchSlot,
    /// Close the replication connection, or stop making it, and drop what was read from it. A
    /// status update that was asked for earlier is still sent, if it can be sent without waiting.
    Disconnect,
    /// Send a status update.
    Status(StatusUpdate),
    /// Send `CopyDone`, then read until the server's own `CopyDone`. Answer:
    /// [`Input::StreamEnded`].
    CopyDone,
    /// Purge and destroy the producer at once, and make a new one after `wait`. Answer:
    /// [`Input::SinkReady`].
    ReplaceSink {
        /// Zero, unless several producers have failed in a row.
        wait: Duration,
    },
    /// Ask Kafka for a topic's partitions. Answer: [`Input::Topic`].
    LookUpTopic(TopicId, TopicName),
    /// End the process.
    Exit(ExitReason),
}

/// A Standby Status Update. `flush` also fills its field for the applied position; only the ledger
/// makes that position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusUpdate {
    /// The position received; the server only shows it in `pg_stat_replication`.
    pub write: Lsn,
    /// The position confirmed; it becomes the slot's `confirmed_flush_lsn`. It is `0/0` as long as
    /// nothing may be confirmed, and the server ignores that.
    pub flush: ConfirmedLsn,
    /// This process's clock.
    pub clock: PgTimestamp,
    /// Whether the server should answer.
    pub reply: ReplyRequest,
}

/// What became of a frame that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameOutcome {
    /// The frame is processed.
    Taken,
    /// The session waits for something: offer the frame again when [`crate::Relay::wants_wal`] is
    /// true.
    NotTaken,
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// Every event that was read is acknowledged, and confirmed or in the witness, so no event is
    /// produced again.
    Drained,
    /// Events were read but not confirmed, because the shutdown deadline passed, the session had
    /// broken, or the rest of their transaction waits for a person. The server will send them
    /// again.
    EventsUnconfirmed,
    /// The state became `failed`, and [`OnFailed::Exit`] was asked for.
    Failed,
}

/// How long to let the socket fill before reading it again.
///
/// The walsender wakes a waiting reader for every message, which costs both sides more than the
/// message. If the reader lets the socket fill, the *server* is faster, and the rows of one read
/// reach Kafka in fewer requests. `docs/performance-log.md` has the figures behind the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPace {
    /// Read at once. A pause would gain nothing: commits are far apart, or the rest of a
    /// transaction follows at once.
    AtOnce,
    /// After each read, let the socket fill for this long.
    Coalesce(Duration),
    /// What is sent was committed long before, so latency does not count: after each read, let the
    /// socket fill for as long as suits the connection.
    Backlog {
        /// By how much the server is behind.
        behind: Duration,
    },
}
