//! A person who puts right what can be put right, and accepts what cannot.

use std::time::Duration;

use relay::{
    Lsn,
    source::Oid,
    witness::{Acceptance, Witness, Write},
};

use super::{World, mending::Mend};
use crate::{
    history::Publishing,
    plan::Person,
    postgres::{Phase, Slot},
    router,
};

impl World {
    /// Whether a gap is written down, and nobody has accepted it.
    pub(super) fn has_open_gap(&self) -> bool {
        self.kafka.state.best().is_some_and(|best| !best.gaps.is_empty())
    }

    /// Calls the person, if this is a run in which one comes.
    pub(super) fn consider_accepting(&mut self) {
        if self.plan.person == Person::Away || !self.has_open_gap() {
            return;
        }
        let soon = Duration::from_millis(self.random.below(20_000));
        match self.person_at {
            None => self.person_at = Some(self.at + soon),
            Some(at) if at <= self.at && self.is_slot_free() => self.accept(),
            Some(_) => {}
        }
    }

    /// The command waits until nobody streams: what the holder acknowledges meanwhile would not be in the record.
    fn is_slot_free(&self) -> bool {
        self.server.phase == Phase::Up && self.server.holder().is_none()
    }

    fn accept(&mut self) {
        if !self.kafka.keeps_state() || self.kafka.state.is_deleted {
            return;
        }
        let Some(best) = self.kafka.state.best() else { return };
        self.person_at = None;
        self.put_right();
        let witness = self.accepted(best);
        let number = witness.generation;
        let key = router::pipeline().key(&format!("accept {number}"));
        let position = witness.position.as_u64();
        let value = Some(witness.encode());
        self.tell(|| format!("a person accepts: generation {number}, from {position}"));
        self.kafka.state.store(&Write { number, key, value });
        self.judge.attests(position);
        // What the slot still has comes again, whether or not it was acknowledged.
        self.overlapped = self.server.history.end_of_wal;
        self.excuse_what_is_not_sent();
        self.call.answer();
    }

    /// Slot and publication are as they must be, and what the slot will send can be decoded.
    fn put_right(&mut self) {
        for mend in [Mend::Slot, Mend::Publication, Mend::Inserts, Mend::Table] {
            if self.mends.extract_if(.., |(_, other)| *other == mend).count() > 0 {
                self.mend(mend);
            }
        }
        let end = self.server.history.end_of_wal;
        let history = &self.server.history;
        let to_send = &history.transactions[history.first_from(self.server.confirmed())..];
        let mut events = to_send.iter().flat_map(|one| &history.events[one.events.clone()]);
        let is_lost = self.server.slot.is_none_or(|slot| slot.is_lost);
        if is_lost || events.any(|event| event.catalog.publishing == Publishing::Missing) {
            self.server.end_walsenders(relay::Code::ServerUnreachable);
            self.server.slot = Some(Slot::at(end));
        }
    }

    /// What `outbox-router accept` writes.
    fn accepted(&self, best: Witness) -> Witness {
        let accepted = best.gaps.iter().map(|gap| Acceptance {
            code: gap.failure.code.to_string(),
            lsn: gap.interval.begins_at(),
            by: "somebody".to_owned(),
            at: String::new(),
        });
        let catalog = self.server.catalog_look();
        let tables: Vec<Oid> = catalog.relations.iter().map(|relation| relation.oid).collect();
        Witness {
            generation: best.generation + 1,
            history: Some(self.server.identity.clone()),
            cluster: self.kafka.cluster(),
            position: Lsn::from_u64(self.server.confirmed()),
            last: None,
            checked: Some(self.server.slot_look(0).mark()),
            accepted: best.accepted.iter().cloned().chain(accepted).collect(),
            gaps: Vec::new(),
            catalog,
            tables,
            ..best
        }
    }

    /// What the slot does not send any more, and what the server leaves out, is accepted as
    /// missing.
    pub(super) fn excuse_what_is_not_sent(&mut self) {
        let confirmed = self.server.confirmed();
        let history = &mut self.server.history;
        let sent = history.first_from(confirmed);
        history.excuse_open_rows();
        for event in history.events.iter_mut().filter(|event| event.is_real) {
            event.is_excused |= event.transaction < sent || !event.is_published();
        }
        self.judge.look_past_what_is_excused(history);
    }
}
