//! The table of held events: a table of the same database, so it goes where the database goes.

use std::rc::Rc;

use relay::{
    held::{HeldRequest, TableMark},
    testing::HeldTable,
};

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct SimulatedHeldTable {
    /// What is committed.
    pub table: Rc<HeldTable>,
    /// What was committed, each with the end of WAL after it.
    pub(super) past: Vec<(u64, Rc<HeldTable>)>,
    /// Requests that run although the connection that sent them is gone.
    pub orphans: Vec<HeldRequest>,
}

impl SimulatedHeldTable {
    /// What the routers had in the table when a record said this, and at every moment since. A
    /// router that has lost the server may still write each of them.
    pub fn marks_since(&self, recorded: TableMark) -> Vec<TableMark> {
        let marks = self.past.iter().map(|(_, table)| table.mark());
        let is_later = |mark: &TableMark| {
            mark.version.map(|version| version.writes)
                >= recorded.version.map(|version| version.writes)
        };
        marks.filter(is_later).chain([recorded]).collect()
    }

    /// The states that the table had before, the latest last.
    pub fn earlier(&self) -> impl DoubleEndedIterator<Item = &Rc<HeldTable>> {
        self.past.iter().map(|(_, table)| table)
    }

    /// The database is taken back: the table is as it was when WAL ended here.
    pub(super) fn take_back(&mut self, to: u64) {
        self.orphans.clear();
        self.past.retain(|(end, _)| *end <= to);
        self.table = self.past.last().map_or_else(Rc::default, |(_, table)| Rc::clone(table));
    }
}
