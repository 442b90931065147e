//! The rows of the table of held events, and how many of them are recorded as open.

use relay::{
    held::{Closed, Decision, EventId, HeldAnswer, HeldRequest, Loaded, TableMark},
    testing::{HeldRow, HeldTable},
};

/// The product's SQL adds what it inserts to the recorded number, and subtracts what it closes: it
/// never counts, so the number does not follow when somebody deletes rows. [`HeldTable`] counts at
/// each write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountedTable {
    table: HeldTable,
    open: u64,
}

impl CountedTable {
    /// What the writes have recorded.
    pub fn mark(&self) -> TableMark {
        TableMark { open: self.open, ..self.table.mark() }
    }

    /// All rows, in the order of their events.
    pub fn rows(&self) -> impl Iterator<Item = &HeldRow> {
        self.table.rows()
    }

    /// How many rows are open.
    pub fn open_rows(&self) -> u64 {
        let open = self.rows().filter(|row| row.is_open()).count();
        u64::try_from(open).unwrap_or(u64::MAX)
    }

    /// The row of an event.
    pub fn row(&self, id: EventId) -> Option<&HeldRow> {
        self.table.row(id)
    }

    /// Dead letters about which nobody has decided.
    pub fn undecided(&self) -> impl Iterator<Item = EventId> {
        self.table.undecided()
    }

    /// Carries out a request that only reads; `None` for one that writes.
    pub fn read(&self, request: &HeldRequest) -> Option<HeldAnswer> {
        self.table.read(request).map(|answer| self.as_recorded(answer))
    }

    /// Carries out a request.
    pub fn answer(&mut self, request: HeldRequest) -> HeldAnswer {
        let before = self.open_rows();
        let answer = self.table.answer(request);
        self.open = (self.open + self.open_rows()).saturating_sub(before);
        self.as_recorded(answer)
    }

    /// A person decides about a dead letter.
    pub(super) fn decide(&mut self, id: EventId, decision: Decision) {
        self.table.decide(id, decision);
    }

    /// Somebody deletes a row by hand.
    pub(super) fn remove(&mut self, id: EventId) {
        self.table.remove(id);
    }

    fn as_recorded(&self, answer: HeldAnswer) -> HeldAnswer {
        let mark = self.mark();
        match answer {
            HeldAnswer::Loaded(loaded) => HeldAnswer::Loaded(Box::new(Loaded { mark, ..*loaded })),
            HeldAnswer::Inserted(_) => HeldAnswer::Inserted(mark),
            HeldAnswer::Closed(closed) => HeldAnswer::Closed(Closed { mark, ..closed }),
            HeldAnswer::Absent
            | HeldAnswer::Decided(_)
            | HeldAnswer::Next(_)
            | HeldAnswer::Skipped(_) => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use relay::{
        Lsn, PgTimestamp,
        held::{HeldEvent, KeyHash, Leaving, Outcome},
    };

    use super::*;

    fn event(index: u32) -> HeldEvent {
        let id = EventId { commit_lsn: Lsn::from_u64(100), index };
        HeldEvent {
            id,
            committed_at: PgTimestamp::from_micros(0),
            key: None,
            hash: KeyHash::of_event(id),
            event_id: None,
            table: String::new(),
            messages: Vec::new(),
            letter: None,
        }
    }

    #[test]
    fn the_recorded_number_does_not_follow_when_a_row_is_deleted_by_hand() {
        let mut table = CountedTable::default();
        let events: Vec<HeldEvent> = (0..3).map(event).collect();
        let _inserted = table.answer(HeldRequest::Insert(Arc::from(events)));
        assert_eq!((table.mark().open, table.open_rows()), (3, 3));
        table.remove(event(1).id);
        let _inserted = table.answer(HeldRequest::Insert(Arc::from([event(3)])));
        assert_eq!((table.mark().open, table.open_rows()), (4, 3));
        let leaving = vec![Leaving { id: event(0).id, outcome: Outcome::Dropped }];
        let closed = table.answer(HeldRequest::Close { leaving, after: table.mark().version });
        let HeldAnswer::Closed(closed) = closed else { panic!("{closed:?}") };
        assert_eq!((closed.mark.open, table.open_rows()), (3, 2));
    }
}
