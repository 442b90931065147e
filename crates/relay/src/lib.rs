//! placeholder
mod failure;
mod headers;
mod ports;
mod record;
mod state;
mod ticket;
mod topic;

pub use failure::{Class, Code, Failure};
pub use headers::RowHeaders;
pub use pgoutput::Lsn;
pub use ports::{AckRun, Acks, RecordSink, Refusal, RefusalReason};
pub use record::{Header, Headers, Record, TopicId};
pub use state::{Condition, State};
pub use ticket::{SessionId, Ticket, TransactionRef};
pub use topic::{IllegalTopicName, TopicName};
mod table;
mod telemetry;
pub use table::{
    ColumnNames, Format, HeaderNames, IllegalTemplate, OutboxTable, Outboxes, Preset, Role,
    TableName, TopicTemplate,
};
pub use telemetry::{LATENCY_BOUNDS, Latencies, Reconnects, Snapshot, TopicTotals};
