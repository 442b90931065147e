//! A gap: rows that may be missing for ever, with the interval of WAL and time that a person has to look at. Whoever
//! finds it writes the interval into the message, once; from there on both travel together.

use std::fmt;

use pgoutput::Lsn;

use crate::failure::Failure;

/// A moment on the server: WAL position and its clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Position in the WAL.
    pub lsn: Lsn,
    /// The server's clock, UTC, ISO 8601: by the server, so that it can be compared with the rows' own times. None for a
    /// position that the slot remembers from before this process: when that was, nobody knows.
    pub at: Option<String>,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{} ({at})", self.lsn),
            None => self.lsn.fmt(f),
        }
    }
}

/// What is at risk: what was committed after `from` and up to `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// The last moment at which all was well; `None` when this process never saw it well.
    pub from: Option<Mark>,
    /// When the defect was seen; of another history: how far the one that is gone had come.
    pub to: Mark,
}

/// A failure of class gap with its interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// What happened; its message names the interval as well, for those who see only the message.
    pub failure: Failure,
    /// What is at risk.
    pub interval: Interval,
}

impl Gap {
    /// Writes the interval into the failure.
    pub fn new(mut failure: Failure, interval: Interval) -> Self {
        let to = &interval.to;
        failure.message = match &interval.from {
            Some(from) => format!(
                "{}; rows committed after {from} and up to {to} may be missing in kafka",
                failure.message
            ),
            None => {
                format!("{}; rows committed up to {to} may be missing in kafka", failure.message)
            }
        };
        failure.lsn = Some(interval.from.as_ref().map_or(to.lsn, |from| from.lsn));
        Self { failure, interval }
    }

    /// The server's WAL ends at `end`, and up to `furthest` was confirmed: two histories use the same positions. When
    /// they parted, this server does not know.
    pub fn of_another_history(mut failure: Failure, end: Lsn, furthest: Lsn) -> Self {
        failure.message = format!(
            "{}; what was committed after {end} and up to {furthest} then is in kafka and not in \
             this database",
            failure.message
        );
        failure.lsn = Some(end);
        let timeless = |lsn| Mark { lsn, at: None };
        Self { failure, interval: Interval { from: Some(timeless(end)), to: timeless(furthest) } }
    }
}
