//! What a session does with what the server sends again ([`Covered`](super::covered::Covered)).

use pgoutput::{Insert, Lsn, Message, Oid, XLogData};

use super::{
    Session, SessionSettings,
    covered::{HasEvents, OpenTransaction},
};
use crate::{
    failpoint::{self, Failpoint},
    failure::Failure,
    progress::{ledger::Disorder, transaction::LastTransaction},
    source::{Interval, Mark},
    wording,
};

impl Session {
    /// Whether the message is covered; if so, it is processed. The first message that is not
    /// covered ends this state.
    ///
    /// # Errors
    /// The message cannot be decoded or is out of order (P007), or the server has another history
    /// than the witness (P015).
    #[cold]
    pub(super) fn take_covered(
        &mut self,
        frame: &XLogData<'_>,
        settings: &SessionSettings,
    ) -> Result<bool, Failure> {
        let Some(covered) = &mut self.covered else { return Ok(false) };
        if let Some(insert) = Insert::parse(frame.data) {
            let insert = insert?;
            self.cover_row(insert.relation)?;
            return Ok(true);
        }
        match Message::parse(frame.data).as_ref()? {
            Message::Begin(_) if covered.open.is_some() => Err(Disorder::NestedBegin.into()),
            Message::Begin(begin) if begin.final_lsn < covered.until => {
                covered.open = Some(OpenTransaction { begin: *begin, has_events: HasEvents::No });
                Ok(true)
            }
            Message::Begin(_) => {
                self.end_covered()?;
                Ok(false)
            }
            Message::Commit(commit) => {
                let Some(open) = covered.open.take() else {
                    return Err(Disorder::CommitWithoutBegin.into());
                };
                if open.begin.final_lsn != commit.commit_lsn {
                    return Err(Disorder::WrongCommit {
                        begin: open.begin.final_lsn,
                        commit: commit.commit_lsn,
                    }
                    .into());
                }
                let came = LastTransaction::between(&open.begin, commit.end_lsn);
                covered.committed(came, open.has_events)?;
                self.received = self.received.max(commit.end_lsn);
                Ok(true)
            }
            Message::Relation(relation) => {
                self.rows.describe(&settings.outboxes, relation, frame.data);
                Ok(true)
            }
            Message::Type(named) => {
                self.rows.name_type(named, frame.data);
                Ok(true)
            }
            Message::Insert(_)
            | Message::Update(_)
            | Message::Delete(_)
            | Message::Truncate(_)
            | Message::Origin(_)
            | Message::Logical(_)
            | Message::StreamAbort(_) => Ok(true),
        }
    }

    /// Notes a row of a covered transaction, which has events if the row's table is an outbox.
    ///
    /// # Errors
    /// No transaction is open (P007).
    pub(super) fn cover_row(&mut self, relation: Oid) -> Result<(), Failure> {
        let Some(covered) = &mut self.covered else { return Ok(()) };
        let Some(mut open) = covered.open.take() else {
            return Err(Disorder::RowOutsideTransaction.into());
        };
        if covered.has_event(relation, open.begin.final_lsn) {
            open.has_events = HasEvents::Yes;
        }
        covered.open = Some(open);
        Ok(())
    }

    /// Whether a keepalive's position shows that everything covered was sent.
    ///
    /// # Errors
    /// The witness's last transaction did not come again (P015).
    #[cold]
    pub(super) fn covered_until(&mut self, position: Lsn) -> Result<bool, Failure> {
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
        self.ledger.start_after(until, Some(last));
        failpoint::reached(Failpoint::CoveredPassed);
        Ok(())
    }

    /// Whether the stream has not passed what is covered: nothing may be confirmed yet.
    pub(crate) fn is_within_covered(&self) -> bool {
        self.covered.is_some()
    }

    /// The interval of rows at risk when the stream itself shows a gap. Within what is covered
    /// (another history), it is from the slot to the witness. Otherwise it is what came after the
    /// confirmable position. Times are the server's: that of the `acknowledged` mark, and that of
    /// the last message.
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
