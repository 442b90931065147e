//! What a backlog consists of: rows per transaction and their size, and how its events are
//! distributed over keys and topics.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, ensure};

/// Bytes of a row outside its payload: aggregate type, key, event type, and a few for its id.
const ROW_BYTES: u64 = 29;
/// Bytes of `{"pad": "", "seq": 123456}`.
const PAYLOAD_BYTES: u64 = 26;

/// Rows per transaction and bytes per row, as `100x400`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Shape {
    pub(crate) const BATCHED: Self = Self { rows: 100, bytes: 400 };
    pub(crate) const SINGLE: Self = Self { rows: 1, bytes: 400 };
    pub(crate) const LARGE: Self = Self { rows: 100, bytes: 1024 };
    /// From small rows to large ones, and from single rows to one huge transaction.
    pub(crate) const ALL: [Self; 5] = [
        Self { rows: 100, bytes: 100 },
        Self::BATCHED,
        Self::LARGE,
        Self::SINGLE,
        Self { rows: 1_000_000, bytes: 400 },
    ];

    /// Events of a backlog when nothing else is asked for: enough for some seconds of draining.
    pub(crate) const fn usual_events(self) -> u64 {
        match self.rows {
            1 => 400_000,
            _ if self.bytes > 512 => 500_000,
            _ => 1_000_000,
        }
    }

    /// Padding that makes a row about this large.
    pub(crate) fn padding(self) -> u64 {
        self.bytes.saturating_sub(ROW_BYTES + PAYLOAD_BYTES)
    }

    /// This shape, with transactions no larger than a backlog of `events`.
    pub(crate) fn within(self, events: u64) -> Self {
        Self { rows: self.rows.min(events), ..self }
    }

    /// For people.
    pub(crate) fn describe(self) -> String {
        match self.rows {
            1 => format!("1 row of {} B per transaction", self.bytes),
            rows => format!("{rows} rows of {} B per transaction", self.bytes),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.bytes)
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (rows, bytes) = text.split_once('x').context("expected ROWSxBYTES, such as 100x400")?;
        let shape = Self { rows: rows.parse()?, bytes: bytes.parse()? };
        ensure!(shape.rows > 0, "a transaction has at least one row");
        ensure!(shape.bytes >= ROW_BYTES + PAYLOAD_BYTES, "a row has at least 55 bytes");
        Ok(shape)
    }
}

/// Over how many keys, topics and partitions events are distributed: event *n* belongs to key *n*
/// modulo the number of keys, and key *k* to topic *k* modulo the number of topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Distribution {
    pub(crate) keys: u64,
    pub(crate) topics: u64,
    /// Of the topic, if there is one only; if there are many, each has one partition.
    pub(crate) partitions: i32,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { keys: 10_000, topics: 1, partitions: 6 }
    }
}

impl Distribution {
    /// Aggregate types, which become topics.
    pub(crate) fn types(self) -> Vec<String> {
        match self.topics {
            1 => vec!["order".to_owned()],
            topics => (0..topics).map(|number| format!("type{number}")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_parses_from_the_text_that_it_prints() {
        for shape in Shape::ALL {
            assert_eq!(shape.to_string().parse::<Shape>().unwrap(), shape);
        }
        for wrong in ["400", "0x400", "1x20", "1x", "ax400"] {
            wrong.parse::<Shape>().unwrap_err();
        }
    }

    #[test]
    fn a_row_of_400_bytes_has_a_payload_of_371_bytes() {
        assert_eq!(Shape::SINGLE.padding() + PAYLOAD_BYTES, 371);
    }
}
