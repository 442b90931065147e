//! What the server sends again although an earlier session's witness covers it.
//!
//! After a crash PostgreSQL has forgotten what was confirmed since it last saved the slot, and up to version 16 also
//! after an orderly stop; so it sends transactions again that Kafka has. They are read, and not produced. But a position
//! proves nothing by itself: a server that was taken back to an earlier state may have written other rows at the same
//! positions, on the same timeline. So nothing is confirmed until the witness's last transaction has come by again, with
//! the same end, number and commit time. It did, and no other transaction with events came between it and the witness's
//! position: the history is the same, and all of that is in Kafka. It did not: this is another history, and a person decides.

use pgoutput::{Begin, Insert, Lsn, Message, Oid, XLogData};

use super::{Session, Terms, disorder, protocol};
use crate::{
    bug::{self, Bug},
    failpoint::{self, Failpoint},
    failure::{Code, Failure},
    progress::ledger::Disorder,
    source::{Interval, Mark, wording},
    witness::LastTransaction,
};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Covered {
    /// The position of the witness.
    until: Lsn,
    /// The last transaction with events before it.
    last: LastTransaction,
    /// Where the slot stands.
    slot_at: Lsn,
    /// The tables whose rows counted as events, each with the position since which they did.
    tables: Vec<(Oid, Lsn)>,
    progress: Progress,
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The last transaction is to come.
    Due,
    /// It has come, or the slot stands past it: nothing with events may follow.
    Seen,
}

/// A covered transaction that is being received.
#[derive(Debug)]
struct Open {
    begin: Begin,
    has_events: bool,
}

impl Covered {
    /// What lies between a slot and a witness that stands past it.
    pub(crate) fn new(
        slot_at: Lsn,
        until: Lsn,
        last: LastTransaction,
        tables: Vec<(Oid, Lsn)>,
    ) -> Self {
        // The server sends a transaction again if and only if its commit record begins at or after the slot's position.
        let progress = if last.commit_lsn >= slot_at { Progress::Due } else { Progress::Seen };
        Self { until, last, slot_at, tables, progress, open: None }
    }

    pub(crate) fn until(&self) -> Lsn {
        self.until
    }

    /// A covered transaction is complete.
    fn committed(&mut self, open: &Open, end_lsn: Lsn) -> Result<(), Failure> {
        let came = LastTransaction {
            commit_lsn: open.begin.final_lsn,
            end_lsn,
            xid: open.begin.xid,
            committed_at: open.begin.committed_at,
        };
        if bug::is(Bug::SkipOnFaith) {
            return Ok(());
        }
        match self.progress {
            // Whatever its tables are called today.
            Progress::Due if came == self.last => self.progress = Progress::Seen,
            Progress::Due | Progress::Seen if !open.has_events => {}
            Progress::Due if end_lsn <= self.last.commit_lsn => {}
            Progress::Due | Progress::Seen => {
                let what =
                    format!("a transaction came that kafka has never had, ending at {end_lsn}");
                return Err(self.another_history(&what));
            }
        }
        Ok(())
    }

    /// The stream has passed the witness's position.
    fn passed(&self) -> Result<(), Failure> {
        if self.progress == Progress::Seen || bug::is(Bug::SkipOnFaith) {
            return Ok(());
        }
        let what =
            format!("the transaction that ends at {} did not come by again", self.last.end_lsn);
        Err(self.another_history(&what))
    }

    fn another_history(&self, what: &str) -> Failure {
        Failure::new(
            Code::HistoryChanged,
            format!(
                "up to {} everything is in kafka, but {what}: the server was restored to an earlier state",
                self.until
            ),
        )
        .hint("compare the outbox table with the topics over that interval, then outbox-router accept")
    }
}

impl Session {
    /// Whether the message belongs to what is covered, and is done with. The first that does not ends what is covered.
    #[cold]
    pub(super) fn is_covered(
        &mut self,
        frame: &XLogData<'_>,
        terms: &Terms,
    ) -> Result<bool, Failure> {
        let Some(covered) = &mut self.covered else { return Ok(false) };
        if let Some(insert) = Insert::parse(frame.data) {
            let insert = insert.map_err(|error| protocol(&error))?;
            self.cover_row(insert.relation)?;
            return Ok(true);
        }
        match Message::parse(frame.data).as_ref().map_err(protocol)? {
            Message::Begin(_) if covered.open.is_some() => Err(disorder(Disorder::NestedBegin)),
            Message::Begin(begin) if begin.final_lsn < covered.until => {
                covered.open = Some(Open { begin: *begin, has_events: false });
                Ok(true)
            }
            Message::Begin(_) => {
                self.end_covered()?;
                Ok(false)
            }
            Message::Commit(commit) => {
                let Some(open) = covered.open.take() else {
                    return Err(disorder(Disorder::CommitWithoutBegin));
                };
                if open.begin.final_lsn != commit.commit_lsn {
                    return Err(disorder(Disorder::WrongCommit {
                        begin: open.begin.final_lsn,
                        commit: commit.commit_lsn,
                    }));
                }
                covered.committed(&open, commit.end_lsn)?;
                self.received = self.received.max(commit.end_lsn);
                Ok(true)
            }
            Message::Relation(relation) => {
                self.relations.describe(&terms.outboxes, relation);
                Ok(true)
            }
            Message::Insert(_)
            | Message::Update(_)
            | Message::Delete(_)
            | Message::Truncate(_)
            | Message::Type(_)
            | Message::Origin(_)
            | Message::Logical(_)
            | Message::StreamAbort(_) => Ok(true),
        }
    }

    /// A row of a covered transaction.
    pub(super) fn cover_row(&mut self, relation: Oid) -> Result<(), Failure> {
        let Some(covered) = &mut self.covered else { return Ok(()) };
        let Some(open) = &mut covered.open else {
            return Err(disorder(Disorder::RowOutsideTransaction));
        };
        let commit = open.begin.final_lsn;
        let counts = |(table, since): &(Oid, Lsn)| *table == relation && commit >= *since;
        open.has_events |= covered.tables.iter().any(counts);
        Ok(())
    }

    /// A keepalive: everything before `position` was sent. Whether that passes what is covered.
    #[cold]
    pub(super) fn has_passed_covered(&mut self, position: Lsn) -> Result<bool, Failure> {
        let Some(covered) = &self.covered else { return Ok(true) };
        if position < covered.until || covered.open.is_some() {
            return Ok(false);
        }
        self.end_covered()?;
        Ok(true)
    }

    fn end_covered(&mut self) -> Result<(), Failure> {
        let Some(covered) = &self.covered else { return Ok(()) };
        covered.passed()?;
        let (until, last) = (covered.until, covered.last);
        self.covered = None;
        self.ledger.resume_at(until, Some(last));
        failpoint::reached(Failpoint::CoveredPassed);
        Ok(())
    }

    /// Whether nothing may be confirmed yet.
    pub(crate) fn is_within_covered(&self) -> bool {
        self.covered.is_some() && !bug::is(Bug::ConfirmOnFaith)
    }

    /// What is at risk when the stream itself shows a gap: of another history what the witness covers, else what came
    /// after the last position that is certain. Times are the server's: of what the witness says is acknowledged, and of the
    /// last message.
    pub(crate) fn at_risk(&self, acknowledged: Option<Mark>) -> Interval {
        let (from, to) = match &self.covered {
            Some(covered) => (covered.slot_at, covered.until),
            None => {
                let from = self.ledger.confirmable();
                (from, self.received.max(from))
            }
        };
        let has_time = self.covered.is_none() && self.sent_at.as_micros() > 0;
        let at = acknowledged.filter(|mark| mark.lsn <= from).and_then(|mark| mark.at);
        Interval {
            from: Some(Mark { lsn: from, at }),
            to: Mark {
                lsn: to,
                at: Some(self.sent_at).filter(|_| has_time).and_then(wording::utc),
            },
        }
    }
}
