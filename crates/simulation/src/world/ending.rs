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
const ROUNDS_MAX: u32 = 700;
/// How many rounds it takes until every router uses a new partition count: topics are refreshed
/// every five seconds, and then what was produced before has to be settled.
const ROUNDS_TO_REFRESH: u32 = 44;

/// How many rounds a broker may keep a record waiting and a session take to be re-established.
const ROUNDS_TO_ARRIVE: u32 = 40;

impl World {
    /// One round, in which everything happens that can.
    pub(super) fn run_round(&mut self) {
        for _ in 0..8 {
            self.server.send(&mut self.random);
        }
        self.store_late_batch();
        for router in 0..self.routers.len() {
            self.answer(router);
            self.read(router, 64);
            self.store(router, 64);
            self.acknowledge(router, 64);
            self.report_closed_connections();
            self.run_periodic_checks(router);
        }
        self.schedule_acceptance();
        self.decide_at_the_end();
        self.advance_clock(Duration::from_millis(250));
    }

    /// Ends the faults, and waits for what must arrive.
    pub(super) fn end(&mut self) {
        coverage::disarm();
        self.run_all_repairs();
        self.kafka.heal();
        self.end_dead_letters();
        self.server.history.commit_all(&mut self.random);
        if self.wait_until_delivered() {
            self.require_new_partition_counts();
        }
        self.write_final_transactions();
        let mut has_reported = false;
        for _ in 0..ROUNDS_MAX {
            if self.checker.violation().is_some() {
                return;
            }
            if self.has_expected_failure() || self.is_complete() {
                // The state must last; and behind a row that waits for a person, what precedes it
                // may still be on its way.
                for _ in 0..ROUNDS_TO_ARRIVE {
                    self.run_round();
                }
                // A router that lost the slot may write a gap last; the router that streams reads
                // it soon.
                let waits_for_a_person = self.has_open_gap() && !self.has_expected_failure();
                // The router that takes over has to reach the bad row again.
                let comes_again = !self.has_expected_failure() && !self.is_complete();
                // A record that a broker refuses costs up to three sessions, and routers may take
                // turns: no fixed number of rounds holds for what precedes a bad row.
                let still_arrives = self.missing_before_bad_row().is_some();
                if !waits_for_a_person && !comes_again && !still_arrives {
                    self.check_reported_failure();
                    return;
                }
                has_reported = true;
            }
            self.run_round();
        }
        if has_reported {
            self.check_reported_failure();
        } else {
            self.report_incomplete_run();
        }
    }

    /// Waits until everything arrives that was written. What was in flight when a topic grew keeps
    /// its partitions until then.
    fn wait_until_delivered(&mut self) -> bool {
        if self.kafka.topics.iter().all(|topic| topic.counts.len() == 1) {
            return false;
        }
        for _ in 0..ROUNDS_MAX {
            if self.checker.violation().is_some() || self.has_expected_failure() {
                return false;
            }
            if self.is_complete() && self.has_holder_that_streams() {
                return true;
            }
            self.run_round();
        }
        false
    }

    /// Whether a router streams from the server as it is now.
    fn has_holder_that_streams(&self) -> bool {
        let Some(holder) = self.server.holder() else { return false };
        let process = &self.routers[holder.router];
        process.connection == Some(holder.id)
            && process.relay.condition(self.at).state == State::Streaming
    }

    /// After every router has had time to refresh its topics, only the present partition counts are
    /// right; unless the router that streamed has stopped, since the next session keeps the former
    /// counts until what may have been in flight has passed.
    fn require_new_partition_counts(&mut self) {
        for _ in 0..ROUNDS_TO_REFRESH {
            self.run_round();
        }
        if !self.is_complete() || !self.has_holder_that_streams() {
            return;
        }
        for topic in &mut self.kafka.topics {
            topic.counts = topic.partitions.into_iter().collect();
        }
    }

    fn write_final_transactions(&mut self) {
        let catalog = self.server.catalog;
        for _ in 0..2 {
            self.server.history.write_transaction(8, &mut self.random, catalog, RowKind::Valid);
        }
    }

    fn is_complete(&self) -> bool {
        self.repairs.is_empty()
            && !self.expected_failure.is_required()
            && !(self.plan.person == Person::Accepts && self.has_open_gap())
            && self.history().missing().next().is_none()
            && self.has_table_left_nothing()
            && self.server.confirmed() == self.history().end_of_wal
    }

    /// Whether a router has stopped for a reason that a person has to repair, and that this run has
    /// given.
    pub(super) fn has_expected_failure(&self) -> bool {
        // A gap ends if the plan has a person; a bad row never ends.
        let is_end =
            |reason: &Failure| self.plan.person == Person::Absent || reason.class() != Class::Gap;
        let has_stopped = |router: &SimulatedRouter| {
            let condition = router.relay.condition(self.at);
            let reason = condition.reason.filter(|_| condition.state == State::Failed);
            reason
                .is_some_and(|reason| self.expected_failure.allows(reason.code) && is_end(&reason))
        };
        self.routers.iter().any(has_stopped)
    }

    /// A router must not stop asking for a person, and must report the right interval.
    fn check_reported_failure(&mut self) {
        if !self.is_complete() && !self.has_expected_failure() {
            self.checker.report_violation(Invariant::S11Reporting, || {
                "a router reported a failure that a person has to repair, and reports it no longer".to_owned()
            });
        }
        self.check_reported_interval();
        if let Some((missing, bad)) = self.missing_before_bad_row() {
            self.checker.report_violation(Invariant::S10Liveness, || {
                format!(
                    "event {missing} is not delivered although it precedes the bad row, event {bad}"
                )
            });
        }
    }

    /// An event that is missing although it precedes a bad row, and that row. Whatever the reason
    /// to stop is, such an event has to arrive. After a gap, nothing is known of it.
    fn missing_before_bad_row(&self) -> Option<(usize, usize)> {
        let events = &self.server.history.events;
        let is_bad = |event: &CommittedEvent| {
            self.history().stops_at(event.kind) || event.catalog.shape >= crate::postgres::RENAMED
        };
        let bad = events.iter().position(is_bad)?;
        let missing = self.server.history.missing().next()?;
        let has_gap = events.iter().any(|event| !event.is_published());
        (missing < bad && !has_gap).then_some((missing, bad))
    }

    /// Every event that is missing after a gap and not sent again by the slot was committed after
    /// the reported beginning of the gap.
    fn check_reported_interval(&mut self) {
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
            self.checker.report_violation(Invariant::S1Complete, || {
                format!("event {early} is missing, and lies before {from}, the reported beginning of the gap")
            });
        }
    }

    /// Reports why a run ended with events missing, although no router reports a failure.
    fn report_incomplete_run(&mut self) {
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
            (true, true) if self.has_table_left_nothing() => Invariant::S11Reporting,
            (true, true) => Invariant::S10Liveness,
            (false, true) => Invariant::S1Complete,
            (true | false, false) => Invariant::S10Liveness,
        };
        self.checker.report_violation(invariant, || {
            format!(
                "the run ends without a reported failure: events {missing:?} are not in Kafka, {confirmed} of {end} is confirmed ({slot:?}), the routers report {states:?}"
            )
        });
    }
}
