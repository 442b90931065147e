//! Router, witness and topics.

use std::collections::BTreeSet;

use relay::witness::{LastTransaction, Notes, Witness};

use super::{database::Row, filled::Filled};

/// A record in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The topic.
    pub topic: u8,
    /// The id in its header.
    pub id: u64,
    /// The row that it was made of.
    pub row: u64,
    /// It has the marker of `replay`.
    pub is_copy: bool,
}

/// A router that streams.
#[derive(Debug, Clone)]
pub struct Process {
    /// Everything before it is acknowledged.
    pub position: u64,
    /// The last transaction with events before it.
    pub last: Option<LastTransaction>,
    /// The database's notes when it passed a row that was skipped.
    pub notes: Notes,
}

/// Router and topics.
#[derive(Debug, Default)]
pub struct Pipeline {
    /// The record in the state topic.
    pub witness: Option<Witness>,
    /// The router, while one streams.
    pub process: Option<Process>,
    /// What the topics have.
    pub records: Vec<Record>,
    /// Rows that a person with a name gave up.
    pub given_up: BTreeSet<u64>,
    /// The server was restored on its timeline, and no router or command has noticed it since.
    pub is_restored: bool,
    /// Records without the marker are where rows with the same numbers go.
    pub is_mixed: bool,
    /// Sequences have begun again.
    pub is_numbered_again: bool,
    /// Rows of a copy that took the server's place, written while the router read the former one.
    pub beside: BTreeSet<u64>,
    /// What the last back-fill has sent.
    pub filled: Filled,
}

impl Pipeline {
    /// Whether the row's own topic has a record of it, and not only a copy.
    pub fn has(&self, row: &Row) -> bool {
        let is_its = |one: &Record| one.row == row.row && one.topic == row.topic && !one.is_copy;
        self.records.iter().any(is_its)
    }

    /// A record of a row goes to its topic.
    pub fn produce(&mut self, row: &Row) {
        let Row { topic, id, row, .. } = *row;
        self.records.push(Record { topic, id, row, is_copy: false });
    }
}
