//! From a row to a record: which table the row is of, what its columns mean, and the topic,
//! partition and headers of the record.

pub(crate) mod columns;
pub(crate) mod headers;
pub(crate) mod hex;
pub mod java_properties;
pub(crate) mod json;
pub(crate) mod mapping;
pub(crate) mod partition;
pub(crate) mod pointer;
pub(crate) mod record;
pub(crate) mod route;
mod row_columns;
#[cfg(test)]
mod samples;
pub(crate) mod table;
pub(crate) mod template;
pub(crate) mod timestamp;
pub(crate) mod topic;
pub(crate) mod topics;

pub use columns::is_role_required;
pub use headers::{Header, Headers, RowHeaders};
pub use mapping::{ComparedText, FilterKind, ValueType};
pub use partition::{hash_of_key, partition_for_key};
pub use pointer::JsonPointer;
pub use record::{Record, TopicId};
pub use row_columns::{RowColumns, row_columns};
pub use table::{
    BytesFormat, ColumnName, ColumnNames, DEBEZIUM, DEFAULT, Decimals, EmptyPayload,
    EnvelopeMember, Example, ExampleRecord, ExpandJson, ExtraHeader, Format, HeaderNames,
    HeaderValue, Intervals, MissingColumns, OnNotJson, OnUpdate, OutboxTable, Outboxes, PRESETS,
    Preset, Role, RowFilter, TableName, Times, Timestamp, TombstoneOn,
};
pub use template::{Alternative, MalformedTemplate, Part as TemplatePart, Template};
pub use timestamp::{EpochUnit, timestamptz_in_utc};
pub use topic::{
    CharacterKind, IllegalTemplate, IllegalTopicName, JavaRegex, OnMismatch, TopicName,
    TopicTemplate, UnsupportedRegex,
};
pub use topics::TopicFacts;
