//! Counts the events that a slot has still to send, and how many of them were delivered.

use relay::Lsn;

use super::connector::StoredOffset;

/// How far somebody has delivered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Delivered {
    /// Nothing is known.
    Unknown,
    /// Up to an event, by what a connector has stored.
    Offset(StoredOffset),
    /// Up to the end of a transaction.
    Commit(Lsn),
}

/// Events in the order in which the slot sends them, which is the order in which they were
/// delivered: whole transactions by their commits.
#[derive(Debug)]
pub(super) struct Tally {
    until: Delivered,
    /// Events of the stream so far.
    pub(super) all: u64,
    /// Those of them that were delivered.
    pub(super) delivered: u64,
    /// The position of the last row, and how many rows so far have it: rows that were written by
    /// one WAL record share it.
    last: (Lsn, u64),
}

/// Whether a row of an outbox becomes a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    /// It does.
    Event,
    /// `where` filters it; for the connector it is an event.
    FilteredOut,
}

impl Tally {
    pub(super) fn new(until: Delivered) -> Self {
        Self { until, all: 0, delivered: 0, last: (Lsn::ZERO, 0) }
    }

    /// A row of an outbox, at this position.
    pub(super) fn row(&mut self, position: Lsn, kind: RowKind) {
        let nth = if self.last.0 == position { self.last.1 + 1 } else { 1 };
        self.last = (position, nth);
        self.all += u64::from(kind == RowKind::Event);
        if let Delivered::Offset(offset) = self.until
            && offset.lsn == position
            && nth <= offset.events
        {
            self.delivered = self.all;
        }
    }

    /// Something else at this position: the last thing that was stored may be of another table.
    pub(super) fn other(&mut self, position: Lsn) {
        if let Delivered::Offset(offset) = self.until
            && offset.lsn == position
        {
            self.delivered = self.all;
        }
    }

    /// The end of a transaction, or of what the server has to send.
    pub(super) fn passed(&mut self, position: Lsn) {
        let commit = match self.until {
            Delivered::Unknown => None,
            Delivered::Offset(offset) => offset.commit,
            Delivered::Commit(commit) => Some(commit),
        };
        if commit.is_some_and(|commit| position <= commit) {
            self.delivered = self.all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn lsn(position: u64) -> Lsn {
        Lsn::from_u64(position)
    }

    /// Two transactions of two and of four rows; the last three were written by one WAL record.
    fn counted(until: Delivered) -> (u64, u64) {
        let mut tally = Tally::new(until);
        // A transaction's Begin has the position of its first row.
        tally.other(lsn(10));
        tally.row(lsn(10), RowKind::Event);
        tally.row(lsn(20), RowKind::Event);
        tally.passed(lsn(100));
        tally.row(lsn(25), RowKind::FilteredOut);
        tally.other(lsn(30));
        for _ in 0..3 {
            tally.row(lsn(40), RowKind::Event);
        }
        tally.passed(lsn(200));
        (tally.all, tally.delivered)
    }

    fn offset(position: u64, events: u64, commit: u64) -> Delivered {
        Delivered::Offset(StoredOffset { lsn: lsn(position), events, commit: Some(lsn(commit)) })
    }

    #[test]
    fn an_offset_counts_up_to_its_event() {
        assert_eq!(counted(offset(10, 1, 5)), (5, 1));
        assert_eq!(counted(offset(20, 1, 5)), (5, 2));
        assert_eq!(counted(offset(40, 2, 100)), (5, 4));
        assert_eq!(counted(offset(40, u64::MAX, 100)), (5, 5));
    }

    /// A heartbeat or a row of another table may be what was stored last.
    #[test]
    fn an_offset_whose_event_is_not_in_the_slot_counts_whole_transactions() {
        assert_eq!(counted(offset(150, 1, 100)), (5, 2));
        assert_eq!(counted(offset(30, 1, 100)), (5, 2));
        assert_eq!(counted(offset(5, 1, 5)), (5, 0));
    }

    #[test]
    fn a_commit_counts_whole_transactions_and_without_either_nothing_is_known() {
        assert_eq!(counted(Delivered::Commit(lsn(199))), (5, 2));
        assert_eq!(counted(Delivered::Commit(lsn(200))), (5, 5));
        assert_eq!(counted(Delivered::Unknown), (5, 0));
    }
}
