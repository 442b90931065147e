//! What must hold: R3 and R4.

use super::{
    database::{Fit, Row, Switched},
    world::RepairsWorld,
};
use crate::invariant::{Invariant, Violation};

impl RepairsWorld {
    /// Whether a row is where it has to be, or somebody with a name has given it up.
    pub(super) fn is_accounted_for(&self, row: &Row) -> bool {
        let pipeline = &self.site.pipeline;
        let database = &self.site.database;
        row.inserted == Fit::Filtered
            || pipeline.has(row)
            || pipeline.given_up.contains(&row.row)
            || database.held.iter().any(|held| held.row.row == row.row)
            || database.skipped.iter().any(|(.., skipped)| *skipped == row.row)
            || database.left_out.iter().any(|out| out.row == row.row)
    }

    /// Rows of the tables, and of partitions that were detached since, that are nowhere, and that
    /// the slot does not send.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Row> {
        let rows = self.site.database.rows.iter();
        rows.filter(|row| !self.is_accounted_for(row) && !self.site.database.slot_sends(row.row))
    }

    /// A person gives up what is missing, and what is committed later and was written while its
    /// table was not published.
    pub(super) fn give_up_missing(&mut self) {
        let mut missing: Vec<u64> = self.missing().map(|row| row.row).collect();
        let running = self.site.database.running.iter().flat_map(|running| &running.rows);
        missing.extend(running.filter(|row| !row.is_published).map(|row| row.row));
        self.site.pipeline.given_up.extend(missing);
    }

    /// R3.
    pub(super) fn nothing_is_missing(&self, when: &str) -> Result<(), Violation> {
        match self.missing().next() {
            None => Ok(()),
            Some(row) => {
                let what = format!("{when}, and {row:?} is in no topic");
                Err(Violation { invariant: Invariant::R3Closed, what })
            }
        }
    }

    /// R4.
    pub(super) fn check_marked(&self, rows: &[Row]) -> Result<(), Violation> {
        for row in rows {
            let now = self.site.database.rows.iter().find(|now| now.row == row.row);
            let is_same = now.is_none_or(|now| now.writes == row.writes);
            // A worker tries again what could not become a record when a gap was closed.
            let left_out = &self.site.database.left_out;
            let is_left_out = left_out.iter().any(|out| out.row == row.row);
            let is_sent = !is_left_out || self.site.pipeline.has(row);
            if !is_same || !is_sent || !self.is_accounted_for(row) {
                return Err(if is_same { unsent(row) } else { written_since(row) });
            }
        }
        Ok(())
    }

    /// With everything over, a router or a worker delivers what there is.
    pub(super) fn end(&mut self) -> Result<(), Violation> {
        self.end_connections();
        self.site.stop_router();
        while !self.site.database.running.is_empty() {
            self.site.database.commit(0, self.site.clock);
        }
        self.end_switch();
        if self.site.database.switched == Switched::Polled {
            while self.deliver().is_some() {}
            let database = &self.site.database;
            let missing = |row: &&Row| row.is_pending() && database.reaches(row);
            let left = database.rows.iter().find(missing);
            assert_eq!(left, None, "a worker sends every row");
            // One that was left out later than it was marked is pending no more.
            let mut marked = database.rows.iter().filter(|row| row.is_marked);
            return match marked.find(|row| !self.is_accounted_for(row)) {
                None => Ok(()),
                Some(row) => Err(unsent(row)),
            };
        }
        self.site.start_router();
        if self.site.pipeline.process.is_none() {
            self.coverage.count("open at the end");
            return Ok(());
        }
        while self.site.deliver() == Some("delivered") || self.site.skip().is_some() {}
        self.coverage.count("delivered to the end");
        self.nothing_is_missing("nothing is open")
    }
}

fn unsent(row: &Row) -> Violation {
    let what = format!("{row:?} is marked, and is in no topic");
    Violation { invariant: Invariant::R4Marked, what }
}

fn written_since(row: &Row) -> Violation {
    let what = format!("{row:?} is marked, and was written since");
    Violation { invariant: Invariant::R4Marked, what }
}
