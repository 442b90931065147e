//! Commands that hand tables to a stream, and the invariants R5 and R6 that must hold then.

use relay::{
    HoldKeys,
    handover::{
        Completeness,
        switch::{StreamedBefore, ToPolling as Todo, ToStream as ToStreamTodo},
    },
};

use super::{
    actor::Command,
    backfill::Backfill,
    database::{Database, Switched},
    site::Site,
    switch::ToPolling,
    to_stream::ToStream,
    world::RepairsWorld,
};
use crate::invariant::{Invariant, Violation};

impl Database {
    /// Rows of tables that are no partitions: attaching them later does not make events of
    /// them.
    pub(super) fn of_no_partition(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().filter(|row| !self.reaches(row)).map(|row| row.row)
    }
}

impl RepairsWorld {
    /// Some tables are not in the publication before `setup --backfill` is typed.
    pub(super) fn leave_unpublished(&mut self) {
        if self.random.one_in(2) {
            self.publication();
        }
    }

    /// A command, where the tables are not streamed, or are streamed from nothing.
    pub(super) fn handing(&mut self, number: u32) -> Option<Command> {
        let is_witnessed = self.site.pipeline.witness.is_some();
        // A switch on a server that was restored, and that no router has read since.
        let is_unread = is_witnessed && self.site.pipeline.is_restored;
        match self.site.database.switched {
            Switched::Polled if self.random.one_in(3) => Some(self.switch_to_stream(number)),
            Switched::Closing | Switched::Sent if !is_unread => {
                if self.random.one_in(4) {
                    return Some(Command::ToPolling(Box::new(ToPolling::new(number))));
                }
                Some(self.switch_to_stream(number))
            }
            Switched::Streamed if !is_witnessed && !self.random.one_in(4) => {
                let slot = self.site.database.slot;
                if slot.is_some_and(|slot| slot.holder.is_none() && slot.is_lost) {
                    self.site.database.slot = None;
                }
                Some(Command::Backfill(Box::new(Backfill::new(number, &mut self.random))))
            }
            Switched::Polled
            | Switched::Closing
            | Switched::Sent
            | Switched::Streamed
            | Switched::Marked => None,
        }
    }

    /// A person ends a switch to the stream that is not complete.
    pub(super) fn end_switch(&mut self) {
        if ![Switched::Closing, Switched::Sent].contains(&self.site.database.switched) {
            return;
        }
        let found = self.site.found();
        if found.to_polling(StreamedBefore::Unsaid) == Ok(Some(Todo::Cancel)) {
            self.site.database.slot = None;
            self.site.pipeline.witness = None;
            self.site.database.switched = Switched::Polled;
            self.coverage.count("switch: cancelled at the end");
        } else if found.to_stream() == Ok(Some(ToStreamTodo::Finish)) {
            self.site.database.switched = Switched::Streamed;
            self.coverage.count("switch: finished at the end");
        }
    }

    /// Whether a back-fill was killed behind its last row, before its witness.
    pub(super) fn is_left_unwitnessed(&self) -> bool {
        let Site { database, pipeline, .. } = &self.site;
        let fill = database.fill.as_ref().map(|fill| fill.completeness);
        fill == Some(Completeness::Complete) && pipeline.witness.is_none()
    }

    /// Publication and partitions are altered while rows are divided.
    pub(super) fn alter(&mut self) -> Option<&'static str> {
        let is_out = !self.site.is_published();
        match self.random.below(64) {
            0 => self.partitions(),
            1 | 2 => self.publication(),
            3..=12 if is_out => self.publication(),
            _ => None,
        }
    }

    fn switch_to_stream(&mut self, number: u32) -> Command {
        let hold_keys = if self.random.one_in(3) { HoldKeys::Yes } else { HoldKeys::No };
        Command::ToStream(Box::new(ToStream::new(number, hold_keys)))
    }

    /// R5, and that the slot does not send again what a back-fill has sent.
    pub(super) fn check_handed(&self, how: &str) -> Result<(), Violation> {
        if let Some(row) = self.missing().next() {
            let what = format!("{how}, and {row:?} is in no topic, and not in the slot");
            return Err(Violation { invariant: Invariant::R5Handed, what });
        }
        match self.site.pipeline.filled.comes_again(&self.site.database) {
            Some(row) => {
                let what = format!("{how}, and row {row} comes from the slot again");
                Err(Violation { invariant: Invariant::R6Repeated, what })
            }
            None => Ok(()),
        }
    }
}
