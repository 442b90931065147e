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
