//! What must hold, by the names under which a violation is reported. docs/testing.md has the full
//! sentences.

use std::fmt;

/// An invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invariant {
    /// Every committed event is in Kafka, or the router has stopped and says why.
    I1Complete,
    /// Nothing is confirmed that is not in Kafka.
    I2NeverAhead,
    /// First occurrences of a key are its events in commit order; what a session produces of a key
    /// is a run without gaps, in the partition where the key belongs.
    I3Order,
    /// Duplicates stay within the window, and there are none without an interruption.
    I4Duplicates,
    /// Key, value, headers and topic are what was written, and nothing else is.
    I6Fidelity,
    /// A process that has left, or whose session is over, produces nothing.
    I7SingleWriter,
    /// The slot never goes back by our word nor beyond the WAL; a server that wants to stop can;
    /// one that asks is answered in time, but never in a storm.
    I8Slot,
    /// Nothing grows with the number of events.
    I9Resources,
    /// With the faults over, everything arrives and is confirmed.
    I10Liveness,
    /// A failure is reported only if its cause was there, and always if it was.
    I11Loudness,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I1Complete => "I1 completeness",
            Self::I2NeverAhead => "I2 never confirmed early",
            Self::I3Order => "I3 order per key",
            Self::I4Duplicates => "I4 duplicate bound",
            Self::I6Fidelity => "I6 fidelity",
            Self::I7SingleWriter => "I7 single writer",
            Self::I8Slot => "I8 slot bound",
            Self::I9Resources => "I9 resources",
            Self::I10Liveness => "I10 liveness",
            Self::I11Loudness => "I11 loudness",
        })
    }
}

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}
