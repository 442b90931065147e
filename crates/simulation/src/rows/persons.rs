//! What persons and tools do to the server around a pipeline.

use relay::{delivered::FullXid, source::Inserts};

use super::{
    database::{Altering, Attachment, Database, PARTITIONED, PLAIN, Part, Row, Running},
    world::RowsWorld,
};

impl RowsWorld {
    /// Committed rows get another transaction: by UPDATE, or all of a place by ALTER TABLE.
    pub(super) fn change(&mut self) -> Option<&'static str> {
        let rows = &self.database.rows;
        let Row { id, part, .. } = *rows.get(self.random.index(rows.len().max(1)))?;
        let is_rewritten = self.random.one_in(4);
        // Of rows from before with a time of the future, nothing shows that then.
        let is_changed = |row: &Row| row.id == id || is_rewritten && row.part == part;
        if rows.iter().any(|row| is_changed(row) && row.time > row.written) {
            return None;
        }
        if is_rewritten && !self.is_unused(part) {
            return None;
        }
        let xid = FullXid::from_u64(self.database.assign());
        let changed = self.database.rows.iter_mut().filter(|row| is_changed(row));
        changed.for_each(|row| row.xid = xid);
        self.database.wal += 5;
        Some(if is_rewritten { "rewritten" } else { "updated" })
    }

    /// Rows of a table have their age by a column that is added with the default `now()`, or that
    /// is filled with it.
    pub(super) fn add_time(&mut self) -> Option<&'static str> {
        let table = if self.random.one_in(2) { PARTITIONED } else { PLAIN };
        let parts: Vec<u32> = self.database.reached(table).map(|part| part.oid).collect();
        if parts.iter().any(|part| !self.is_unused(*part)) {
            return None;
        }
        self.database.assign();
        let clock = self.database.clock;
        let rows = self.database.rows.iter_mut().filter(|row| parts.contains(&row.part));
        rows.for_each(|row| row.time = clock);
        *self.database.times.get_mut(table)? += 1;
        self.database.wal += 5;
        Some("aged by another column")
    }

    /// What persons and tools do with partitions.
    pub(super) fn partitions(&mut self) -> Option<&'static str> {
        let parts: Vec<Part> =
            self.database.parts.iter().filter(|part| part.table == PARTITIONED).copied().collect();
        let pending = parts.iter().find(|part| part.attachment == Attachment::Pending);
        match self.random.below(4) {
            0 => {
                let xid = self.database.assign();
                let part = self.database.new_partition(xid);
                self.database.parts.push(part);
                None
            }
            1 => {
                // A table of its own, which rows are written to, and that is attached some time.
                self.database.assign();
                let part = self.database.new_part(PARTITIONED);
                let part = Part { attachment: Attachment::Detached, ..part };
                self.database.parts.push(part);
                None
            }
            2 => {
                let detached: Vec<u32> = parts
                    .iter()
                    .filter(|part| part.attachment == Attachment::Detached)
                    .map(|part| part.oid)
                    .collect();
                let oid = *detached.get(self.random.index(detached.len().max(1)))?;
                self.attach(oid)
            }
            _ => match pending.copied() {
                Some(part) => {
                    // FINALIZE waits for everybody.
                    if !self.is_unused(part.oid) {
                        return None;
                    }
                    self.database.with_oid(part.oid)?.attachment = Attachment::Detached;
                    None
                }
                None => {
                    let attached: Vec<Part> = parts
                        .into_iter()
                        .filter(|part| part.attachment == Attachment::Attached && !part.is_locked)
                        .collect();
                    let part = attached.get(self.random.index(attached.len().max(1)))?;
                    self.database.with_oid(part.oid)?.attachment = Attachment::Pending;
                    Some("half detached")
                }
            },
        }
    }

    fn is_unused(&self, oid: u32) -> bool {
        let uses = |running: &Running| {
            running.locks.contains(&PARTITIONED) || running.rows.iter().any(|row| row.part == oid)
        };
        !self.database.running.iter().any(uses)
    }

    fn attach(&mut self, oid: u32) -> Option<&'static str> {
        if !self.is_unused(oid) {
            return None;
        }
        let xid = self.database.assign();
        let part = self.database.with_oid(oid)?;
        *part = part.attached(xid);
        Some("attached later")
    }

    /// The configuration of the next router.
    pub(super) fn tables(&mut self) -> Option<&'static str> {
        if self.database.altering.is_some() {
            return None;
        }
        self.pipeline.process = None;
        if self.pipeline.tables.remove(&PLAIN) {
            return Some("left");
        }
        self.pipeline.tables.insert(PLAIN);
        if !self.database.published.contains_key(&PLAIN) {
            self.next_entry += 1;
            self.database.published.insert(PLAIN, self.next_entry);
        }
        Some("joined")
    }

    /// A person takes a table out of the publication, or puts it back.
    pub(super) fn publication(&mut self) -> Option<&'static str> {
        if self.database.altering.take().is_some() {
            return Some("alteration shown");
        }
        if !self.random.one_in(3) {
            return None;
        }
        if self.random.one_in(2) {
            self.set_publish(Inserts::Withheld);
            return Some("inserts withheld");
        }
        let table = if self.random.one_in(2) { PLAIN } else { PARTITIONED };
        let shown = self.database.published.clone();
        if self.database.published.remove(&table).is_none() {
            self.next_entry += 1;
            self.database.published.insert(table, self.next_entry);
        }
        if self.random.one_in(2) {
            let xid = self.database.assign();
            self.database.altering = Some(Altering { xid, shown });
            self.database.wal += 5;
            self.write_behind(table);
            return Some("alteration hidden");
        }
        Some("publication altered")
    }

    /// The oldest transaction writes to a table whose alteration is in WAL already, and commits.
    fn write_behind(&mut self, table: usize) {
        let running = self.database.running.iter().enumerate();
        let oldest = running.filter_map(|(index, one)| Some((*one.ids.first()?, index))).min();
        let part = self.database.reached(table).filter(|part| !part.is_locked).last().copied();
        if let (Some((_, index)), Some(part)) = (oldest, part)
            && !self.database.running[index].is_prepared
        {
            self.insert(index, part);
            self.database.commit(index);
        }
    }

    /// A person publishes inserts, or not. What is published besides, shows whether it is as
    /// before.
    pub(super) fn set_publish(&mut self, inserts: Inserts) {
        // A restored server gives ids again. That the same alteration has the same id on it as on
        // the one before is left out: nothing would tell them apart.
        let mut assigned = self.database.assign();
        while !self.altered_by.insert(assigned) {
            assigned = self.database.assign();
        }
        let xid = FullXid::from_u64(assigned);
        let others = self.random.below(3);
        let publication = &mut self.database.publication;
        publication.written_by = xid.of_row().as_u32();
        publication.inserts = inserts;
        publication.options = format!("{inserts:?} and {others}");
    }

    /// A person moves the slot, or makes another.
    pub(super) fn slot(&mut self) -> Option<&'static str> {
        let is_wanted = self.database.slot.is_none() || self.random.one_in(4);
        if !is_wanted {
            return None;
        }
        // Of a server that was restored, and whose slot was moved before a router has seen it,
        // positions show nothing: the one pair of faults that is left out.
        if self.is_restored {
            return None;
        }
        if let Some(process) = &mut self.pipeline.process {
            process.is_cut = true;
            self.database.slot = Some(self.database.wal);
            return Some("slot moved beside a router");
        }
        if self.database.slot.is_some() && self.random.one_in(2) {
            self.database.slot = Some(self.database.wal);
            return Some("slot moved");
        }
        self.database.slot = match self.database.slot {
            Some(_) => None,
            // It waits for the transactions that run.
            None if self.database.running.is_empty() => Some(self.database.wal),
            None => None,
        };
        Some("slot made again")
    }

    /// A copy is made, promoted, or restored.
    pub(super) fn server(&mut self) -> Option<&'static str> {
        match self.random.below(6) {
            0 => {
                let mut promoted = self.copy.clone();
                let is_whole = promoted.wal == self.database.wal;
                promoted.history.timeline = self.database.history.timeline + 1;
                // The standby has a copy of the slot, an older one, or a new one.
                let end = promoted.wal;
                promoted.slot = match self.random.below(3) {
                    0 => None,
                    1 => Some(end),
                    _ => promoted.slot,
                };
                self.replace(promoted);
                Some(if is_whole { "promoted" } else { "promoted with a loss" })
            }
            1 => {
                let restored = self.copy.clone();
                self.replace(restored);
                self.is_restored = true;
                Some("restored")
            }
            _ => {
                self.copy = self.database.clone();
                // What ran there ends with the primary.
                self.copy.running.retain(|running| running.is_prepared);
                self.copy.parts.iter_mut().for_each(|part| part.is_locked = false);
                None
            }
        }
    }

    fn replace(&mut self, other: Database) {
        self.removers.clear();
        self.pipeline.process = None;
        let former = std::mem::replace(&mut self.database, other);
        self.database.pass_oids(&former);
        self.copy = self.database.clone();
    }
}
