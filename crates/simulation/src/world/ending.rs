//! The end of a run: no more faults; every event has to arrive, or a router has to ask for a
//! person.

use std::time::Duration;

use relay::{Class, Failure, State};

use super::World;
use crate::{
    coverage,
    history::{CommittedEvent, RowKind},
    invariant::Invariant,
    plan::Person,
    router::SimulatedRouter,
};

/// How many rounds of a quarter of a second the end may take.
const PATIENCE: u32 = 700;
/// How many rounds it takes until every router uses a new partition count: topics are refreshed
/// every five seconds, and then what was produced before has to be settled.
const ROUNDS_TO_LOOK: u32 = 44;

/// How many rounds a broker may keep a record waiting and a session take to be re-established.
const ROUNDS_TO_ARRIVE: u32 = 40;

impl World {
    /// One round, in which everything happens that can.
    pub(super) fn let_everything_happen(&mut self) {
        for _ in 0..8 {
            self.server.send(&mut self.random);
        }
        self.free_a_ghost();
        for router in 0..self.routers.len() {
            self.answer(router);
            self.read(router, 64);
            self.store(router, 64);
            self.acknowledge(router, 64);
            self.notice_ends();
            self.look_around(router);
        }
        self.consider_accepting();
        self.pass_time(Duration::from_millis(250));
    }

    /// Ends the faults, and waits for what must arrive.
    pub(super) fn end(&mut self) {
        coverage::disarm();
        self.mend_everything();
        self.kafka.heal();
        self.server.history.commit_all(&mut self.random);
        if self.is_quiet() {
            self.see_that_new_partitions_are_used();
        }
        self.write_the_last();
        let mut was_called = false;
        for _ in 0..PATIENCE {
            if self.checker.violation().is_some() {
                return;
            }
            if self.has_called_for_a_person() || self.is_complete() {
                // The state must last; and behind a row that waits for a person, what precedes it
                // may still be on its way.
                for _ in 0..ROUNDS_TO_ARRIVE {
                    self.let_everything_happen();
                }
                // A router that lost the slot may write a gap last; the router that streams reads
                // it soon.
                let waits_for_a_person = self.has_open_gap() && !self.has_called_for_a_person();
                // The router that takes over has to reach the bad row again.
                let comes_again = !self.has_called_for_a_person() && !self.is_complete();
                if !waits_for_a_person && !comes_again {
                    self.see_what_the_person_is_told();
                    return;
                }
                was_called = true;
            }
            self.let_everything_happen();
        }
        if was_called {
            self.see_what_the_person_is_told();
        } else {
            self.blame();
        }
    }

    /// Waits until everything arrives that was written. What was in flight when a topic grew keeps
    /// its partitions until then.
    fn is_quiet(&mut self) -> bool {
        if self.kafka.topics.iter().all(|topic| topic.counts.len() == 1) {
            return false;
        }
        for _ in 0..PATIENCE {
            if self.checker.violation().is_some() || self.has_called_for_a_person() {
                return false;
            }
            let streams = |router: &SimulatedRouter| {
                router.relay.condition(self.at).state == State::Streaming
            };
            if self.is_complete() && self.routers.iter().any(streams) {
                return true;
            }
            self.let_everything_happen();
        }
        false
    }

    /// After every router has had time to refresh its topics, only the present partition counts are
    /// right.
    fn see_that_new_partitions_are_used(&mut self) {
        for _ in 0..ROUNDS_TO_LOOK {
            self.let_everything_happen();
        }
        for topic in &mut self.kafka.topics {
            topic.counts = topic.partitions.into_iter().collect();
        }
    }

    fn write_the_last(&mut self) {
        let catalog = self.server.catalog;
        for _ in 0..2 {
            self.server.history.write_transaction(8, &mut self.random, catalog, RowKind::Valid);
        }
    }

    fn is_complete(&self) -> bool {
        self.mends.is_empty()
            && !self.call.is_due()
            && !(self.plan.person == Person::Accepts && self.has_open_gap())
            && self.history().missing().next().is_none()
            && self.server.confirmed() == self.history().end_of_wal
    }

    /// Whether a router has stopped for a reason that a person has to mend, and that this run has
    /// given.
    pub(super) fn has_called_for_a_person(&self) -> bool {
        // A gap ends if the plan has a person; a bad row never ends.
        let is_end =
            |reason: &Failure| self.plan.person == Person::Absent || reason.class() != Class::Gap;
        let is_called = |router: &SimulatedRouter| {
            let condition = router.relay.condition(self.at);
            let reason = condition.reason.filter(|_| condition.state == State::Failed);
            reason.is_some_and(|reason| self.call.allows(reason.code) && is_end(&reason))
        };
        self.routers.iter().any(is_called)
    }

    /// A router must not stop asking for a person, and must report the right interval.
    fn see_what_the_person_is_told(&mut self) {
        if !self.is_complete() && !self.has_called_for_a_person() {
            self.checker.accuse(Invariant::S11Loudness, || {
                "a person was called, and is not called any more".to_owned()
            });
        }
        self.see_that_the_interval_is_right();
        // For any reason to stop: what precedes a bad row has to arrive.
        let events = &self.server.history.events;
        let is_bad = |event: &CommittedEvent| {
            event.health != RowKind::Valid || event.catalog.shape >= crate::postgres::RENAMED
        };
        let Some(bad) = events.iter().position(is_bad) else { return };
        let gap = events.iter().any(|event| !event.is_published());
        let missing = self.server.history.missing().next();
        if let Some(missing) = missing
            && missing < bad
            && !gap
        {
            self.checker.accuse(Invariant::S10Liveness, || {
                format!("event {missing} waits behind {bad}, which is bad")
            });
        }
    }

    /// Every event that is missing after a gap and not sent again by the slot was committed after
    /// the position at which the gap is said to begin.
    fn see_that_the_interval_is_right(&mut self) {
        let reports = self.routers.iter().map(|one| one.relay.snapshot(self.at).witness);
        let begins = reports.flat_map(|report| report.gaps).map(|gap| gap.interval.from);
        // A gap without a beginning covers everything before its end.
        let from = begins.min_by_key(|from| from.as_ref().map(|from| from.lsn)).flatten();
        // A monitor that reads a restored server names positions of the history that is gone.
        let Some(from) = from.filter(|_| self.server.epoch == 0) else { return };
        let from = from.lsn.as_u64();
        let history = &self.server.history;
        let is_there = self.server.slot.is_some_and(|slot| !slot.is_lost);
        let confirmed = self.server.confirmed();
        let is_outside = |number: &usize| {
            let event = &history.events[*number];
            let Some(own) = history.transactions.get(event.transaction) else { return false };
            let comes = is_there && own.commit_lsn >= confirmed && event.is_published();
            !comes && own.end_lsn <= from
        };
        if let Some(early) = history.missing().find(is_outside) {
            self.checker.accuse(Invariant::S1Complete, || {
                format!("event {early} is missing, and the gap is said to begin at {from}")
            });
        }
    }

    /// Reports why a run ended neither complete nor stopped.
    fn blame(&mut self) {
        let missing: Vec<usize> = self.server.history.missing().take(5).collect();
        let states: Vec<String> = self
            .routers
            .iter()
            .map(|router| format!("{:?}", router.relay.condition(self.at)))
            .collect();
        let confirmed = self.server.confirmed();
        let end = self.server.history.end_of_wal;
        let slot = self.server.slot;
        let invariant = match (missing.is_empty(), confirmed >= end) {
            (true, true) => Invariant::S11Loudness,
            (false, true) => Invariant::S1Complete,
            (true | false, false) => Invariant::S10Liveness,
        };
        self.checker.accuse(invariant, || {
            format!(
                "events {missing:?} are missing, {confirmed} of {end} is confirmed ({slot:?}), routers say {states:?}"
            )
        });
    }
}
