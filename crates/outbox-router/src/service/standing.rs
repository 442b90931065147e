//! How the router fares at one moment, whatever its source is.

use std::fmt;

use tokio::time::Instant;

use crate::{
    admin::health::{ProbeResult, StartProgress},
    status::Verdict,
    wording::bytes,
};

/// See the module's header.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// As `/startupz` sees this moment.
    pub(crate) start: StartProgress,
    /// As `/livez` says.
    pub(crate) alive: ProbeResult,
    /// As `/status.json` says.
    pub(crate) verdict: Verdict,
    /// The state of the core, as printed.
    pub(crate) state: &'static str,
    /// What is not delivered yet.
    pub(crate) behind: Behind,
    /// Events that Kafka has acknowledged since the start of the process.
    pub(crate) acked: u64,
    /// The moment.
    pub(crate) now: Instant,
}

/// What is not delivered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behind {
    /// It was not read.
    Unknown,
    /// WAL between the slot and the end, in bytes.
    Bytes(u64),
    /// Pending rows, of which there may be more than were counted.
    Rows(u64),
}

impl Behind {
    /// Bytes of WAL, where that is the measure.
    pub(super) const fn bytes(self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Unknown | Self::Rows(_) => None,
        }
    }

    /// Rows, where that is the measure.
    pub(super) const fn rows(self) -> Option<u64> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Unknown | Self::Bytes(_) => None,
        }
    }
}

/// As a part of a line: `, 3.1 MiB behind`; nothing where it is not known.
impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::Bytes(behind) => write!(f, ", {} behind", bytes(*behind)),
            Self::Rows(1) => f.write_str(", 1 row pending"),
            Self::Rows(rows) => write!(f, ", {rows} rows pending"),
        }
    }
}
