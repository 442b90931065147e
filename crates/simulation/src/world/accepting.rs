//! A person who repairs what can be repaired, and accepts what cannot.

use std::time::Duration;

use relay::{
    Code, Lsn, Write,
    source::{Expectations, Gap, PositionCheck, Present, gaps_since},
    witness::{OpenFinding, Witness},
};

use super::{World, repair::Repair};
use crate::{
    history::PublicationState,
    plan::{Person, StateTopicSetting},
    postgres::{ServerPhase, SimulatedSlot, queries},
    router,
};

impl World {
    /// Whether a gap is recorded that nobody has accepted, or a router has found that the server is
    /// not the witness's.
    pub(super) fn has_open_gap(&self) -> bool {
        let is_at_other_server = |router: &router::SimulatedRouter| {
            let witness = router.relay.snapshot(self.at).witness;
            router.runs() && witness.other_server_gap.is_some()
        };
        self.kafka.state.best().is_some_and(|best| !best.gaps.is_empty())
            || (self.plan.state_topic == StateTopicSetting::Used
                && self.routers.iter().any(is_at_other_server))
    }

    /// Schedules the person's visit, and the acceptance, if the plan has a person.
    pub(super) fn schedule_acceptance(&mut self) {
        if self.plan.person == Person::Absent || !self.has_open_gap() {
            return;
        }
        let soon = Duration::from_millis(self.random.below(20_000));
        match self.person_at {
            None => self.person_at = Some(self.at + soon),
            Some(at) if at <= self.at && self.is_slot_free() => self.accept(),
            Some(_) => {}
        }
    }

    /// `accept` waits until no walsender holds the slot: what its holder acknowledges meanwhile
    /// would not be in the record.
    fn is_slot_free(&self) -> bool {
        self.server.phase == ServerPhase::Up && self.server.holder().is_none()
    }

    fn accept(&mut self) {
        if !self.kafka.is_state_topic_available() || self.kafka.state.is_deleted {
            return;
        }
        let Some(best) = self.kafka.state.best() else { return };
        self.person_at = None;
        self.repair_slot_and_publication();
        let best = self.with_present_gaps(best);
        let gaps = best.gaps.clone();
        let witness = self.accepted(&best);
        let number = witness.generation;
        let key = router::witness_key().of_writer(&format!("accept {number}"));
        let position = witness.position.as_u64();
        let value = Some(witness.encode());
        self.trace(|| format!("a person accepts: generation {number}, from {position}"));
        self.kafka.state.store(&Write { number, key, value });
        self.checker.note_witness_ack(position);
        // What the slot has not confirmed is sent again, whether or not it was acknowledged.
        self.late_witness_position = self.server.history.end_of_wal;
        self.mark_accepted_events(&gaps);
        self.expected_failure.resolve();
    }

    /// Repairs slot and publication. If the slot is lost, or would send rows that cannot be
    /// decoded, it is re-created at the end of WAL.
    fn repair_slot_and_publication(&mut self) {
        for repair in [Repair::Slot, Repair::Publication, Repair::Inserts, Repair::Table] {
            if self.repairs.extract_if(.., |(_, other)| *other == repair).count() > 0 {
                self.repair(repair);
            }
        }
        let end = self.server.history.end_of_wal;
        let history = &self.server.history;
        let to_send = &history.transactions[history.first_from(self.server.confirmed())..];
        let mut events = to_send.iter().flat_map(|one| &history.events[one.events.clone()]);
        let is_lost = self.server.slot.is_none_or(|slot| slot.is_lost);
        if is_lost || events.any(|event| event.catalog.publication == PublicationState::Missing) {
            self.server.end_walsenders(relay::Code::ServerUnreachable);
            self.server.slot = Some(SimulatedSlot::at(end));
        }
    }

    /// The record with the gaps that `outbox-router accept` would show.
    fn with_present_gaps(&self, best: Witness) -> Witness {
        let outboxes = queries::outboxes(self.plan.version);
        let expected = Expectations {
            slot: queries::SLOT,
            publication: queries::PUBLICATION,
            outboxes: &outboxes,
            witness: Some(&best),
            position_check: PositionCheck::Compared,
        };
        let present = Present {
            cluster: &self.kafka.cluster(),
            server: self.server.server(),
            timelines: &self.server.timelines(),
            reading: &self.server.read_slot(),
            catalog: self.server.read_catalog(),
            held: Some(self.server.read_held_table()),
        };
        let now = present.reading.mark();
        best.with_found(&gaps_since(&best, expected, present), &now)
    }

    /// The record that `outbox-router accept` would write.
    fn accepted(&self, best: &Witness) -> Witness {
        let catalog = self.server.read_catalog();
        let next = Witness {
            held: Some(self.server.read_slot().moment()),
            history: Some(self.server.identity.clone()),
            cluster: self.kafka.cluster(),
            checked: Some(self.server.read_slot().mark()),
            tables: catalog.relations.iter().map(|relation| relation.oid).collect(),
            catalog,
            ..Witness::at(Lsn::from_u64(self.server.confirmed()))
        };
        let gaps: Vec<OpenFinding> = best.gaps.iter().cloned().map(OpenFinding::Gap).collect();
        best.accept(&gaps, next, "somebody")
    }

    /// Marks as accepted what the slot no longer sends and what the server leaves out, as far as
    /// the gaps that were shown to the person cover it.
    fn mark_accepted_events(&mut self, gaps: &[Gap]) {
        let confirmed = self.server.confirmed();
        // After a restore, gaps that were found before it name positions of the history that is
        // gone.
        let is_restored = self.server.epoch > 0;
        let history = &mut self.server.history;
        let sent = history.first_from(confirmed);
        history.accept_open_rows();
        let transactions = &history.transactions;
        for event in history.events.iter_mut().filter(|event| event.is_real) {
            let Some(own) = transactions.get(event.transaction) else { continue };
            let is_in = |gap: &&Gap| {
                let from = gap.interval.from.as_ref().filter(|_| !is_restored);
                from.is_none_or(|from| own.end_lsn > from.lsn.as_u64())
            };
            let is_left_out = !event.is_published() && gaps.iter().any(|gap| is_in(&gap));
            let is_behind = event.transaction < sent
                && gaps.iter().filter(|gap| is_about_all_events(gap)).any(|gap| is_in(&gap));
            let is_row_lost = event.is_row_lost
                && gaps.iter().any(|gap| gap.failure.code == Code::HeldTableBehind);
            event.is_accepted |= is_left_out || is_behind || is_row_lost;
        }
        self.checker.advance_past_accepted(history);
    }
}

/// Whether a gap concerns all events after a position, and not only those that the publication or
/// the state of one table leaves out.
fn is_about_all_events(gap: &Gap) -> bool {
    matches!(
        gap.failure.code,
        Code::SlotMissing
            | Code::SlotLost
            | Code::SlotMoved
            | Code::PublicationMissing
            | Code::PublicationReplaced
    )
}
