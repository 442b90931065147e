//! Polled rows: which version of a row a broker has, so that no other version is marked.
//!
//! A version is the `xmin` of the row as it was read, or as it was claimed: the number of the
//! transaction that wrote it. Whoever changes a row between reading and mark, an UPDATE, an upsert
//! or a DELETE with an INSERT, writes it under another number, also where that transaction was open
//! while the row was read: the mark waits for its lock and then finds its number. So a row that has
//! the number still is the row that was sent.
//!
//! That holds for as long as the server keeps what it has committed. After a crash with
//! `synchronous_commit = off`, or on a standby that was promoted, the number of a transaction that
//! was lost is given to another one. Such an event ends every connection, so a version counts in
//! the [`ServerSession`] that read it, and nothing of it is written in another one.
//!
//! Numbers are compared for equality and not for age. VACUUM that freezes a row leaves its number
//! as it is; and a number comes again after 2³² transactions, while a row waits for its mark as
//! long as one batch takes. A rewrite of the table may change numbers: then rows are sent once
//! more.

use pgoutput::Lsn;

use super::{compared::FirstOfGap, row_version::RowAt, rows::EventPart};
use crate::{ports::AckRun, progress::ticket::TransactionRef};

impl RowAt {
    /// A record of it is given to a producer, under this number.
    pub(crate) const fn sent_as(self, record: TransactionRef) -> InFlight {
        InFlight { row: self, record }
    }
}

/// A version of a row whose record is in flight.
#[derive(Debug, PartialEq, Eq)]
pub struct InFlight {
    row: RowAt,
    record: TransactionRef,
}

impl InFlight {
    /// What the acknowledgement of a record makes of it: `Err` where it is another record's.
    pub(crate) fn acked(self, by: &AckRun) -> Result<SentVersion, Self> {
        if by.transaction == self.record && by.records > 0 {
            Ok(SentVersion(self.row))
        } else {
            Err(self)
        }
    }
}

/// A version of a row that is delivered: only such a version is marked as published, or deleted.
/// There is no other way to make one than an acknowledgement, or [`Streamed`]; what a person gives
/// up is [`GivenUp`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentVersion(RowAt);

impl SentVersion {
    /// The row, and the version of it that was sent.
    pub const fn row(&self) -> &RowAt {
        &self.0
    }
}

/// A version of a row that a person has given up: it counts as published, though no broker has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp(RowAt);

impl GivenUp {
    /// `shown`: the row as this person was shown it. `None`: nobody is named.
    pub fn by(person: &str, shown: RowAt) -> Option<Self> {
        (!person.trim().is_empty()).then_some(Self(shown))
    }

    /// The row, and the version of it that was shown.
    pub const fn row(&self) -> &RowAt {
        &self.0
    }
}

/// What a stream has delivered of tables that are polled from now on: every event that a snapshot
/// shows, but for those that the slot has still. [`StreamEnd`](super::StreamEnd) makes it.
#[derive(Debug, Clone, Copy)]
pub struct Streamed(());

/// The rows of one table that a stream has delivered, where the slot does not have them any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamedRows {
    /// Where the events are; `None`: a person has given up its other rows.
    parts: Option<Vec<EventPart>>,
    /// Only rows of transactions before this one are told from those that the slot has still.
    before: Option<FirstOfGap>,
}

impl Streamed {
    /// `delivered_until`: every transaction that commits before it is acknowledged. `read_until`:
    /// the slot is read from there up to this place, before which every transaction has committed
    /// that the snapshot shows.
    ///
    /// `None`: the slot was not read up to there.
    pub(super) fn between(delivered_until: Lsn, read_until: Lsn) -> Option<Self> {
        (delivered_until <= read_until).then_some(Self(()))
    }

    /// Of a table: rows that were in it before its rows were events are in no stream.
    #[must_use]
    pub const fn rows_of(self, parts: Vec<EventPart>) -> StreamedRows {
        StreamedRows { parts: Some(parts), before: None }
    }
}

impl StreamedRows {
    /// Where the table's events are; `None`: a person has given up its other rows.
    pub fn parts(&self) -> Option<&[EventPart]> {
        self.parts.as_deref()
    }

    /// The same, with the rows that are in no stream: a person has given them up.
    #[must_use]
    pub fn with_older_given_up(self) -> Self {
        Self { parts: None, ..self }
    }

    /// The same, where rows that the slot has still were written again since: the key of one may be
    /// another row's now, and its own that of a row which was delivered. `first` is the first
    /// transaction that may have committed behind what is delivered. Such a row was changed by that
    /// one or a later one, so rows of earlier ones are none of them.
    #[must_use]
    pub fn written_before(self, first: FirstOfGap) -> Self {
        Self { before: Some(first), ..self }
    }

    /// Only rows of transactions before this one are delivered for certain; `None`: all are.
    pub const fn before(&self) -> Option<FirstOfGap> {
        self.before
    }

    /// A row that the snapshot shows and that the slot does not have any more, as it shows it, by
    /// a statement that was written from this value.
    pub const fn row(&self, row: RowAt) -> SentVersion {
        SentVersion(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        delivered::RowVersion,
        polling::RowId,
        ports::Acks,
        progress::ticket::{SessionId, Ticket},
        routing::record::TopicId,
    };

    fn row(xmin: u32) -> RowAt {
        RowAt { id: RowId(["7".into()].into()), version: RowVersion::of_xmin(xmin) }
    }

    fn acks(ticket: Ticket) -> Acks {
        let mut acks = Acks::default();
        acks.push(ticket, TopicId::from_index(0).unwrap());
        acks
    }

    #[test]
    fn a_version_is_sent_once_its_own_record_is_acknowledged() {
        let ticket = |producer, number| Ticket::new(SessionId(producer), number, 1);
        let mut in_flight = row(70).sent_as(ticket(1, 5).transaction());
        for other in [ticket(1, 4), ticket(2, 5)] {
            in_flight = in_flight.acked(&acks(other).runs()[0]).unwrap_err();
        }
        let sent = in_flight.acked(&acks(ticket(1, 5)).runs()[0]).unwrap();
        assert_eq!(*sent.row(), row(70));
    }

    #[test]
    fn a_row_that_was_written_again_is_another_version() {
        assert!(row(70).is_still(RowVersion::of_xmin(70)));
        for other in [71, 69, 0, u32::MAX] {
            assert!(!row(70).is_still(RowVersion::of_xmin(other)), "{other}");
        }
    }

    #[test]
    fn a_row_is_given_up_by_somebody_with_a_name() {
        assert_eq!(GivenUp::by(" ", row(70)), None);
        assert_eq!(*GivenUp::by("ann", row(70)).unwrap().row(), row(70));
    }

    #[test]
    fn a_slot_that_was_not_read_proves_nothing() {
        let at = Lsn::from_u64;
        assert!(Streamed::between(at(9), at(8)).is_none());
        assert!(Streamed::between(at(8), at(9)).is_some());
    }

    #[test]
    fn rows_of_no_stream_count_only_where_a_person_gives_them_up() {
        let at = Lsn::from_u64;
        let streamed = Streamed::between(at(8), at(9)).unwrap().rows_of(Vec::new());
        assert_eq!(streamed.parts(), Some(&[][..]));
        assert_eq!(*streamed.row(row(70)).row(), row(70));
        assert_eq!(streamed.before(), None);
        assert_eq!(streamed.with_older_given_up().parts(), None);
    }
}
