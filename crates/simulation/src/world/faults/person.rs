//! Faults that only a person ends. They happen at any time, whether or not a router runs.

use std::time::Duration;

use relay::{Code, State};

use crate::{
    fault::Fault,
    history::{PublicationState, RowKind},
    plan::StateTopicSetting,
    postgres::{RENAMED, ServerPhase, SimulatedSlot},
    world::{World, injection::Injection, repair::Repair},
};

/// The earliest time at which a person mends something.
pub(super) const LATER: Duration = Duration::from_secs(12);
/// How many rounds of a quarter of a second a router gets to begin streaming.
const ROUNDS: u32 = 30;
const ROUNDS_MAX: u32 = 400;

impl World {
    /// Does `deed`. A router with a witness notices it whenever it was done; one without a witness
    /// has to be streaming.
    pub(super) fn call_for_a_person(&mut self, fault: Fault, deed: fn(&mut Self)) -> Injection {
        if self.plan.keeping == StateTopicSetting::Unused {
            return self.call_for_one_who_streams(fault, deed);
        }
        if !self.is_ripe() {
            return Injection::NotApplicable;
        }
        self.part_them();
        deed(self);
        self.call_for(fault.causes());
        Injection::Done
    }

    /// Whether the fault could be noticed: before a pipeline's first record nothing can be missing.
    pub(super) fn is_ripe(&self) -> bool {
        let is_witnessed = self.kafka.state.best().is_some() && !self.is_state_lost;
        is_witnessed && !self.call.is_due() && self.server.phase == ServerPhase::Up
    }

    /// From now on a router must ask for a person, for one of these reasons.
    pub(super) fn call_for(&mut self, codes: &[Code]) {
        self.checker.interrupted();
        self.call.allow(codes);
        self.call.demand();
    }

    /// Sometimes no router runs, or none reaches the server, when the fault happens.
    fn part_them(&mut self) {
        match self.random.below(4) {
            0 => self.take_all_routers_down(),
            1 => self.cut_everybody_off(),
            _ => {}
        }
    }

    fn call_for_one_who_streams(&mut self, fault: Fault, deed: fn(&mut Self)) -> Injection {
        crate::coverage::disarm();
        if self.call.is_due() || !self.wait_until_streaming() {
            return Injection::NotApplicable;
        }
        self.call_for(fault.causes());
        let session = self.routers[0].session;
        deed(self);
        for round in 0..ROUNDS_MAX {
            let is_back = self.routers[0].session != session || self.has_called_for_a_person();
            if round >= ROUNDS && (is_back || self.server.holder().is_some()) {
                break;
            }
            self.let_everything_happen();
        }
        Injection::Done
    }

    pub(super) fn drop_the_slot(&mut self) {
        self.replace_slot(None);
        self.write_on();
        self.mend_after(LATER, Repair::Slot);
    }

    /// The slot is dropped and re-created, or advanced by hand: a router sees the same in both
    /// cases. On a server that was taken back, a slot that stands before the witness cannot be told
    /// from the former one, a limit that docs/guarantees.md names.
    pub(super) fn move_the_slot(&mut self) {
        self.write_on();
        while self.server.history.end_of_wal <= self.wal_that_is_gone {
            self.write_on();
        }
        self.replace_slot(Some(SimulatedSlot::at(self.server.history.end_of_wal)));
        self.write_on();
    }

    pub(super) fn lose_the_slot(&mut self) {
        let lost = self.server.slot.map(|slot| SimulatedSlot { is_lost: true, ..slot });
        self.replace_slot(lost);
        self.write_on();
    }

    pub(super) fn drop_the_publication(&mut self) {
        if self.random.one_in(3) {
            // It is re-created before a row is written: nothing in the stream shows it.
            self.server.publication_oid += 1;
            self.server.entry_oid += 1;
        } else {
            self.server.catalog.publishing = PublicationState::Missing;
            self.write_on();
            self.mend_after(Duration::ZERO, Repair::Publication);
        }
    }

    pub(super) fn withhold_inserts(&mut self) {
        self.server.catalog.publishing = PublicationState::WithoutInserts;
        self.server.altered_by += 1;
        self.write_on();
        self.mend_after(Duration::ZERO, Repair::Inserts);
    }

    pub(super) fn take_the_table_out(&mut self) {
        self.server.catalog.publishing = PublicationState::WithoutTable;
        self.write_on();
        self.mend_after(Duration::ZERO, Repair::Table);
    }

    pub(super) fn rename_the_key(&mut self) {
        self.server.catalog.shape += RENAMED;
        self.write_on();
    }

    pub(super) fn write_a_null_key(&mut self) {
        let _written = self.write_transaction(3, RowKind::NullKey);
        self.write_on();
    }

    pub(super) fn write_a_huge_row(&mut self) {
        let _written = self.write_transaction(3, RowKind::Oversized);
        self.write_on();
    }

    pub(super) fn write_on(&mut self) {
        let _written = self.write_transaction(2, RowKind::Valid);
    }

    fn replace_slot(&mut self, slot: Option<SimulatedSlot>) {
        self.server.end_walsenders(Code::ServerUnreachable);
        self.server.slot = slot;
    }

    /// Lets the world go on, without faults, until its one router streams.
    fn wait_until_streaming(&mut self) -> bool {
        self.mend_everything();
        self.kafka.heal();
        for _ in 0..300 {
            let id = self.routers[0].connection;
            let connection = id.and_then(|id| self.server.connection(id));
            let is_whole = connection.is_some_and(|one| one.is_served && !one.is_swallowed);
            let process = &self.routers[0];
            let state = process.relay.condition(self.at).state;
            let is_well = state == State::Streaming && self.server.phase == ServerPhase::Up;
            if is_whole && is_well && process.runs() {
                return true;
            }
            self.let_everything_happen();
        }
        false
    }
}
