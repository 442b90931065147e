//! From a row to a record: which table the row is of, what its columns mean, and the topic,
//! partition and headers of the record.

pub(crate) mod columns;
pub(crate) mod headers;
pub(crate) mod partition;
pub(crate) mod record;
pub(crate) mod route;
pub(crate) mod table;
pub(crate) mod timestamp;
pub(crate) mod topic;
pub(crate) mod topics;

pub use columns::map_columns;
pub use headers::{Header, Headers, RowHeaders};
pub use partition::partition_for_key;
pub use record::{Record, TopicId};
pub use table::{
    ColumnNames, Format, HeaderNames, IllegalTemplate, OutboxTable, Outboxes, Preset, Role,
    TableName, Timestamp, TopicTemplate,
};
pub use timestamp::EpochUnit;
pub use topic::{CharacterKind, IllegalTopicName, TopicName};
pub use topics::TopicFacts;
