//! How the slot is made and moved, and what it sends.

use std::collections::BTreeSet;

use super::{
    database::{Commit, Database},
    slot::{Creation, Holder, NotHeld, Slot},
};

impl Database {
    /// WAL names the oldest transaction that runs.
    pub fn log_running(&mut self) {
        self.wal += 10;
        self.running_at.push((self.wal, self.snapshot_xmin()));
    }

    /// Begins to make a slot.
    pub fn create_slot(&mut self, by: u32) {
        let tops = self.running.iter().filter_map(|running| running.ids.first());
        let waits_for = tops.copied().collect();
        self.creation = Some(Creation { by, waits_for, catalog_xmin: self.snapshot_xmin() });
        self.wal += 10;
    }

    pub(super) fn end_waits(&mut self) {
        let tops = self.running.iter().filter_map(|running| running.ids.first().copied());
        let tops: BTreeSet<u64> = tops.collect();
        if let Some(creation) = &mut self.creation {
            creation.waits_for.retain(|xid| tops.contains(xid));
        }
    }

    /// The slot is there once the transactions have ended that it waits for.
    pub fn finish_slot(&mut self, by: u32) -> bool {
        let is_done = |creation: &&mut Creation| creation.by == by && creation.waits_for.is_empty();
        let Some(creation) = self.creation.as_mut().filter(is_done) else { return false };
        let catalog_xmin = creation.catalog_xmin;
        self.creation = None;
        self.wal += 10;
        let confirmed = self.wal;
        let saved = (confirmed, catalog_xmin);
        self.slot = Some(Slot { confirmed, catalog_xmin, saved, is_lost: false, holder: None });
        true
    }

    /// The state in which the slot was made, which its snapshot shows; `None`: it waits.
    pub fn finished_slot(&mut self, by: u32) -> Option<Box<Self>> {
        self.finish_slot(by).then(|| Box::new(self.clone()))
    }

    /// A command holds the slot: `new_slot::hold`, where it was made in this state.
    ///
    /// # Errors
    /// It does not.
    pub fn hold_slot(&mut self, by: u32, made: Option<&Self>) -> Result<(), NotHeld> {
        let slot = self.slot.as_mut().filter(|slot| slot.holder.is_none());
        let slot = slot.ok_or(NotHeld::InUse)?;
        slot.holder = Some(Holder::Command(by));
        let stands_there =
            |made: &Self| made.slot.is_some_and(|made| made.confirmed == slot.confirmed);
        made.is_none_or(stands_there).then_some(()).ok_or(NotHeld::Moved)
    }

    /// Whether the slot can send, and this command holds it.
    pub fn is_held_by(&self, by: u32) -> bool {
        let slot = self.slot.filter(|slot| !slot.is_lost);
        slot.is_some_and(|slot| slot.holder == Some(Holder::Command(by)))
    }

    /// Moves the slot.
    pub fn confirm(&mut self, position: u64) {
        let passed = self.running_at.iter().filter(|(at, _)| *at <= position);
        let xmin = passed.map(|(_, xmin)| *xmin).max();
        if let Some(slot) = &mut self.slot {
            slot.confirmed = slot.confirmed.max(position);
            slot.catalog_xmin = xmin.unwrap_or(0).max(slot.catalog_xmin);
        }
    }

    /// Whether the slot has a row that it sends.
    pub fn slot_sends(&self, row: u64) -> bool {
        let Some(slot) = self.slot.filter(|slot| !slot.is_lost) else { return false };
        let has = |commit: &Commit| commit.sent.iter().any(|sent| sent.row == row);
        self.log.iter().any(|commit| commit.at >= slot.confirmed && has(commit))
    }
}
