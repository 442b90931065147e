//! A gap: rows that may be missing for ever, with the interval of WAL and time that a person has to
//! look at. Whoever finds it writes the interval into the message, once; from there on both travel
//! together.

use std::fmt;

use pgoutput::Lsn;

use crate::failure::{Code, Failure};

/// A moment on the server: WAL position and its clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Position in the WAL.
    pub lsn: Lsn,
    /// The server's clock, UTC, ISO 8601: by the server, so that it can be compared with the rows'
    /// own times. None for a position that the slot remembers from before this process: when that
    /// was, nobody knows.
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

impl Interval {
    /// The first position at risk.
    pub fn begins_at(&self) -> Lsn {
        self.from.as_ref().map_or(self.to.lsn, |from| from.lsn)
    }
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
        failure.message.push_str(&at_risk(&interval));
        failure.lsn = Some(interval.begins_at());
        failure.hint = Some(closing(failure.hint.take()));
        Self { failure, interval }
    }

    /// Whether rows are left out for as long as what is wrong is not mended, wherever the slot
    /// stands.
    pub fn lasts(&self) -> bool {
        self.failure.code.leaves_rows_out()
    }

    /// The same, seen later: when what was wrong was mended in between, nobody has seen. A gap
    /// without a beginning has its name from its end, which stays.
    pub(crate) fn lasted_until(&mut self, to: &Mark) {
        let has_name = self.interval.from.is_some();
        if !self.lasts() || !has_name || to.lsn <= self.interval.to.lsn {
            return;
        }
        let what = self.what().to_owned();
        self.interval.to = to.clone();
        self.failure.message = what + &at_risk(&self.interval);
    }

    /// What is wrong, without the interval.
    pub(crate) fn what(&self) -> &str {
        let message = &self.failure.message;
        message.strip_suffix(&at_risk(&self.interval)).unwrap_or(message)
    }

    /// Whether it is the same finding: the same code, beginning at the same position.
    pub fn is_same(&self, other: &Self) -> bool {
        self.failure.code == other.failure.code
            && self.interval.begins_at() == other.interval.begins_at()
    }

    /// Whether what the other says is part of this: both put at risk all that came after a
    /// position, and the other begins no earlier. A slot that was made anew because the former one
    /// was lost stands past that position, too.
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

    /// How a person names it: `CODE@LSN`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.failure.code, self.interval.begins_at())
    }

    /// The server's history parted from Kafka's records after `from`: what was committed after that
    /// and up to `to` is in Kafka, and not in this database.
    pub fn of_another_history(mut failure: Failure, from: Lsn, to: Mark) -> Self {
        failure.message = format!(
            "{}; what was committed after {from} and up to {to} may be in kafka without being in this database",
            failure.message
        );
        failure.lsn = Some(from);
        Self { failure, interval: Interval { from: Some(Mark { lsn: from, at: None }), to } }
    }
}

/// What ends every message of a gap.
fn at_risk(Interval { from, to }: &Interval) -> String {
    let after = from.as_ref().map_or_else(String::new, |from| format!("after {from} and "));
    format!("; rows committed {after}up to {to} may be missing in kafka")
}

/// What ends every hint of a gap: mending what is wrong brings no row back, and the router waits
/// for a person.
fn closing(hint: Option<String>) -> String {
    const ACCEPT: &str = "outbox-router accept";
    const MISSING: &str = "publish the rows that were left out meanwhile from the table";
    match hint {
        Some(hint) if hint.contains(ACCEPT) => hint,
        Some(hint) => format!("{hint}; {MISSING}, then {ACCEPT}"),
        None => format!("{MISSING}, then {ACCEPT}"),
    }
}
