//! A gap: rows that may be missing in Kafka for good, with the interval of WAL and time that a
//! person has to examine. [`Gap::new`] writes the interval into the failure's message once; from
//! then on message and interval stay together.

use std::fmt;

use pgoutput::Lsn;

use crate::failure::{Case, Code, Failure};

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
    /// When the defect was seen: nothing ends there if it [lasts until there is a new
    /// slot](Code::lasts_until_new_slot). If the server's history changed: how far the former
    /// history had come.
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

/// What is known of a defect by its being a gap: the object was there before.
fn case_of_gap(code: Code) -> Option<Case> {
    [Case::SlotDropped, Case::PublicationDropped].into_iter().find(|case| case.code() == code)
}

impl Gap {
    /// Writes the interval into the message of `failure`.
    pub fn new(failure: Failure, interval: Interval) -> Self {
        let mut failure = failure.flattened();
        failure.case = failure.case.or(case_of_gap(failure.code));
        failure.message.push_str(&at_risk(failure.code, &interval));
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
        self.failure.message = what + &at_risk(self.failure.code, &self.interval);
    }

    /// The message without the interval.
    pub(crate) fn message_without_interval(&self) -> &str {
        let message = &self.failure.message;
        let end = at_risk(self.failure.code, &self.interval);
        message.strip_suffix(&end).unwrap_or(message)
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
        code.lasts_until_new_slot() || code == Code::SlotMoved
    }

    /// These gaps, without those that repeat another: one finding that two readings have made, and
    /// that begins elsewhere because one of them knew a later position. The one that begins first
    /// stays. Findings with different codes stay, since each has to be repaired.
    pub(crate) fn without_repeated(gaps: Vec<Self>) -> Vec<Self> {
        let mut distinct: Vec<Self> = Vec::with_capacity(gaps.len());
        for gap in gaps {
            let what = gap.message_without_interval();
            let is_alike = |known: &Self| {
                known.failure.code == gap.failure.code && known.message_without_interval() == what
            };
            if distinct.iter().any(|known| is_alike(known) && known.covers(&gap)) {
                continue;
            }
            distinct.retain(|known| !(is_alike(known) && gap.covers(known)));
            distinct.push(gap);
        }
        distinct
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
fn at_risk(code: Code, Interval { from, to }: &Interval) -> String {
    let after = from.as_ref().map_or_else(String::new, |from| format!("after {from} and "));
    if code.lasts_until_new_slot() {
        return format!(
            "; rows committed {after}until there is a new slot may be missing in Kafka (found at \
             {to})"
        );
    }
    format!("; rows committed {after}up to {to} may be missing in Kafka")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(code: Code, from: u64, what: &str) -> Gap {
        let mark = |lsn| Mark { lsn: Lsn::from_u64(lsn), at: None };
        let interval = Interval { from: Some(mark(from)), to: mark(0x900) };
        Gap::new(Failure::new(code, what.to_owned()), interval)
    }

    #[test]
    fn without_a_slot_there_is_no_end_of_what_may_be_missing() {
        let message = |code| gap(code, 0x100, "it is gone").failure.message;
        for code in [Code::SlotMissing, Code::SlotLost, Code::PublicationMissing] {
            assert_eq!(
                message(code),
                "it is gone; rows committed after 0/100 and until there is a new slot may be \
                 missing in Kafka (found at 0/900)"
            );
            assert_eq!(gap(code, 0x100, "it is gone").message_without_interval(), "it is gone");
        }
        assert_eq!(
            message(Code::PublicationLacksTable),
            "it is gone; rows committed after 0/100 and up to 0/900 may be missing in Kafka"
        );
    }

    #[test]
    fn of_a_finding_that_two_readings_have_made_the_one_that_begins_first_stays() {
        let names = |gaps: Vec<Gap>| -> Vec<String> {
            Gap::without_repeated(gaps).iter().map(Gap::name).collect()
        };
        let slot = |from| gap(Code::SlotMissing, from, "no slot");
        assert_eq!(names(vec![slot(0x108), slot(0x100)]), ["P010@0/100"]);
        assert_eq!(names(vec![slot(0x100), slot(0x108)]), ["P010@0/100"]);
        // The publication has to be repaired, too.
        let both = vec![slot(0x100), gap(Code::PublicationMissing, 0x108, "no publication")];
        assert_eq!(names(both), ["P010@0/100", "P020@0/108"]);
        // Each of two tables has rows of its own.
        let table = |from, what| gap(Code::PublicationLacksTable, from, what);
        let tables = vec![table(0x100, "a is out"), table(0x100, "b is out")];
        assert_eq!(names(tables), ["P021@0/100", "P021@0/100"]);
    }
}
