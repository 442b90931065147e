//! What an event is known by.

use std::fmt;

use pgoutput::Lsn;

/// What an event is known by: logical decoding gives the same for the same WAL, whatever the
/// configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// Where the commit record of its transaction starts.
    pub commit_lsn: Lsn,
    /// Its number among the Insert messages of the transaction, from 0 on.
    pub index: u32,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.commit_lsn, self.index)
    }
}
