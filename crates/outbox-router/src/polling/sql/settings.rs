//! What the configuration says about a polled table, and about this worker.

use std::time::Duration;

use relay::{ErrorPolicy, HoldKeys, OutboxTable};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A table that is polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableConfig {
    /// Its name, and how its rows are routed.
    pub outbox: OutboxTable,
    /// In which order its rows are read; with none, what suits its columns.
    pub order_by: Vec<OrderColumn>,
    /// By what a row is known to be published.
    pub mark: MarkConfig,
}

/// A column by which rows are put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderColumn {
    /// Its name.
    pub name: String,
    /// Which values come first.
    pub direction: Direction,
    /// Where NULL comes.
    pub nulls: Nulls,
}

/// Which values come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// The smallest.
    #[default]
    Asc,
    /// The largest.
    Desc,
}

/// Where NULL comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nulls {
    /// Before all values.
    First,
    /// Behind all values.
    Last,
    /// As if NULL were larger than every value, which is SQL's default.
    #[default]
    Default,
}

/// By what a row is known to be published: the section `outbox.mark`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MarkConfig {
    /// What kind of mark.
    pub how: MarkHow,
    /// The column; `None`: the one that has such a name.
    pub column: Option<String>,
    /// With a status: the words of rows that are to be published. Empty: found by the column.
    pub pending: Vec<String>,
    /// The word of a row that a worker has claimed.
    pub processing: Option<String>,
    /// The word of a published row.
    pub published: Option<String>,
    /// The word of a row that waits for another attempt.
    pub failed: Option<String>,
    /// The word of an abandoned row.
    pub abandoned: Option<String>,
}

impl MarkConfig {
    /// The words of the status that are configured, each with its key in `outbox.mark`.
    pub(crate) fn words(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { how: _, column: _, pending, processing, published, failed, abandoned } = self;
        let others = [
            ("processing", processing),
            ("published", published),
            ("failed", failed),
            ("abandoned", abandoned),
        ];
        let others = others.into_iter().filter_map(|(key, word)| Some((key, word.as_deref()?)));
        pending.iter().map(|word| ("pending", word.as_str())).chain(others)
    }
}

/// What kind of mark a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkHow {
    /// What the columns show.
    #[default]
    Auto,
    /// A time that is NULL while the row is pending.
    Timestamp,
    /// A boolean that is false, or a number that is 0, while the row is pending.
    Flag,
    /// A word.
    Status,
    /// A published row is deleted.
    Delete,
}

/// What statements need to know of this worker.
#[derive(Debug, Clone)]
pub struct SqlSettings {
    /// Which worker this is. It is another one at each start.
    pub worker: Uuid,
    /// What people call it.
    pub name: String,
    /// For how long a claim, like a lease, is valid.
    pub lease: Duration,
    /// Whether the later rows of a key wait for a row of it that waits.
    pub hold_keys: HoldKeys,
    /// The largest row that is produced, in bytes.
    pub row_bytes: usize,
    /// How many bytes of rows are read at a time, but for the row that passes this limit.
    pub keep_bytes: usize,
    /// Whether rows are abandoned at all: then a table needs a place where that is recorded.
    pub on_error: ErrorPolicy,
    /// Which pending rows are read.
    pub scope: RowScope,
    /// What may stream the tables already.
    pub stream: StreamNames,
}

/// The stream that a configuration names.
#[derive(Debug, Clone)]
pub struct StreamNames {
    /// `postgres.slot`.
    pub slot: String,
    /// `postgres.publication`.
    pub publication: String,
}

/// Which pending rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowScope {
    /// All of them.
    #[default]
    All,
    /// Those that `outbox_router.switch_row` names: the others come in the stream.
    Switched,
}
