//! The way of a row: which table it is of, what its columns say, and the record that it becomes.

pub(crate) mod columns;
pub(crate) mod partition;
pub(crate) mod record;
pub(crate) mod route;
pub(crate) mod row_headers;
pub(crate) mod table;
pub(crate) mod topic;
pub(crate) mod topics;

pub use columns::map_columns;
pub use partition::partition_for_key;
pub use record::{Header, Headers, Record, TopicId};
pub use row_headers::RowHeaders;
pub use table::{
    ColumnNames, Format, HeaderNames, IllegalTemplate, OutboxTable, Outboxes, Preset, Role,
    TableName, Timestamp, TopicTemplate,
};
pub use topic::{CharacterKind, IllegalTopicName, TopicName};
pub use topics::TopicFacts;
