//! What the server sends again although an earlier session's witness covers it.
//!
//! After a crash PostgreSQL has forgotten what was confirmed since it last saved the slot, and up
//! to version 16 also after an orderly stop; so it sends transactions again that Kafka has. They
//! are read, and not produced. But a position proves nothing by itself: a server that was taken
//! back to an earlier state may have written other rows at the same positions, on the same
//! timeline. So nothing is confirmed until the witness's last transaction has come by again, with
//! the same end, number and commit time. It did, and no other transaction with events came between
//! it and the witness's position: the history is the same, and all of that is in Kafka. It did not:
//! this is another history, and a person decides.

use pgoutput::{Begin, Lsn, Oid};

use crate::{
    failure::{Code, Failure},
    progress::transaction::LastTransaction,
};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Covered {
    /// The position of the witness.
    pub(super) until: Lsn,
    /// The last transaction with events before it.
    pub(super) last: LastTransaction,
    /// Where the slot stands.
    pub(super) slot_at: Lsn,
    /// The tables whose rows counted as events, each with the position since which they did.
    pub(super) tables: Vec<(Oid, Lsn)>,
    progress: Progress,
    pub(super) open: Option<Open>,
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
pub(super) struct Open {
    pub(super) begin: Begin,
    pub(super) has_events: bool,
}

impl Covered {
    /// What lies between a slot and a witness that stands past it.
    pub(crate) fn new(
        slot_at: Lsn,
        until: Lsn,
        last: LastTransaction,
        tables: Vec<(Oid, Lsn)>,
    ) -> Self {
        // The server sends a transaction again if and only if its commit record begins at or after
        // the slot's position.
        let progress = if last.commit_lsn >= slot_at { Progress::Due } else { Progress::Seen };
        Self { until, last, slot_at, tables, progress, open: None }
    }

    /// A covered transaction is complete.
    pub(super) fn committed(&mut self, open: &Open, end_lsn: Lsn) -> Result<(), Failure> {
        let came = LastTransaction {
            commit_lsn: open.begin.final_lsn,
            end_lsn,
            xid: open.begin.xid,
            committed_at: open.begin.committed_at,
        };
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
    pub(super) fn passed(&self) -> Result<(), Failure> {
        if self.progress == Progress::Seen {
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
