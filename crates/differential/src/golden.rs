//! What the real Debezium made of a case's rows, as it is kept in the repository.

use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

pub use crate::bytes::{Bytes, Hex};

/// The recording of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// What made it.
    pub recorded_by: RecordedBy,
    /// The server's messages about the types of its columns that are not built in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<Hex>,
    /// The server's message about the table.
    pub relation: Hex,
    /// One for each row of the case, in the same order.
    pub rows: Vec<RecordedRow>,
    /// The server's messages about what comes before the last row, where the case has such
    /// statements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before_last_row: Vec<Hex>,
    /// Why Debezium's task ended, where it did: what follows has no records then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_failed: Option<String>,
}

/// What made a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedBy {
    /// Debezium and Kafka Connect.
    pub versions: String,
    /// The major version of the server.
    pub postgres: u16,
    /// How to do it again.
    pub command: String,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedRow {
    /// The server's message about it.
    pub insert: Hex,
    /// Debezium's records; none where it refused the row, or dropped it.
    pub debezium: Vec<Record>,
    /// Why Debezium wrote none: the exception's class and the first line of its message, as the
    /// worker logged it or the task ended with it; `None` too where neither says anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What the router makes of it, where that is not Debezium's record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<Outcome>,
}

/// What becomes of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its record.
    Record(Record),
    /// The router stops there: the code.
    Stops(String),
}

/// A record in Kafka.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Topic.
    pub topic: String,
    /// Partition, of as many as [`PARTITIONS`](crate::ours::PARTITIONS) says; `None` without a key,
    /// because Kafka's producer takes any one then.
    pub partition: Option<i32>,
    /// Key.
    pub key: Option<Bytes>,
    /// Value.
    pub value: Option<Bytes>,
    /// Headers, in their order.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// Its time.
    pub time: Time,
}

/// The time of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Time {
    /// That of the event: when it was committed, or read.
    Event,
    /// Milliseconds since 1970, from the row.
    Row(i64),
}

impl Golden {
    /// Where the recording of a case is kept.
    pub fn path(case: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens").join(format!("{case}.json"))
    }

    /// Reads the recording of a case.
    ///
    /// # Errors
    ///
    /// Fails when there is none.
    pub fn read(case: &str) -> anyhow::Result<Self> {
        let path = Self::path(case);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no golden", path.display()))
    }

    /// Keeps it.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn write(&self, case: &str) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        Ok(std::fs::write(Self::path(case), text + "\n")?)
    }
}
