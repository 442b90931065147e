//! The two ports through which the core knows the world: a [`RecordSink`] that takes records, and
//! [`Acks`] that come back. The source's port is plain calls: frames in, [`crate::Action`]s out.

use crate::{
    progress::ticket::{Ticket, TransactionRef},
    routing::record::{Record, TopicId},
};

/// Where records go.
///
/// # Contract
/// * `Ok` means *enqueued*, never acknowledged: the ticket comes back through [`Acks`], or as a
///   failure, or never (the sink was closed). A ticket that never comes back is never taken for a
///   success.
/// * Records reach each partition in the order of the calls, without gaps: after the first record
///   that fails, for whatever reason, the sink is closed and refuses everything that follows.
/// * The call does not wait and does not keep a reference to the record.
pub trait RecordSink {
    /// Enqueues one record, or hands the ticket back.
    ///
    /// # Errors
    /// [`Refusal`] says whether the same record may be offered again.
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal>;
}

/// A record that was not enqueued. The ticket returns to the ledger.
#[derive(Debug)]
pub struct Refusal {
    /// The ticket that was not used.
    pub ticket: Ticket,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a sink refuses a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// The producer's queue is full: offer the same record again after the next acknowledgements.
    Full,
    /// Its partition takes no further one before what is on its way is acknowledged, because that
    /// is its first record, which travels alone, or as much as one batch of its topic may hold: the
    /// same.
    Probing,
    /// An earlier record failed: nothing is produced after it in this session.
    Closed,
}

/// Acknowledgements of one poll, run-length encoded by transaction and topic: a thousand records of
/// one transaction are one entry. Reused between polls, so that it allocates nothing once warm.
#[derive(Debug, Default)]
pub struct Acks {
    runs: Vec<AckRun>,
}

/// Acknowledged records of one transaction on one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckRun {
    /// The transaction, within its session.
    pub transaction: TransactionRef,
    /// The topic they went to.
    pub topic: TopicId,
    /// How many records.
    pub records: u32,
    /// What they held of the window, in units of [`Ticket`].
    pub size: u64,
}

impl Acks {
    /// Adds one acknowledged record. Consumes the ticket: an acknowledgement cannot count twice.
    #[inline]
    pub fn push(&mut self, ticket: Ticket, topic: TopicId) {
        let (transaction, size) = ticket.redeem();
        if let Some(last) = self.runs.last_mut()
            && last.transaction == transaction
            && last.topic == topic
            && last.records < u32::MAX
        {
            last.records += 1;
            last.size += size;
            return;
        }
        self.runs.push(AckRun { transaction, topic, records: 1, size });
    }

    /// The runs in the order of arrival.
    pub fn runs(&self) -> &[AckRun] {
        &self.runs
    }

    /// Whether nothing was acknowledged.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.runs.clear();
    }
}
