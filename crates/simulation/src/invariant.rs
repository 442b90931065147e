//! The invariants, by the names under which violations are reported. docs/testing.md explains them.

use std::fmt;

/// An invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invariant {
    /// Every committed event is in Kafka, or the router has stopped and reports why.
    S1Complete,
    /// Nothing is confirmed that is not in Kafka, or before the witness with its position is
    /// stored; the witness names no position before which an event is missing.
    S2NeverAhead,
    /// First occurrences of a key are its events in commit order; what a session produces of a key
    /// is contiguous, and in the partition where the key belongs.
    S3Order,
    /// Duplicates stay within the window, and there are none without an interruption.
    S4Duplicates,
    /// Key, value, headers and topic are what was written, and nothing else is.
    S6Fidelity,
    /// A process that has left, or whose session is over, produces nothing.
    S7SingleWriter,
    /// The slot never goes back because of a router, nor beyond the end of the WAL. A server that
    /// is stopping can stop. A server that asks for a status update gets it in time, and never too
    /// many of them.
    S8Slot,
    /// Memory does not grow with the number of events.
    S9Resources,
    /// With the faults over, everything arrives and is confirmed.
    S10Liveness,
    /// A failure is reported only if its cause occurred, and always if it did.
    S11Reporting,
    /// Nothing passes a held event of its key; what is in the table is produced from there only,
    /// and nothing that has left it.
    S12Held,
    /// Polling: every committed row that can be delivered is in Kafka, and marked.
    W1Complete,
    /// Polling: no row is marked that no broker has stored.
    W2MarkedEarly,
    /// Polling: first and last records of a key are in the order of its rows.
    W3Order,
    /// Polling: what a key's worker produces is produced and sent under its lease.
    W4OneWorker,
    /// Polling: a row is repeated only after an interruption, at most a batch, and identical.
    W5Duplicates,
    /// Polling: without time, rows or requests there is nothing to do.
    W6Rest,
    /// Polling: no two workers hold one shard, and with the faults over each shard of a table that
    /// a worker polls has one.
    W7Shards,
    /// Polling: a shutdown ends within its limit, and leaves no lease behind.
    W8Shutdown,
    /// Polling: only a row with something wrong with it counts as failed.
    W9Blame,
    /// No row leaves its table that is in no topic, not held, and not given up by a person; and
    /// what is delivered leaves it.
    R1Kept,
    /// Polling: a row into which something was written that no broker has is not marked.
    R2LastVersion,
    /// When a gap is closed, and when nothing is open, no row of the tables is missing that nobody
    /// has given up.
    R3Closed,
    /// A switch marks no row that is in no topic and that nobody has given up, and none that was
    /// written since it was read.
    R4Marked,
    /// When tables are handed to a stream, each of their rows is in a topic, or comes from the
    /// slot, or is given up by a person.
    R5Handed,
    /// A back-fill sends no row twice, but for what an interruption may repeat, and none that comes
    /// from the slot.
    R6Repeated,
}

impl Invariant {
    /// Every one there is.
    pub const ALL: [Self; 26] = [
        Self::S1Complete,
        Self::S2NeverAhead,
        Self::S3Order,
        Self::S4Duplicates,
        Self::S6Fidelity,
        Self::S7SingleWriter,
        Self::S8Slot,
        Self::S9Resources,
        Self::S10Liveness,
        Self::S11Reporting,
        Self::S12Held,
        Self::W1Complete,
        Self::W2MarkedEarly,
        Self::W3Order,
        Self::W4OneWorker,
        Self::W5Duplicates,
        Self::W6Rest,
        Self::W7Shards,
        Self::W8Shutdown,
        Self::W9Blame,
        Self::R1Kept,
        Self::R2LastVersion,
        Self::R3Closed,
        Self::R4Marked,
        Self::R5Handed,
        Self::R6Repeated,
    ];
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::S1Complete => "S1 completeness",
            Self::S2NeverAhead => "S2 never confirmed early",
            Self::S3Order => "S3 order per key",
            Self::S4Duplicates => "S4 duplicate bound",
            Self::S6Fidelity => "S6 fidelity",
            Self::S7SingleWriter => "S7 single writer",
            Self::S8Slot => "S8 slot bound",
            Self::S9Resources => "S9 resources",
            Self::S10Liveness => "S10 liveness",
            Self::S11Reporting => "S11 reporting",
            Self::S12Held => "S12 held events",
            Self::W1Complete => "W1 completeness",
            Self::W2MarkedEarly => "W2 never marked early",
            Self::W3Order => "W3 order per key",
            Self::W4OneWorker => "W4 one worker per key",
            Self::W5Duplicates => "W5 duplicate bound",
            Self::W6Rest => "W6 rest",
            Self::W7Shards => "W7 shards",
            Self::W8Shutdown => "W8 shutdown",
            Self::W9Blame => "W9 blame",
            Self::R1Kept => "R1 kept until delivered",
            Self::R2LastVersion => "R2 last version",
            Self::R3Closed => "R3 closed gaps",
            Self::R4Marked => "R4 marked by a switch",
            Self::R5Handed => "R5 handed to a stream",
            Self::R6Repeated => "R6 repeated by a back-fill",
        })
    }
}

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}
