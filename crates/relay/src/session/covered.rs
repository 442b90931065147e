//! What the server sends again although an earlier session's witness covers it, and how that proves
//! the server's history.
//!
//! After a crash PostgreSQL has lost what was confirmed since it last saved the slot; up to version
//! 16 this also happens after an orderly stop. So it sends transactions again that are in Kafka.
//! They are read, and not produced.
//!
//! A position alone proves nothing: a server that was restored to an earlier state may have written
//! other rows at the same positions, on the same timeline. So nothing is confirmed until the
//! witness's last transaction has come again, with the same end, transaction id and commit time. If
//! it comes, and no other transaction with events follows before the witness's position, the
//! history is the same and Kafka has all of it. Otherwise the server has another history, and a
//! person decides (P015).

use pgoutput::{Begin, Lsn, Oid};

use crate::{
    failure::{Code, Failure},
    progress::transaction::LastTransaction,
    witness::Witness,
};

/// See the module's documentation.
#[derive(Debug, Clone)]
pub(crate) struct Covered {
    /// The position of the witness.
    pub(super) until: Lsn,
    /// The last transaction with events before it.
    pub(super) last: LastTransaction,
    /// Where the slot stood when the session began.
    pub(super) slot_at: Lsn,
    /// The tables whose rows are events, each with the position from which its rows are.
    pub(super) tables: Vec<(Oid, Lsn)>,
    progress: CoveredProgress,
    pub(super) open: Option<OpenTransaction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CoveredProgress {
    /// The witness's last transaction must still come.
    Due,
    /// The last transaction has come, or the slot stands past it: no transaction with events may
    /// follow.
    Seen,
}

/// Whether a transaction has events that the witness covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HasEvents {
    /// It has.
    Yes,
    /// It has no row of an outbox.
    #[default]
    No,
}

/// A covered transaction that is being received.
#[derive(Debug, Clone)]
pub(super) struct OpenTransaction {
    pub(super) begin: Begin,
    pub(super) has_events: HasEvents,
}

impl Covered {
    /// What lies between a slot and a witness that stands past it. `None` also without a last
    /// transaction: then nothing tells what came before, and all of it is sent once more.
    pub(crate) fn by(witness: &Witness, slot_at: Lsn) -> Option<Self> {
        let (until, last) = (witness.position, witness.last?);
        let tables = witness.tables.iter().map(|oid| {
            let since = witness.added.get(&oid.as_u32());
            (*oid, since.copied().unwrap_or(Lsn::ZERO))
        });
        // The server sends a transaction again if and only if its commit record begins at or after
        // the slot's position.
        let progress =
            if last.commit_lsn >= slot_at { CoveredProgress::Due } else { CoveredProgress::Seen };
        (slot_at < until).then(|| Self {
            until,
            last,
            slot_at,
            tables: tables.collect(),
            progress,
            open: None,
        })
    }

    /// Whether a row of this table is an event in a transaction that commits there.
    pub(crate) fn has_event(&self, relation: Oid, commit_at: Lsn) -> bool {
        let counts = |(table, since): &(Oid, Lsn)| *table == relation && commit_at >= *since;
        self.tables.iter().any(counts)
    }

    /// Transactions that commit before it are covered.
    pub(crate) const fn until(&self) -> Lsn {
        self.until
    }

    /// A covered transaction is complete.
    ///
    /// # Errors
    /// It carries events and is not in Kafka (P015).
    pub(crate) fn committed(
        &mut self,
        came: LastTransaction,
        has_events: HasEvents,
    ) -> Result<(), Failure> {
        match self.progress {
            // The comparison ignores `has_events`: the tables may be called something else today.
            CoveredProgress::Due if came == self.last => self.progress = CoveredProgress::Seen,
            CoveredProgress::Due | CoveredProgress::Seen if has_events == HasEvents::No => {}
            CoveredProgress::Due if came.end_lsn <= self.last.commit_lsn => {}
            CoveredProgress::Due | CoveredProgress::Seen => {
                let what = format!(
                    "a transaction came that Kafka has never had, ending at {}",
                    came.end_lsn
                );
                return Err(self.another_history(&what));
            }
        }
        Ok(())
    }

    /// The stream has passed the witness's position.
    ///
    /// # Errors
    /// The witness's last transaction did not come again (P015).
    pub(crate) fn passed(&self) -> Result<(), Failure> {
        if self.progress == CoveredProgress::Seen {
            return Ok(());
        }
        let what = format!("the transaction that ends at {} was not sent again", self.last.end_lsn);
        Err(self.another_history(&what))
    }

    fn another_history(&self, what: &str) -> Failure {
        Failure::new(
            Code::HistoryChanged,
            format!(
                "up to {} everything is in Kafka, but {what}: the server was restored to an earlier state",
                self.until
            ),
        )
    }
}
