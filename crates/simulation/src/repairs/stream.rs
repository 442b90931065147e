//! What a router does. The core's own session is simulated in [`crate::world`]; here it is
//! as simple as its invariants let it be. The gaps are found by the product's own checks.

use pgoutput::PgTimestamp;
use relay::{
    Code, Failure, Lsn,
    delivered::FullXid,
    source::{
        Expectations, Gap, Interval, Mark, Obstacle, PositionCheck, history::continued, preflight,
    },
    witness::{LastTransaction, Notes, Witness},
};

use super::{
    database::{Commit, Fit, Held, HeldState, Row, Switched},
    pipeline::Process,
    site::{Reading, Site},
    slot::Holder,
};

/// As a witness names it.
pub(super) fn last_transaction(commit: &Commit) -> LastTransaction {
    LastTransaction {
        commit_lsn: Lsn::from_u64(commit.at),
        end_lsn: Lsn::from_u64(commit.end),
        xid: FullXid::from_u64(commit.xid).of_row(),
        committed_at: PgTimestamp::from_unix_micros(commit.clock * 1_000_000),
    }
}

impl Site {
    /// Starts a router, unless something is open or it finds a gap.
    pub fn start_router(&mut self) -> Option<&'static str> {
        // Before a switch is complete, a router is kept from the tables.
        if [Switched::Polled, Switched::Closing, Switched::Sent].contains(&self.database.switched) {
            return None;
        }
        let Some(witness) = self.pipeline.witness.clone() else { return self.begin_without() };
        let is_held = self.database.slot.is_some_and(|slot| slot.holder.is_some());
        if self.pipeline.process.is_some() || !witness.open_findings().is_empty() || is_held {
            return None;
        }
        self.pipeline.is_restored = false;
        let reading = self.read(None);
        let mut witness = match continued(witness, &reading.server, &reading.timelines) {
            Ok(witness) => witness,
            // The witness need not name it.
            Err(Obstacle::OtherServer(_)) => return Some("another history"),
            Err(obstacle) => return self.halt(obstacle),
        };
        if let Err(obstacle) = self.check(&witness, &reading) {
            return self.halt(obstacle);
        }
        let slot = self.database.slot.as_mut()?;
        slot.holder = Some(Holder::Router);
        // Without a last transaction nothing tells what comes again, so all of it is sent.
        if witness.last.is_none() {
            witness.position = Lsn::from_u64(slot.confirmed);
        }
        let position = witness.position.as_u64();
        self.pipeline.process =
            Some(Process { position, last: witness.last, notes: Notes::default() });
        self.pipeline.witness = Some(witness);
        self.take_over(&reading);
        Some("streams")
    }

    /// A router that finds no witness writes one that says so, which a person has to accept.
    fn begin_without(&mut self) -> Option<&'static str> {
        let Reading { server, slot, catalog, .. } = self.read(None);
        let baseline = preflight(self.setup.expected(None), server, &slot, catalog).ok()?;
        let began_without = Some(baseline.beginning());
        let begun = Witness::begin(&baseline, "k", &self.setup.outboxes);
        self.pipeline.witness = Some(Witness { began_without, ..begun });
        Some("began without a witness")
    }

    fn halt(&mut self, obstacle: Obstacle) -> Option<&'static str> {
        let Obstacle::Gaps(gaps) = obstacle else { return None };
        let witness = self.pipeline.witness.as_mut()?;
        *witness = witness.with_gaps(&gaps);
        Some("gaps found")
    }

    /// What a session checks before and while it begins.
    fn check(&self, witness: &Witness, reading: &Reading) -> Result<(), Obstacle> {
        let (server, catalog) = (reading.server.clone(), reading.catalog.clone());
        preflight(self.setup.expected(Some(witness)), server, &reading.slot, catalog)?;
        if self.sends_what_is_known(witness) {
            return Ok(());
        }
        let what = "the server does not send again what is acknowledged";
        let from = Some(Mark { lsn: Lsn::ZERO, at: None });
        let interval = Interval { from, to: witness.mark() };
        let failure = Failure::new(Code::HistoryChanged, what);
        Err(Obstacle::Gaps(vec![Gap::new(failure, interval)]))
    }

    /// Whether what comes again up to the witness is what was acknowledged.
    fn sends_what_is_known(&self, witness: &Witness) -> bool {
        let Some(last) = &witness.last else { return true };
        let slot = self.database.slot.map_or(0, |slot| slot.confirmed);
        let comes_again = last.commit_lsn.as_u64() < slot
            || self.database.log.iter().any(|one| last_transaction(one) == *last);
        let after = last.end_lsn.as_u64().max(slot);
        let others = after..witness.position.as_u64();
        comes_again && !self.database.log.iter().any(|one| others.contains(&one.at))
    }

    /// What a session takes over from a source without defects.
    fn take_over(&mut self, reading: &Reading) {
        let (server, catalog) = (reading.server.clone(), reading.catalog.clone());
        let expected = self.setup.expected(None);
        let mut free = reading.slot.clone();
        if let Some(slot) = &mut free.slot {
            slot.active_pid = None;
        }
        let Ok(baseline) = preflight(expected, server, &free, catalog) else { return };
        let now = Witness::begin(&baseline, "k", &self.setup.outboxes);
        let Some(witness) = &mut self.pipeline.witness else { return };
        witness.history = now.history;
        witness.horizon = now.horizon;
        witness.checked = now.checked;
        witness.set_tables(now.tables, &reading.catalog);
        witness.catalog = now.catalog;
    }

    /// Stops the router.
    pub fn stop_router(&mut self) {
        self.pipeline.process = None;
        if let Some(slot) = &mut self.database.slot
            && slot.holder == Some(Holder::Router)
        {
            slot.holder = None;
        }
    }

    /// Delivers the next transaction.
    pub fn deliver(&mut self) -> Option<&'static str> {
        let process = self.pipeline.process.as_mut()?;
        if self.database.slot.is_none_or(|slot| slot.is_lost) {
            return None;
        }
        let commit = self.database.log.iter().find(|commit| commit.at >= process.position);
        let Some(commit) = commit.cloned() else {
            process.position = self.database.wal;
            return None;
        };
        if self.blocking(&commit).is_some() {
            return Some("stops at a row");
        }
        let passes_skipped = commit.sent.iter().any(|row| self.is_skipped(row));
        for row in &commit.sent {
            match row.fit {
                Fit::Fine => self.pipeline.produce(row),
                Fit::Bad if self.setup.has_dead_letters => self.hold(row),
                Fit::Bad | Fit::Filtered => {}
            }
        }
        let process = self.pipeline.process.as_mut()?;
        process.position = commit.end;
        process.last = Some(last_transaction(&commit));
        if passes_skipped {
            process.notes = Notes { any_left_out: false, ..self.database.notes() };
        }
        Some("delivered")
    }

    fn hold(&mut self, row: &Row) {
        if !self.database.held.iter().any(|held| held.row.row == row.row) {
            self.database.held.push(Held { row: *row, state: HeldState::Open });
        }
    }

    /// The row of a transaction at which the router stops.
    fn blocking(&self, commit: &Commit) -> Option<Row> {
        let stops = |row: &&Row| {
            row.fit == Fit::Bad && !self.setup.has_dead_letters && !self.is_skipped(row)
        };
        commit.sent.iter().find(stops).copied()
    }

    fn is_skipped(&self, row: &Row) -> bool {
        self.database.skipped.iter().any(|(.., skipped)| *skipped == row.row)
    }

    /// A person skips the row at which the router has stopped.
    pub fn skip(&mut self) -> Option<&'static str> {
        let process = self.pipeline.process.as_ref()?;
        let commit = self.database.log.iter().find(|commit| commit.at >= process.position)?;
        let row = self.blocking(commit)?;
        self.database.skipped.push((row.table, row.id, row.row));
        self.database.note_writes += 1;
        self.database.wal += 10;
        Some("skipped")
    }

    /// The witness is written.
    pub fn write_witness(&mut self) {
        let Some(process) = &self.pipeline.process else { return };
        let Some(witness) = &mut self.pipeline.witness else { return };
        witness.position = Lsn::from_u64(process.position);
        witness.last = process.last;
        witness.notes = witness.notes.and(process.notes);
    }

    /// The slot is told what the witness has.
    pub fn confirm(&mut self) {
        let Some(witness) = &self.pipeline.witness else { return };
        if self.pipeline.process.is_some() {
            self.database.confirm(witness.position.as_u64());
        }
    }

    /// The monitor reads slot and publication.
    pub fn monitor(&mut self) -> Option<&'static str> {
        let witness = self.pipeline.witness.clone()?;
        self.pipeline.process.as_ref()?;
        let reading = self.read(Some(Holder::Router));
        let (server, catalog) = (reading.server.clone(), reading.catalog.clone());
        // It streams itself, so it does not ask whether the slot was moved.
        let position_check = PositionCheck::NotCompared;
        let expected = Expectations { position_check, ..self.setup.expected(Some(&witness)) };
        match preflight(expected, server, &reading.slot, catalog) {
            Ok(_) => {
                self.take_over(&reading);
                None
            }
            Err(obstacle) => {
                self.stop_router();
                self.halt(obstacle)
            }
        }
    }
}
