//! Transactions of the application.

use relay::delivered::{FullXid, compared::TimeColumn};

use super::{
    database::{Fit, PARTITIONED, Row, Running, TABLES, says},
    site::Ids,
    world::RepairsWorld,
};

/// How many transactions run at a time.
const RUNNING_MAX: usize = 4;
const HOUR: i64 = 3_600;
/// Zones of the sessions that write, in hours east of UTC.
const ZONES: [i64; 7] = [-12, -8, -5, 0, 2, 9, 14];

impl RepairsWorld {
    /// A transaction begins.
    pub(super) fn begin(&mut self) -> Option<&'static str> {
        let (database, began) = (&mut self.site.database, self.site.clock);
        if database.running.len() < RUNNING_MAX {
            let (ids, rows, updates) = (Vec::new(), Vec::new(), Vec::new());
            database.running.push(Running { ids, began, rows, updates, is_prepared: false });
        }
        None
    }

    /// One of them writes a row.
    pub(super) fn write(&mut self) -> Option<&'static str> {
        let running = self.site.database.running.iter().enumerate();
        let active: Vec<usize> =
            running.filter(|(_, one)| !one.is_prepared).map(|(index, _)| index).collect();
        if active.is_empty() {
            return None;
        }
        let index = active[self.random.index(active.len())];
        if self.random.one_in(5) || self.site.database.running[index].ids.is_empty() {
            // A transaction's own id, or that of a savepoint.
            let xid = self.site.database.assign();
            self.site.database.running[index].ids.push(xid);
        }
        let row = self.row(index)?;
        self.site.database.running[index].rows.push(row);
        Some("rows")
    }

    fn row(&mut self, index: usize) -> Option<Row> {
        let table = self.random.index(TABLES);
        let part = if table == PARTITIONED {
            Some(*self.site.database.parts.keys().next_back()?)
        } else {
            None
        };
        self.next_row += 1;
        let id = self.id(table);
        let fit = match self.random.below(14) {
            0 => Fit::Bad,
            1 => Fit::Filtered,
            _ => Fit::Fine,
        };
        let shape = self.site.setup.shapes[table];
        let running = &self.site.database.running[index];
        let (says, made) = self.time(shape.time, running.began);
        let running = &self.site.database.running[index];
        Some(Row {
            row: self.next_row,
            table,
            part,
            id,
            topic: shape.first_topic + u8::from(self.random.one_in(2)),
            xmin: FullXid::from_u64(*running.ids.last()?),
            writes: 0,
            says,
            made,
            fit,
            inserted: fit,
            is_published: self.site.database.entries.contains_key(&table),
            is_marked: false,
        })
    }

    /// The id of an event; another row of a request may have it, too.
    fn id(&mut self, table: usize) -> u64 {
        match self.site.setup.shapes[table].ids {
            Ids::Uuids => {
                let freed = self.freed.iter().position(|(of, _)| *of == table);
                match freed.filter(|_| self.random.one_in(2)) {
                    // A corrected row.
                    Some(index) => self.freed.swap_remove(index).1,
                    None => 1_000_000 + self.next_row,
                }
            }
            Ids::Requests => {
                let last = self.site.database.rows.iter().rev().find(|row| row.table == table);
                let twin = last.map(|row| row.id).filter(|_| self.random.one_in(3));
                twin.unwrap_or(2_000_000 + self.next_row)
            }
            Ids::Numbers => {
                let number = &mut self.site.database.numbers[table];
                *number += 1;
                *number
            }
        }
    }

    /// What the column says, and the moment that it means.
    fn time(&mut self, column: Option<TimeColumn>, began: i64) -> (Option<i64>, Option<i64>) {
        let Some(column) = column else { return (None, None) };
        let zone = ZONES[self.random.index(ZONES.len())] * HOUR;
        match self.random.below(12) {
            0 => (None, None),
            1 | 2 if !self.is_truthful => {
                let back = i64::try_from(self.random.below(60)).expect("some days") * 24 * HOUR;
                (Some(says(column, self.site.clock - back, zone)), None)
            }
            odd => {
                let made = if odd % 2 == 1 { began } else { self.site.clock };
                (Some(says(column, made, zone)), Some(made))
            }
        }
    }

    /// One of them ends, or is prepared.
    pub(super) fn end_one(&mut self) -> Option<&'static str> {
        if self.site.database.running.is_empty() {
            return None;
        }
        let index = self.random.index(self.site.database.running.len());
        match self.random.below(8) {
            0 => self.site.database.roll_back(index),
            1 => self.site.database.running[index].is_prepared = true,
            _ => {
                let running = &self.site.database.running[index];
                // On a server that was restored, and that has it still.
                let is_again = running.rows.iter().any(|row| self.site.pipeline.has(row));
                self.site.database.commit(index, self.site.clock);
                return is_again.then_some("committed again");
            }
        }
        None
    }
}
