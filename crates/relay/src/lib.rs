//! Decides what becomes of an outbox row, and which WAL position may be confirmed.
//!
//! ```text
//! walsender ─bytes→ frame → message → event → route → Record + Ticket → RecordSink → broker
//!     ↑            (pgoutput)        (here: plain functions)                            │
//!     └─ status update(ConfirmedLsn) ← Ledger ← Acks(ticket) ←──────────────────────────┘
//! ```
//!
//! [`Relay`] is a function of (input, now) that answers with [`Action`]s. Records leave it through
//! [`RecordSink`], acknowledgements return as [`Acks`]. It opens no socket, reads no clock, and
//! knows neither tokio nor librdkafka, so every run can be replayed from its inputs.
//!
//! # Modules, in reading order
//!
//! * `progress`: from an acknowledgement to a confirmed position. Its `ledger` says what may be
//!   confirmed, and why.
//! * `protocol`: what core and shell exchange: settings, inputs, actions, the status update.
//! * `machine`: [`Relay`], the states between sessions, and what follows from each input.
//! * `session`: one replication connection, from its first frame to its last status update.
//! * `delivered`: which rows of a table are delivered: what every removal has to prove.
//! * `handover`: how far a back-fill or a switch got, and what follows from it.
//! * `dry_run`: [`DryRun`], the records of a stream that is only looked at.
//! * `routing`: from a row to a record: table, columns, route, headers, partition, topic.
//! * `ports`: records out, acknowledgements in.
//! * `witness`: the record in the state topic: how far everything is acknowledged, and where.
//! * `held`: events that wait in a table instead of stopping the stream.
//! * `source`: what slot, publication and server look like, and what is wrong with them.
//! * `failure`: every code, and the class that decides what follows from it.
//! * `state`, `telemetry`: what the core reports: state, reason and numbers.
//! * `wording`: how messages write sizes, times and causes.
//! * `clock`: time, which is part of each input.
//! * `failpoint`: the places at which a test may end the process.
//! * `testing`: what tests use: the server's side of the protocol, and a sink in memory.
//!
//! # Invariants
//!
//! Tests name the invariants that they show.
//!
//! * **I1** The confirmed position never passes the `commit_lsn` of the oldest transaction that has
//!   an unacknowledged record, so that the slot sends it again.
//! * **I2** The confirmed position never decreases within a session.
//! * **I3** A transaction counts only when its commit was seen *and* every one of its records was
//!   acknowledged.
//! * **I4** A keepalive counts only if no transaction is open when it arrives, and its position is
//!   confirmed only when everything before it is acknowledged.
//! * **I5** Records enter the sink in WAL order, and after the first that fails nothing is produced
//!   in its session.
//! * **I6** Everything that grows has a limit: the window, the topics, the headers of a row, the
//!   remembered names.
//! * **I7** No inserted row vanishes: it is produced, or its table is no outbox, or the table's
//!   `where` filters it and it is counted, or the router stops at it.
//! * **I8** After a gap nothing is produced or confirmed.
//! * **I9** With a state topic, no position past the slot's own is confirmed before this session's
//!   own witness with that position is acknowledged, and no witness names a position before
//!   everything up to it is acknowledged.

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("failpoints are for tests: build without them, or with debug assertions");

mod backlog;
mod clock;
pub mod delivered;
mod dry_run;
pub mod failpoint;
mod failure;
pub mod handover;
pub mod held;
mod machine;
mod notice;
pub mod polling;
mod ports;
mod progress;
mod protocol;
mod republish;
mod routing;
mod session;
pub mod source;
mod state;
mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod witness;
pub mod wording;

pub use backlog::{BacklogFrom, BacklogSettings, LONGEST_RECORD, NamedStandby, SqlReach};
pub use clock::{Moment, Now};
pub use dry_run::{DryFrame, DryRun, Mapping, Transaction};
pub use failure::{Case, Class, Code, Failure, Name, Names};
pub use held::{ErrorClass, ErrorPolicy, HeldLimits, HeldSettings, HoldKeys, OnError};
pub use machine::{Relay, TOPICS_COUNTED};
pub use notice::{ServerNotice, is_of_standby};
pub use pgoutput::{Lsn, Oid, PgTimestamp, ReplyRequest, Xid};
pub use ports::{AckRun, Acks, RecordSink, Refusal, RefusalReason};
pub use progress::{ConfirmedLsn, SessionId, Ticket, Timing, TransactionRef, Window};
pub use protocol::{
    Action, ExitReason, FrameOutcome, Input, OnFailed, ReadPace, RelaySettings, StateTopicRead,
    StateTopicRecord, StatusUpdate, WitnessSettings, Write, WriteAck,
};
pub use republish::{Filtering, Offered, Republish, RepublishSettings};
pub use routing::{
    Alternative, BytesFormat, CharacterKind, ColumnName, ColumnNames, ComparedText, DEBEZIUM,
    DEFAULT, Decimals, EmptyPayload, EnvelopeMember, EpochUnit, Example, ExampleRecord, ExpandJson,
    ExtraHeader, FilterKind, Format, Header, HeaderNames, HeaderValue, Headers, IllegalTemplate,
    IllegalTopicName, Intervals, JavaRegex, JsonPointer, MalformedTemplate, MissingColumns,
    OnMismatch, OnNotJson, OnUpdate, OutboxTable, Outboxes, PRESETS, Preset, Record, Role,
    RowColumns, RowFilter, RowHeaders, TableName, Template, TemplatePart, Times, Timestamp,
    TombstoneOn, TopicFacts, TopicId, TopicName, TopicTemplate, UnsupportedRegex, ValueType,
    hash_of_key, is_role_required, java_properties, partition_for_key, row_columns,
    timestamptz_in_utc,
};
pub use session::{Fate, LastRow, Onlooker, Reason, Unsent};
pub use state::{Condition, State};
pub use telemetry::{
    HeldReport, HeldTotals, LATENCY_BOUNDS, Latencies, NewLetter, OtherTopics, PauseReason,
    Reconnects, Rereads, RowsIgnored, SkippedRow, Snapshot, TopicLook, TopicTotals, WitnessReport,
};
