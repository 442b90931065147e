//! A gap: rows that may be missing in Kafka for good, with the interval of WAL and time that a
//! person has to examine. [`Gap::new`] writes the interval into the failure's message once; from
//! then on message and interval stay together.

use std::fmt;

use pgoutput::Lsn;

use crate::failure::{Code, Failure};

/// A moment on the server: WAL position and its clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Position in the WAL.
    pub lsn: Lsn,
    /// The server's clock, UTC, ISO 8601. It is the server's so that it can be compared with the
    /// times in the rows. None where only the position is known, as of a slot's
    /// `confirmed_flush_lsn` from before this process.
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
    /// The last moment at which the defect was certainly not there; `None` if no such moment is
    /// known.
    pub from: Option<Mark>,
    /// When the defect was seen. If the server's history changed: how far the former history had
    /// come.
    pub to: Mark,
}

impl Interval {
    /// The first position at risk.
    pub fn begins_at(&self) -> Lsn {
        self.from.as_ref().map_or(self.to.lsn, |from| from.lsn)
    }
}

/// A failure of class gap with its interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// What happened. Its message names the interval, too.
    pub failure: Failure,
    /// What is at risk.
    pub interval: Interval,
}

impl Gap {
    /// Writes the interval into the message of `failure`.
    pub fn new(failure: Failure, interval: Interval) -> Self {
        let mut failure = failure.flattened();
        failure.message.push_str(&at_risk(&interval));
        Self::with_message(failure, interval)
    }

    /// The gap whose failure has the interval in its message already.
    pub(crate) fn with_message(failure: Failure, interval: Interval) -> Self {
        Self { failure: failure.of_gap(interval.begins_at()), interval }
    }

    /// Whether rows are left out for as long as the defect lasts, wherever the slot stands.
    pub fn leaves_rows_out(&self) -> bool {
        self.failure.code.leaves_rows_out()
    }

    /// If the defect leaves rows out, extends the interval to `to`: no reading shows when the
    /// defect was repaired. A gap without a beginning is named by its end, so its end stays.
    pub(crate) fn lasted_until(&mut self, to: &Mark) {
        let has_name = self.interval.from.is_some();
        if !self.leaves_rows_out() || !has_name || to.lsn <= self.interval.to.lsn {
            return;
        }
        let what = self.message_without_interval().to_owned();
        self.interval.to = to.clone();
        self.failure.message = what + &at_risk(&self.interval);
    }

    /// The message without the interval.
    pub(crate) fn message_without_interval(&self) -> &str {
        let message = &self.failure.message;
        message.strip_suffix(&at_risk(&self.interval)).unwrap_or(message)
    }

    /// Whether it is the same finding: the same code, beginning at the same position.
    pub fn is_same(&self, other: &Self) -> bool {
        self.failure.code == other.failure.code
            && self.interval.begins_at() == other.interval.begins_at()
    }

    /// Whether the interval of `other` is part of this one: both put everything after a position at
    /// risk, and the other begins no earlier. A slot that was re-created because the former one was
    /// lost is such a case: it stands past the position that the first gap names.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.is_of_everything()
            && other.is_of_everything()
            && self.interval.begins_at() <= other.interval.begins_at()
    }

    fn is_of_everything(&self) -> bool {
        let code = self.failure.code;
        code.is_of_whole_publication()
            || matches!(code, Code::SlotMissing | Code::SlotLost | Code::SlotMoved)
    }

    /// The name by which a person accepts it: `CODE@LSN`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.failure.code, self.interval.begins_at())
    }

    /// The gap where the server's history differs from that of Kafka's records after `from`: what
    /// was committed after that and up to `to` may be in Kafka without being in this database.
    pub(crate) fn of_another_history(failure: Failure, from: Lsn, to: Mark) -> Self {
        let mut failure = failure.flattened();
        failure.message = format!(
            "{}; what was committed after {from} and up to {to} may be in Kafka without being in this database",
            failure.message
        );
        Self::with_message(failure, Interval { from: Some(Mark { lsn: from, at: None }), to })
    }
}

/// The end of every gap's message.
fn at_risk(Interval { from, to }: &Interval) -> String {
    let after = from.as_ref().map_or_else(String::new, |from| format!("after {from} and "));
    format!("; rows committed {after}up to {to} may be missing in Kafka")
}
