//! Decides what becomes of an outbox row, and which WAL position may be confirmed.
//!
//! ```text
//! walsender ─bytes→ frame → message → event → route → Record + Ticket → RecordSink → broker
//!     ↑            (pgoutput)        (here: plain functions)                            │
//!     └─ status update(ConfirmedLsn) ← Ledger ← Acks(ticket) ←──────────────────────────┘
//! ```
//!
//! [`Relay`] is a function of (input, now) that answers with [`Action`]s. It knows the world as two ports, [`RecordSink`]
//! and [`Acks`], and nothing of sockets, timers, tokio or librdkafka; so every run of it can be replayed from its
//! inputs.
//!
//! # Invariants
//!
//! Tests name the invariants that they show.
//!
//! * **I1** The confirmed position never passes the end of the last transaction before the oldest unacknowledged one.
//! * **I2** The confirmed position never decreases within a session.
//! * **I3** A transaction counts only when its commit was seen *and* every one of its records was acknowledged.
//! * **I4** A keepalive's position is confirmed only when no transaction is open and everything before it is
//!   acknowledged.
//! * **I5** Records enter the sink in WAL order, and after the first that fails nothing is produced in its session.
//! * **I6** Everything that grows has a limit: the window, the topics, the headers of a row, the remembered names.
//! * **I7** No row vanishes: it is produced, or it is of a table that is no outbox, or the relay stops at it.
//! * **I8** After a gap nothing is produced or confirmed.

#[cfg(all(any(feature = "failpoints", feature = "seeded-bugs"), not(debug_assertions)))]
compile_error!(
    "failpoints and seeded bugs are for tests: build without them, or with debug assertions"
);

mod backoff;
pub mod bug;
mod clock;
mod columns;
pub mod failpoint;
mod failure;
mod feedback;
mod headers;
mod ledger;
mod partition;
mod ports;
mod record;
mod relay;
mod route;
mod session;
pub mod source;
mod state;
mod table;
mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod ticket;
mod topic;
mod topics;
pub mod witness;

pub use clock::{Moment, Now};
pub use columns::map_columns;
pub use failure::{Class, Code, Failure};
pub use feedback::Timing;
pub use headers::RowHeaders;
pub use ledger::{ConfirmedLsn, Window};
pub use partition::partition_for_key;
pub use pgoutput::{Lsn, PgTimestamp, ReplyRequest};
pub use ports::{AckRun, Acks, RecordSink, Refusal, RefusalReason};
pub use record::{Header, Headers, Record, TopicId};
pub use relay::{
    Action, Input, OnFatal, Outcome, Pace, Relay, ServerNotice, Settings, StateRead,
    WitnessSettings,
};
pub use session::{StatusUpdate, Step};
pub use state::{Condition, State};
pub use table::{
    ColumnNames, Format, HeaderNames, IllegalTemplate, OutboxTable, Outboxes, Preset, Role,
    TableName, Timestamp, TopicTemplate,
};
pub use telemetry::{LATENCY_BOUNDS, Latencies, Reconnects, Snapshot, TopicTotals, WitnessReport};
pub use ticket::{SessionId, Ticket, TransactionRef};
pub use topic::{CharacterKind, IllegalTopicName, TopicName};
pub use topics::TopicFacts;
