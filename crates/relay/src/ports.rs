//! The two ports between the core and Kafka: a [`RecordSink`] takes records, and [`Acks`] carry
//! their acknowledgements back. There is no such port for PostgreSQL: the shell calls the core with
//! frames and inputs, and carries out its [`crate::Action`]s.

use crate::{
    failure::Code,
    held::HeldEvent,
    polling::PolledRow,
    progress::ticket::{Ticket, TransactionRef},
    routing::record::{Record, TopicId},
};

/// Where records go.
///
/// # Contract
/// * `Ok` means *enqueued*, never acknowledged. The ticket comes back through [`Acks`], or as a
///   failure, or never (the sink was closed). A ticket that never comes back never counts as a
///   success.
/// * Records reach each partition in the order of the calls, and none is left out: after the first
///   record that fails, for whatever reason, the sink is closed and refuses everything that
///   follows.
/// * The call does not wait and does not keep a reference to the record.
pub trait RecordSink {
    /// Enqueues one record, or returns the ticket.
    ///
    /// # Errors
    /// [`Refusal`] says whether the same record may be offered again.
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal>;

    /// The next record is of this event, which leaves the table of held events. Only a sink that
    /// shows where its records come from needs it.
    #[inline]
    fn releasing(&mut self, _event: &HeldEvent) {}

    /// The next record, or [`RecordSink::unfit`], is of this row, which was polled. Only a sink
    /// that shows where its records come from needs it.
    #[inline]
    fn polled(&mut self, _row: &PolledRow<'_>) {}

    /// The row cannot become a record, for this reason.
    #[inline]
    fn unfit(&mut self, _why: Code) {}
}

/// A record that was not enqueued. The ticket returns to the ledger.
#[derive(Debug)]
pub struct Refusal {
    /// The ticket that was not used.
    pub ticket: Ticket,
    /// Why, which also says when the record may be offered again.
    pub reason: RefusalReason,
}

/// Why a sink refuses a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// The producer's queue is full: offer the same record again after the next acknowledgements.
    Full,
    /// The record's partition waits for the acknowledgement of what is in flight: of its first
    /// record, which travels alone, of as much as one batch of its topic may hold, or, in the state
    /// topic, of the one write. Offer the same record again after the next acknowledgements.
    PartitionWaits,
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
    /// The topic of the records.
    pub topic: TopicId,
    /// How many records.
    pub records: u32,
    /// The part of the window that they held, in units of a [`Ticket`]'s size.
    pub size: u64,
}

impl Acks {
    /// Adds one acknowledged record. It consumes the ticket, so an acknowledgement cannot count
    /// twice.
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

    /// Removes all runs and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.runs.clear();
    }
}
