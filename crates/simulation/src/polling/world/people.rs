//! A person looks at rows that cannot be delivered.

use super::PollingWorld;
use crate::polling::table::RowState;

impl PollingWorld {
    /// A person mends, deletes or requeues one of them.
    pub(super) fn person(&mut self) {
        if self.database_down_until.is_some() {
            return;
        }
        let rows = self.tables.rows().iter().enumerate();
        let poisoned = rows.filter(|(_, row)| row.is_visible() && row.poison.is_some());
        let poisoned: Vec<usize> = poisoned.map(|(number, _)| number).collect();
        if poisoned.is_empty() {
            return;
        }
        let row = poisoned[self.random.index(poisoned.len())];
        self.trace(|| format!("a person looks at row {row}"));
        match self.random.below(4) {
            0 | 1 => self.tables.mend(row),
            2 => self.tables.delete(row),
            _ => self.tables.requeue(row),
        }
    }

    /// A person requeues what was abandoned although nothing is wrong with it any more.
    pub(super) fn person_requeues_mended(&mut self) {
        for number in 0..self.tables.rows().len() {
            let row = &self.tables.rows()[number];
            if row.state == RowState::Abandoned && row.poison.is_none() {
                self.tables.requeue(number);
            }
        }
    }

    /// A person mends or deletes all of them.
    pub(super) fn person_mends_all(&mut self) {
        for number in 0..self.tables.rows().len() {
            let row = &self.tables.rows()[number];
            if row.is_visible() && row.poison.is_some() {
                if self.random.one_in(3) {
                    self.tables.delete(number);
                } else {
                    self.tables.mend(number);
                }
            }
        }
    }
}
