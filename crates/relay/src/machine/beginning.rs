//! How a session begins: where it resumes, and what the first witness that it writes contains.

use std::{cmp::Ordering, sync::Arc};

use pgoutput::{Lsn, Oid};

use super::{Phase, Pinned, Relay, attempt::CheckedSource};
use crate::{
    clock::Moment,
    progress::WitnessStore,
    session::{Covered, Resume, Session, SessionStart},
    source::{Baseline, Catalog, SlotHealth, SlotReading},
    witness::Witness,
};

impl Relay {
    /// Begins a session: every check has passed, and this router holds the slot.
    pub(super) fn begin_session(&mut self, at: Moment) {
        let Phase::Connecting(attempt) = &mut self.phase else { return };
        let Some(CheckedSource { baseline, witness: known, cluster, held, frames }) =
            attempt.found()
        else {
            return;
        };
        let slot_at = baseline.confirmed();
        let wal_end = baseline.slot.current_wal_lsn;
        self.session_id = self.session_id.next();
        self.failures.session_began();
        // Another router may have confirmed more meanwhile.
        self.position_confirmed(
            slot_at.max(known.as_ref().map_or(Lsn::ZERO, |known| known.position)),
        );
        self.slot_holder = None;
        self.left_unconfirmed = 0;
        if self.totals.sessions > 0 {
            self.totals.reconnects.postgres += 1;
        }
        self.totals.sessions += 1;
        self.pinned = known
            .as_ref()
            // If the slot stands at the end of WAL and no release was interrupted, nothing was in
            // flight.
            .filter(|known| {
                let was_in_flight = slot_at < wal_end || self.held.release.is_going_on();
                !known.partitions.is_empty() && was_in_flight
            })
            .map(|known| Pinned { counts: known.partitions.clone(), until: wal_end });
        let store = self.keeper.store();
        let resume = resume(known.as_ref(), slot_at, store);
        let witness = Witness {
            held_table: self.held.mark(),
            ..self.witness_of(known, cluster, &baseline).held_by(held)
        };
        self.keeper.begin(self.session_id, self.totals.sessions, witness);
        self.topics.partitions_recorded(self.keeper.recorded_partitions());
        self.topics.report_again();
        self.check_at = self.next_check_at(at);
        self.alterations.extend(baseline.alterations.iter().cloned());
        let labels = baseline.catalog.labels.clone().read_at(baseline.moment.wal_end);
        let tables = baseline.tables.clone();
        self.baseline = Some(Arc::new(baseline));
        let start = SessionStart {
            id: self.session_id,
            slot_at,
            isolate_at: self.isolate_at,
            silence_limit: self.patience.limit(self.settings.timing.silence_limit),
            tables,
            labels,
            store,
            resume,
        };
        let mut session = Session::new(start, &self.settings, at);
        session.frames_come_from(frames);
        self.phase = Phase::Streaming(Box::new(session));
    }

    /// The witness that the new session will write first.
    fn witness_of(&self, known: Option<Witness>, cluster: String, baseline: &Baseline) -> Witness {
        let is_kept = self.keeper.store() == WitnessStore::Kafka;
        let mut witness = known.unwrap_or_else(|| {
            let began_without = is_kept.then(|| baseline.beginning());
            Witness { began_without, ..Witness::at(baseline.confirmed()) }
        });
        let has_last = witness.last.is_some();
        match witness.position.cmp(&baseline.confirmed()) {
            Ordering::Equal => {}
            // The witness's last transaction will show whether the server sends again what the
            // witness covers.
            Ordering::Greater if is_kept && has_last => {}
            // Without a state topic another router may have held the slot unnoticed. It may have
            // confirmed more, after a transaction that is unknown here. Or it may have produced a
            // part of what the server sends again, and then the rest has to follow, else the last
            // record of a key in Kafka would not be its last event.
            Ordering::Less | Ordering::Greater => {
                witness.position = baseline.confirmed();
                witness.last = None;
            }
        }
        witness.history = Some(baseline.server.history.clone());
        // An empty id means that the brokers did not report it now: the known id stays.
        if !cluster.is_empty() {
            witness.cluster = cluster;
        }
        witness.checked = Some(baseline.checked.clone());
        witness.horizon = baseline.slot.horizon();
        witness.former.retain(|oid, _| baseline.tables.table(Oid::from_u32(*oid)).is_some());
        let tables = baseline.catalog.outbox_tables(&self.settings.outboxes);
        witness.set_tables(tables, &baseline.catalog);
        witness.catalog = baseline.catalog.recorded();
        witness
    }

    /// The monitor checked the source and found no defect: the next witness says so.
    pub(super) fn source_verified(&mut self, reading: &SlotReading, catalog: &Catalog) {
        let outboxes = &self.settings.outboxes;
        self.keeper.update(|witness| {
            // Else the alteration may be in the WAL already.
            if catalog.is_settled() {
                witness.checked = Some(reading.mark());
            }
            witness.horizon = reading.slot.as_ref().and_then(SlotHealth::horizon);
            let next = catalog.recorded().remember(outboxes, Some(&witness.catalog));
            witness.set_tables(next.outbox_tables(outboxes), catalog);
            witness.catalog = next;
        });
    }
}

/// Where the session resumes, by comparing the witness with the slot.
fn resume(known: Option<&Witness>, slot_at: Lsn, store: WitnessStore) -> Resume {
    match (known, store) {
        (Some(Witness { position, last, .. }), _) if slot_at == *position => {
            Resume::At(slot_at, *last)
        }
        (Some(known), WitnessStore::Kafka) => {
            Covered::by(known, slot_at).map_or(Resume::AtSlot, Resume::After)
        }
        (Some(_), WitnessStore::Memory) | (None, WitnessStore::Kafka | WitnessStore::Memory) => {
            Resume::AtSlot
        }
    }
}
