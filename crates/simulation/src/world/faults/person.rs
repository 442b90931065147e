//! Faults that only a person ends. They happen at any time, whether or not a router runs.

use std::time::Duration;

use relay::{Code, State};

use crate::{
    fault::Fault,
    history::{PublicationState, RowKind},
    plan::StateTopicSetting,
    postgres::{RENAMED, ServerPhase, SimulatedSlot},
    router::PendingRequest,
    world::{World, injection::Injection, repair::Repair},
};

/// The earliest time at which a person repairs something.
pub(super) const PERSON_DELAY_MIN: Duration = Duration::from_secs(12);
/// How many rounds of a quarter of a second a router gets to begin streaming.
const ROUNDS: u32 = 30;
const ROUNDS_MAX: u32 = 400;

impl World {
    /// Does `action`. A router with a witness notices it whenever it was done; one without a
    /// witness has to be streaming.
    pub(super) fn inject_for_person(&mut self, fault: Fault, action: fn(&mut Self)) -> Injection {
        if self.plan.state_topic == StateTopicSetting::Unused {
            return self.inject_while_streaming(fault, action);
        }
        if !self.is_noticeable() {
            return Injection::NotApplicable;
        }
        self.maybe_disconnect_routers();
        action(self);
        self.require_failure(fault.causes());
        Injection::Done
    }

    /// Whether the fault could be noticed: before a pipeline's first witness nothing can be
    /// missing.
    pub(super) fn is_noticeable(&self) -> bool {
        let is_witnessed = self.kafka.state.best().is_some() && !self.is_state_topic_lost;
        is_witnessed && !self.is_person_awaited() && self.server.phase == ServerPhase::Up
    }

    /// Whether a router must ask for a person already, or may have stopped for good.
    fn is_person_awaited(&self) -> bool {
        self.expected_failure.is_required() || self.held.may_stop
    }

    /// From now on a router must ask for a person, for one of these reasons.
    pub(super) fn require_failure(&mut self, codes: &[Code]) {
        self.checker.note_interruption();
        self.expected_failure.allow(codes);
        self.expected_failure.require();
    }

    /// Sometimes no router runs, none reaches the server, or one is about to start the stream, when
    /// the fault happens.
    fn maybe_disconnect_routers(&mut self) {
        match self.random.below(5) {
            0 => self.stop_all_routers(),
            1 => self.cut_off_all_routers(),
            2 => self.connect_up_to_the_stream(),
            _ => {}
        }
    }

    /// Cuts the connections, and answers one router until it has read the slot and the catalog:
    /// what happens now happens between its two readings of the slot.
    fn connect_up_to_the_stream(&mut self) {
        const STEP: Duration = Duration::from_millis(100);
        self.server.end_walsenders(Code::ServerUnreachable);
        self.report_closed_connections();
        let router = self.some_router();
        for _ in 0..100 {
            let process = &self.routers[router];
            if matches!(process.request, PendingRequest::StartReplication(_)) {
                return;
            } else if process.has_answerable_request() {
                self.answer_one_request(router);
            } else {
                // Nothing else is answered meanwhile.
                self.causes.insert(Code::ServerSilent);
                self.advance_clock(STEP);
            }
        }
    }

    fn inject_while_streaming(&mut self, fault: Fault, action: fn(&mut Self)) -> Injection {
        crate::coverage::disarm();
        if self.is_person_awaited() || !self.wait_until_streaming() {
            return Injection::NotApplicable;
        }
        self.require_failure(fault.causes());
        let session = self.routers[0].session;
        action(self);
        for round in 0..ROUNDS_MAX {
            let is_back = self.routers[0].session != session || self.has_expected_failure();
            if round >= ROUNDS && (is_back || self.server.holder().is_some()) {
                break;
            }
            self.run_round();
        }
        Injection::Done
    }

    pub(super) fn drop_the_slot(&mut self) {
        self.replace_slot(None);
        self.write_more();
        self.schedule_repair(PERSON_DELAY_MIN, Repair::Slot);
    }

    /// The slot is dropped and re-created, or advanced by hand: a router sees the same in both
    /// cases. On a restored server, a slot behind the witness cannot be distinguished from the
    /// former slot, a limit that docs/guarantees.md names.
    pub(super) fn move_the_slot(&mut self) {
        self.write_more();
        while self.server.history.end_of_wal <= self.discarded_wal_end {
            self.write_more();
        }
        self.replace_slot(Some(SimulatedSlot::at(self.server.history.end_of_wal)));
        self.write_more();
    }

    pub(super) fn lose_the_slot(&mut self) {
        let lost = self.server.slot.map(|slot| SimulatedSlot { is_lost: true, ..slot });
        self.replace_slot(lost);
        self.write_more();
    }

    pub(super) fn drop_the_publication(&mut self) {
        if self.random.one_in(3) {
            // It is re-created before a row is written: nothing in the stream shows it.
            self.server.publication_oid += 1;
            self.server.entry_oid += 1;
        } else {
            self.server.catalog.publication = PublicationState::Missing;
            self.write_more();
            self.schedule_repair(Duration::ZERO, Repair::Publication);
        }
    }

    pub(super) fn withhold_inserts(&mut self) {
        self.server.catalog.publication = PublicationState::WithoutInserts;
        self.server.altered_by += 1;
        self.write_more();
        self.schedule_repair(Duration::ZERO, Repair::Inserts);
    }

    pub(super) fn take_the_table_out(&mut self) {
        self.server.catalog.publication = PublicationState::WithoutTable;
        self.write_more();
        self.schedule_repair(Duration::ZERO, Repair::Table);
    }

    pub(super) fn rename_the_key(&mut self) {
        self.server.catalog.shape += RENAMED;
        self.write_more();
    }

    pub(super) fn write_a_null_key(&mut self) {
        let _written = self.write_transaction(3, RowKind::NullKey);
        self.write_more();
    }

    pub(super) fn write_a_huge_row(&mut self) {
        let _written = self.write_transaction(3, RowKind::Oversized);
        self.write_more();
    }

    pub(super) fn write_an_illegal_topic(&mut self) {
        let _written = self.write_transaction(3, RowKind::IllegalTopic);
        self.write_more();
    }

    pub(super) fn write_more(&mut self) {
        let _written = self.write_transaction(2, RowKind::Valid);
    }

    fn replace_slot(&mut self, slot: Option<SimulatedSlot>) {
        self.server.end_walsenders(Code::ServerUnreachable);
        self.server.slot = slot;
    }

    /// Runs rounds, without faults, until the only router streams.
    fn wait_until_streaming(&mut self) -> bool {
        self.run_all_repairs();
        self.kafka.heal();
        for _ in 0..300 {
            let id = self.routers[0].connection;
            let connection = id.and_then(|id| self.server.connection(id));
            let is_whole = connection.is_some_and(|one| one.has_walsender && !one.is_black_holed);
            let process = &self.routers[0];
            let state = process.relay.condition(self.at).state;
            let is_well = state == State::Streaming && self.server.phase == ServerPhase::Up;
            if is_whole && is_well && process.runs() {
                return true;
            }
            self.run_round();
        }
        false
    }
}
