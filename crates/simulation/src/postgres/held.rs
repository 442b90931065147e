//! What is asked of the table of held events, and what a person decides in it.

use std::{mem, rc::Rc};

use relay::{
    held::{Decision, EventId, HeldAnswer, HeldRequest, Leaving, TableReading},
    testing::{HeldRow, HeldState, HeldTable},
};

use super::{
    SimulatedPostgres,
    rows::{self, NextRow},
};
use crate::{history::CommitHistory, plan::VersionGroup};

impl SimulatedPostgres {
    /// Carries out a request, and commits what it wrote.
    pub fn ask_held_table(&mut self, request: HeldRequest) -> HeldAnswer {
        if let Some(answer) = self.held.table.read(&request) {
            return answer;
        }
        let ids: Vec<EventId> = match &request {
            HeldRequest::Insert(events) => events.iter().map(|event| event.id).collect(),
            HeldRequest::Close { leaving, .. } => {
                leaving.iter().map(|Leaving { id, .. }| *id).collect()
            }
            HeldRequest::Load { .. }
            | HeldRequest::ReadDecided
            | HeldRequest::ReadNext { .. }
            | HeldRequest::ReadSkip { .. } => Vec::new(),
        };
        let before = self.held.table.mark();
        let is_loaded = matches!(request, HeldRequest::Load { .. });
        let answer = Rc::make_mut(&mut self.held.table).answer(request);
        if !is_loaded || self.held.table.mark() != before {
            self.commit_held_table(&ids);
        }
        answer
    }

    /// What the routers have in the table.
    pub fn read_held_table(&self) -> TableReading {
        let table = &self.held.table;
        TableReading { mark: table.mark(), events: table.open_rows() }
    }

    /// A person decides about a dead letter.
    pub fn decide(&mut self, id: EventId, decision: Decision) {
        Rc::make_mut(&mut self.held.table).decide(id, decision);
        self.commit_held_table(&[id]);
    }

    fn commit_held_table(&mut self, ids: &[EventId]) {
        const COMMIT: u64 = 8;
        self.history.end_of_wal += COMMIT;
        self.held.past.push((self.history.end_of_wal, Rc::clone(&self.held.table)));
        for id in ids {
            let row = self.held.table.row(*id);
            let (state, is_letter) = (row.map(|row| row.state), row.is_some_and(is_letter));
            if let Some(number) = self.event_of(*id) {
                let event = &mut self.history.events[number];
                (event.held, event.is_letter) = (state, is_letter);
                event.is_row_lost &= state.is_none();
            }
        }
    }

    /// The index of the event that is known by this.
    pub fn event_of(&self, id: EventId) -> Option<usize> {
        event_of(&self.history, self.version, id)
    }

    /// The history was cut: takes the table back, too.
    pub(super) fn restore_held_table(&mut self, to: u64) {
        self.held.take_back(to);
        self.note_restored_table();
    }

    /// Somebody deletes the row of an event.
    pub fn remove_held_row(&mut self, id: EventId) {
        Rc::make_mut(&mut self.held.table).remove(id);
        self.commit_replaced_table();
    }

    /// Somebody restores the table to a state that it had before.
    pub fn replace_held_table(&mut self, older: Rc<HeldTable>) {
        self.held.table = older;
        self.commit_replaced_table();
    }

    fn commit_replaced_table(&mut self) {
        self.commit_held_table(&[]);
        self.note_restored_table();
    }

    /// The table is in an earlier state, or lacks rows. Events that are open again, or whose row is
    /// gone, may come after what followed them.
    fn note_restored_table(&mut self) {
        let Self { history, held, version, .. } = self;
        let mut states = vec![(None, false); history.events.len()];
        for row in held.table.rows() {
            if let Some(number) = event_of(history, *version, row.event.id) {
                states[number] = (Some(row.state), is_letter(row));
            }
        }
        for (event, (state, is_letter)) in history.events.iter_mut().zip(states) {
            let was_to_be_dropped = event.is_to_be_dropped();
            let was = mem::replace(&mut event.held, state);
            event.is_letter = is_letter;
            event.is_reopened |= was != state;
            event.is_drop_lost |= was_to_be_dropped && !event.is_to_be_dropped();
            // A person had dropped it, so nobody misses it.
            event.is_accepted |= was == Some(HeldState::Dropped) && state.is_none();
            event.is_row_lost |= was.is_some() && state.is_none();
        }
    }
}

fn is_letter(row: &HeldRow) -> bool {
    row.event.letter.is_some()
}

fn event_of(history: &CommitHistory, version: VersionGroup, id: EventId) -> Option<usize> {
    let transaction = history.transaction_at(id.commit_lsn.as_u64())?;
    let mut index = 0;
    for number in transaction.events.clone() {
        let event = &history.events[number];
        if !event.is_published() {
            continue;
        }
        if index == id.index {
            return Some(number);
        }
        index += 1 + u32::from(rows::after(number, event, version) != NextRow::Nothing);
    }
    None
}
