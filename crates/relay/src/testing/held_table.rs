//! The table of held events in memory. It answers as the product's SQL does.

use std::collections::{BTreeMap, BTreeSet};

use pgoutput::{Lsn, PgTimestamp};

use crate::{
    held::{
        Closed, DECIDED_MAX, Decision, EventId, HeldAnswer, HeldEvent, HeldRequest, KeyHash,
        KeyTotals, KnownAs, Leaving, Loaded, OpenCount, Outcome, TableMark, TableVersion,
    },
    witness::Notes,
};

/// See the module's documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldTable {
    origin: u128,
    writes: u64,
    open: u64,
    rows: BTreeMap<EventId, HeldRow>,
    /// Transactions and ids of the rows that a person wants to be skipped.
    skips: BTreeSet<(Lsn, Option<String>)>,
    /// What notes the database has when a decision is read.
    pub notes: Notes,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRow {
    /// The event.
    pub event: HeldEvent,
    /// What the column `state` says.
    pub state: HeldState,
}

/// The column `state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldState {
    /// It waits.
    Held,
    /// A person wants it to be delivered.
    Requeued,
    /// A person wants it to be dropped.
    Dropping,
    /// It was delivered.
    Delivered,
    /// It was dropped.
    Dropped,
}

impl HeldRow {
    /// Whether it is still to leave.
    pub fn is_open(&self) -> bool {
        matches!(self.state, HeldState::Held | HeldState::Requeued | HeldState::Dropping)
    }

    /// Whether it is a dead letter about which nobody has decided.
    pub fn is_undecided(&self) -> bool {
        self.event.letter.is_some() && self.state == HeldState::Held
    }
}

impl HeldTable {
    /// An empty table that was made again, as another one than that of a former origin.
    #[must_use]
    pub fn made_again(origin: u128) -> Self {
        Self { origin, ..Self::default() }
    }

    /// What the writes have recorded.
    pub fn mark(&self) -> TableMark {
        let Self { origin, writes, open, .. } = *self;
        TableMark { version: (writes > 0).then_some(TableVersion { origin, writes }), open }
    }

    /// Somebody removes an event, past all that is recorded.
    pub fn remove(&mut self, id: EventId) {
        self.rows.remove(&id);
    }

    /// All rows, in the order of their events.
    pub fn rows(&self) -> impl Iterator<Item = &HeldRow> {
        self.rows.values()
    }

    /// How many rows are open, whatever is recorded.
    pub fn open_rows(&self) -> u64 {
        let open = self.rows().filter(|row| row.is_open()).count();
        u64::try_from(open).unwrap_or(u64::MAX)
    }

    /// The row of an event.
    pub fn row(&self, id: EventId) -> Option<&HeldRow> {
        self.rows.get(&id)
    }

    /// Dead letters about which nobody has decided.
    pub fn undecided(&self) -> impl Iterator<Item = EventId> {
        self.rows.iter().filter(|(_, row)| row.is_undecided()).map(|(id, _)| *id)
    }

    /// A person decides about a dead letter.
    pub fn decide(&mut self, id: EventId, decision: Decision) {
        if let Some(row) = self.rows.get_mut(&id).filter(|row| row.is_undecided()) {
            row.state = match decision {
                Decision::Deliver => HeldState::Requeued,
                Decision::Drop => HeldState::Dropping,
            };
        }
    }

    /// A person decides that a row is skipped.
    pub fn skip(&mut self, commit_lsn: Lsn, event_id: Option<&str>) {
        self.skips.insert((commit_lsn, event_id.map(str::to_owned)));
    }

    /// Carries out a request that only reads; `None` for one that writes.
    pub fn read(&self, request: &HeldRequest) -> Option<HeldAnswer> {
        match request {
            HeldRequest::Load { since, open: OpenCount::Recorded } => {
                Some(HeldAnswer::Loaded(Box::new(self.load(*since))))
            }
            HeldRequest::ReadDecided => {
                let is_decided =
                    |row: &&HeldRow| matches!(row.state, HeldState::Requeued | HeldState::Dropping);
                let keys: BTreeSet<KeyHash> =
                    self.rows().filter(is_decided).map(|row| row.event.hash).collect();
                Some(HeldAnswer::Decided(keys.into_iter().take(DECIDED_MAX).collect()))
            }
            HeldRequest::ReadNext { keys, events, bytes } => {
                Some(HeldAnswer::Next(self.next(keys, *events, *bytes)))
            }
            HeldRequest::ReadSkip { id, event_id, .. } => {
                let skip = (id.commit_lsn, event_id.clone());
                Some(HeldAnswer::Skipped(self.skips.contains(&skip).then_some(self.notes)))
            }
            HeldRequest::Load { open: OpenCount::Counted, .. }
            | HeldRequest::Insert(_)
            | HeldRequest::Close { .. } => None,
        }
    }

    /// Carries out a request.
    pub fn answer(&mut self, request: HeldRequest) -> HeldAnswer {
        if let Some(answer) = self.read(&request) {
            return answer;
        }
        match request {
            HeldRequest::Insert(events) => {
                for event in events.iter() {
                    self.rows.entry(event.id).or_insert_with(|| {
                        self.open += 1;
                        HeldRow { event: event.clone(), state: HeldState::Held }
                    });
                }
                self.writes += 1;
                HeldAnswer::Inserted(self.mark())
            }
            HeldRequest::Close { leaving, after } => {
                if self.mark().version == after {
                    self.close(&leaving);
                }
                let first = self.first_of(&leaving);
                HeldAnswer::Closed(Closed { mark: self.mark(), first })
            }
            HeldRequest::Load { since, .. } => {
                if self.writes > 0 {
                    self.open = self.open_rows();
                }
                HeldAnswer::Loaded(Box::new(self.load(since)))
            }
            HeldRequest::ReadDecided
            | HeldRequest::ReadNext { .. }
            | HeldRequest::ReadSkip { .. } => HeldAnswer::Absent,
        }
    }

    fn open_keys(&self) -> BTreeSet<KeyHash> {
        self.rows().filter(|row| row.is_open()).map(|row| row.event.hash).collect()
    }

    fn open_of(&self, key: KeyHash) -> impl Iterator<Item = &HeldRow> {
        self.rows().filter(move |row| row.event.hash == key && row.is_open())
    }

    fn totals(&self, key: KeyHash) -> KeyTotals {
        let first = self.open_of(key).next().map(|row| &row.event);
        let oldest = first.map(|event| event.committed_at);
        let none = EventId { commit_lsn: Lsn::ZERO, index: 0 };
        KeyTotals {
            events: u64::try_from(self.open_of(key).count()).unwrap_or(u64::MAX),
            bytes: self
                .open_of(key)
                .map(|row| u64::try_from(row.event.bytes()).unwrap_or(u64::MAX))
                .sum(),
            oldest: oldest.unwrap_or(PgTimestamp::from_micros(0)),
            first: first.map_or(none, |event| event.id),
        }
    }

    fn load(&self, since: Lsn) -> Loaded {
        let keys = self.open_keys();
        let leaves =
            |key: &&KeyHash| self.open_of(**key).next().is_some_and(|row| !row.is_undecided());
        let known = self.rows.iter().filter(|(id, _)| id.commit_lsn >= since);
        let known_as = |row: &HeldRow| match &row.event.letter {
            _ if row.state == HeldState::Delivered => KnownAs::Delivered,
            Some(letter) if row.is_open() => KnownAs::OpenLetter(letter.code),
            Some(_) | None => KnownAs::Settled,
        };
        Loaded {
            mark: self.mark(),
            leaving: keys.iter().filter(leaves).copied().collect(),
            known: known.map(|(id, row)| (*id, known_as(row))).collect(),
            keys: keys.into_iter().map(|key| (key, self.totals(key))).collect(),
        }
    }

    fn next(&self, keys: &[KeyHash], events: usize, bytes: usize) -> Vec<(HeldEvent, Decision)> {
        let mut blocked = BTreeSet::new();
        let (mut next, mut total) = (Vec::new(), 0);
        for row in self.rows().filter(|row| row.is_open() && keys.contains(&row.event.hash)) {
            if row.is_undecided() {
                blocked.insert(row.event.hash);
            }
            if blocked.contains(&row.event.hash) {
                continue;
            }
            total += row.event.bytes();
            if next.len() == events || (total > bytes && !next.is_empty()) {
                break;
            }
            let is_dropped = row.state == HeldState::Dropping;
            let decision = if is_dropped { Decision::Drop } else { Decision::Deliver };
            next.push((row.event.clone(), decision));
        }
        next
    }

    /// Before the first insert there is nothing in which a write could be recorded.
    fn close(&mut self, leaving: &[Leaving]) {
        self.writes += u64::from(self.writes > 0);
        for Leaving { id, outcome } in leaving {
            let Some(row) = self.rows.get_mut(id).filter(|row| row.is_open()) else { continue };
            let mut left = 0;
            match outcome {
                Outcome::Delivered => (row.state, left) = (HeldState::Delivered, 1),
                Outcome::Dropped => (row.state, left) = (HeldState::Dropped, 1),
                Outcome::Refused(letter) => {
                    row.state = HeldState::Held;
                    row.event.letter = Some(letter.clone());
                }
            }
            self.open = self.open.saturating_sub(left);
        }
    }

    fn first_of(&self, leaving: &[Leaving]) -> Vec<(KeyHash, Option<(EventId, PgTimestamp)>)> {
        let keys: BTreeSet<KeyHash> = leaving
            .iter()
            .filter_map(|one| self.rows.get(&one.id))
            .map(|row| row.event.hash)
            .collect();
        let first =
            |key| self.open_of(key).next().map(|row| (row.event.id, row.event.committed_at));
        keys.into_iter().map(|key| (key, first(key))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
        let mut table = HeldTable::default();
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
