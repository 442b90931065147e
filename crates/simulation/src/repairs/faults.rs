//! What persons and accidents do to server, slot, publication and tables.

use super::{
    database::{Database, HeldState, Row, Switched, TABLES, Update},
    site::{Ids, Shape},
    slot::Slot,
    world::RepairsWorld,
};

impl RepairsWorld {
    /// Persons and tools, and the slot.
    pub(super) fn slot(&mut self) -> Option<&'static str> {
        let is_free = self.site.database.slot.is_none_or(|slot| slot.holder.is_none());
        let lost = |slot: &mut Slot| slot.is_lost = true;
        if self.random.one_in(3) {
            self.site.stop_router();
            self.site.database.slot.as_mut().map(lost)?;
            return Some("slot lost");
        }
        // Of a server that was restored, and whose slot was moved before a router has seen it,
        // positions show nothing: the one pair of faults that is left out.
        if !is_free || self.site.pipeline.is_restored {
            return None;
        }
        let database = &mut self.site.database;
        match (database.slot, self.random.below(3)) {
            (Some(slot), 0) if !slot.is_lost => {
                let end = database.wal;
                database.confirm(end);
                Some("slot advanced")
            }
            (Some(_), 1) => {
                database.slot = None;
                Some("slot dropped")
            }
            (None, _) if database.running.is_empty() && database.creation.is_none() => {
                database.create_slot(0);
                database.finish_slot(0);
                Some("slot made again")
            }
            _ => None,
        }
    }

    /// A table leaves the publication, and comes back.
    pub(super) fn publication(&mut self) -> Option<&'static str> {
        let table = self.random.index(TABLES);
        let database = &mut self.site.database;
        if database.entries.len() < TABLES {
            (0..TABLES).for_each(|table| database.publish(table));
            return Some("published again");
        }
        database.entries.remove(&table);
        database.wal += 10;
        Some("left the publication")
    }

    /// Partitions are made, detached, attached again and dropped.
    pub(super) fn partitions(&mut self) -> Option<&'static str> {
        let detachable = self.detachable();
        let database = &mut self.site.database;
        let detached = database.detached.first().copied();
        match self.random.below(6) {
            0 | 1 => {
                let part = database.new_oid();
                database.add_part(part);
                None
            }
            2 => {
                let part = detachable?;
                database.parts.remove(&part);
                database.detached.insert(part);
                database.assign();
                Some("detached")
            }
            3 | 4 => {
                database.add_part(detached?);
                Some("attached again")
            }
            _ => {
                let part = detached?;
                database.detached.remove(&part);
                let (gone, rows) = database.rows.iter().partition(|row| row.part == Some(part));
                database.rows = rows;
                self.give_up(&gone);
                Some("partition dropped")
            }
        }
    }

    /// A partition that no transaction uses. Of one that was made since the last reading, nobody
    /// knows that it was one.
    fn detachable(&self) -> Option<u32> {
        let database = &self.site.database;
        let Some(witness) = self.site.pipeline.witness.as_ref() else { return self.unwitnessed() };
        let is_known = |part: u32| {
            let mut parts = witness.catalog.relations.iter().flat_map(|table| &table.partitions);
            parts.any(|known| known.oid.as_u32() == part)
        };
        let is_used = |part: u32| {
            let mut rows = database.running.iter().flat_map(|running| &running.rows);
            rows.any(|row| row.part == Some(part))
        };
        let may_go = |part: &u32| is_known(*part) && !is_used(*part);
        database.parts.keys().copied().find(may_go)
    }

    /// The same before a witness knows the partitions: the slot must not have rows of it.
    fn unwitnessed(&self) -> Option<u32> {
        let database = &self.site.database;
        let running = database.running.iter().flat_map(|running| &running.rows);
        let is_used = |part: u32| {
            let sent = database.rows.iter().filter(|row| database.slot_sends(row.row));
            running.clone().chain(sent).any(|row| row.part == Some(part))
        };
        database.parts.keys().copied().find(|part| !is_used(*part))
    }

    /// A row of an outbox is updated, or removed, by the application.
    pub(super) fn application(&mut self) -> Option<&'static str> {
        let database = &mut self.site.database;
        if database.rows.is_empty() {
            return None;
        }
        let index = self.random.index(database.rows.len());
        if self.random.one_in(6) {
            let row = database.rows.remove(index);
            database.assign();
            self.give_up(&[row]);
            let is_random = |shape: &Shape| shape.ids == Ids::Uuids;
            if self.site.setup.shapes.iter().all(is_random) {
                self.freed.push((row.table, row.id));
            }
            return Some("row removed");
        }
        // One of a detached partition is no row of an outbox.
        let row = database.rows.get(index).filter(|row| database.reaches(row))?.row;
        let by = database.assign();
        let filters = self.random.one_in(8);
        let running = database.running.iter_mut().find(|running| !running.is_prepared)?;
        if running.ids.is_empty() {
            running.ids.push(by);
        }
        running.updates.push(Update { row, by, filters });
        Some("row updated")
    }

    /// Who removes rows gives them up, also where a promotion forgets that.
    fn give_up(&mut self, rows: &[Row]) {
        self.site.pipeline.given_up.extend(rows.iter().map(|row| row.row));
    }

    /// A person decides about a dead letter.
    pub(super) fn dead_letter(&mut self) -> Option<&'static str> {
        let database = &mut self.site.database;
        let open = database.held.iter_mut().find(|held| held.state == HeldState::Open)?;
        if self.random.one_in(3) {
            open.state = HeldState::Dropped;
            return Some("dead letter dropped");
        }
        open.state = HeldState::Delivered;
        let row = open.row;
        self.site.pipeline.produce(&row);
        Some("dead letter delivered")
    }

    /// The server is copied, promoted, restored, or crashes.
    pub(super) fn server(&mut self) -> Option<&'static str> {
        match self.random.below(16) {
            0 => Some(self.promote()),
            1 => Some(self.restore()),
            2 => {
                self.end_connections();
                self.site.database.crash();
                Some("crashed")
            }
            3 => {
                let hides = &mut self.site.database.hides;
                *hides = !*hides;
                hides.then_some("rows hidden")
            }
            4..=8 => {
                self.copy = self.site.database.clone();
                // A standby ends what ran on its primary, and a backup has no session; what is
                // prepared is there.
                self.copy.lose_sessions();
                self.copied_at = self.site.clock;
                None
            }
            _ => {
                if self.site.database.hides {
                    self.site.database.hides = false;
                }
                None
            }
        }
    }

    pub(super) fn promote(&mut self) -> &'static str {
        let is_whole = self.copy.log.len() == self.site.database.log.len();
        let mut promoted = self.copy.clone();
        promoted.timelines.push((promoted.history.timeline, promoted.wal));
        promoted.history.timeline += 1;
        promoted.begin_to_write();
        let kept = promoted.slot;
        promoted.slot = None;
        match self.random.below(3) {
            0 => {}
            1 => {
                promoted.create_slot(0);
                promoted.finish_slot(0);
            }
            _ => promoted.slot = kept,
        }
        self.replace(promoted);
        if is_whole { "promoted" } else { "promoted with a loss" }
    }

    /// A base backup that is started without a signal file has no slot; a snapshot of the storage
    /// has it.
    fn restore(&mut self) -> &'static str {
        self.is_truthful = true;
        let mut restored = self.copy.clone();
        restored.begin_to_write();
        if self.random.one_in(4) && restored.switched == Switched::Streamed {
            self.write_beside(&mut restored);
        }
        let is_snapshot = self.random.one_in(2);
        if !is_snapshot {
            restored.slot = None;
        }
        // One large transaction of others comes before anything looks.
        if self.random.one_in(2) {
            restored.assign();
            restored.wal = restored.wal.max(self.site.database.wal) + 10;
        }
        self.replace(restored);
        self.site.pipeline.is_restored = true;
        if is_snapshot { "snapshot restored" } else { "backup restored" }
    }

    /// Rows are written to a copy while the router reads the former server, with their true times.
    fn write_beside(&mut self, copy: &mut Database) {
        let now = self.site.clock;
        let between = u64::try_from(now - self.copied_at).expect("a clock that goes on") + 1;
        let moment = self.copied_at + i64::try_from(self.random.below(between)).expect("hours");
        std::mem::swap(&mut self.site.database, copy);
        self.site.clock = moment;
        self.begin();
        if self.write().is_some() {
            self.coverage.count("written beside");
            // The former server gives the same numbers.
            self.site.pipeline.is_numbered_again = true;
        }
        let running = self.site.database.running.iter();
        if let Some(index) = running.clone().position(|running| !running.is_prepared) {
            let rows = running.skip(index).take(1).flat_map(|running| &running.rows);
            self.site.pipeline.beside.extend(rows.map(|row| row.row));
            self.site.database.commit(index, moment);
        }
        self.site.clock = now;
        std::mem::swap(&mut self.site.database, copy);
    }

    /// Who left rows out, or skipped them, knows it, also where a server has forgotten it. One that
    /// lacks what the witness counts is a gap.
    fn know_unwitnessed(&mut self) {
        let Database { skipped, left_out, note_writes, .. } = &self.site.database;
        let witness = self.site.pipeline.witness.as_ref();
        if witness.is_none_or(|witness| witness.notes.writes < *note_writes) {
            let skipped = skipped.iter().map(|(.., row)| *row);
            let rows = skipped.chain(left_out.iter().map(|row| row.row));
            self.site.pipeline.given_up.extend(rows);
        }
    }

    fn replace(&mut self, mut other: Database) {
        // OIDs are logged long before they are given.
        other.next_oid = self.site.database.next_oid;
        other.settle_prepared_as(&self.site.database);
        self.end_connections();
        self.site.pipeline.filled.forget();
        self.site.pipeline.is_numbered_again |= other.numbers != self.site.database.numbers;
        self.know_unwitnessed();
        // A table of held events that is behind is a gap of its own.
        let held = self.site.database.held.iter().map(|held| held.row.row);
        self.site.pipeline.given_up.extend(held);
        self.copy = other.clone();
        self.copied_at = self.site.clock;
        self.site.database = other;
    }

    /// Every process loses its connection; commands end by that.
    pub(super) fn end_connections(&mut self) {
        self.site.stop_router();
        for actor in std::mem::take(&mut self.actors) {
            actor.leave(&mut self.site);
        }
    }
}
