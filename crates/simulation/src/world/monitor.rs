//! Checks beside the stream: the monitor's of slot and publication, the topic refresh, and this
//! crate's own of the state that a router reports.

use std::{sync::Arc, time::Duration};

use relay::{
    Class, Failure, Input, State,
    source::{Baseline, LastGood, publication, slot_checks, suspected_gap},
};

use super::World;
use crate::{
    invariant::Invariant,
    postgres::{
        ServerPhase,
        queries::{self, PUBLICATION, SLOT},
    },
};

/// How often the monitor and the topic refresh run.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl World {
    /// Checks the state that a router reports; runs the monitor and the topic refresh when they are
    /// due.
    pub(super) fn run_periodic_checks(&mut self, router: usize) {
        if !self.routers[router].runs() {
            return;
        }
        let condition = self.routers[router].relay.condition(self.at);
        self.coverage.state(condition.state);
        if condition.state == State::Failed {
            condition.reason.iter().for_each(|reason| self.count_halt(reason.code));
        }
        if condition.state == State::Failed
            && let Some(reason) = condition.reason
            && reason.class() == Class::Gap
            && !self.expected_failure.allows(reason.code)
        {
            self.checker.report_violation(Invariant::S11Reporting, || {
                format!("a router reports a gap, and no fault of this run made one: {reason}")
            });
        }
        if let ServerPhase::Stopping { .. } = self.server.phase {
            self.input(router, Input::ServerStopping);
        }
        if self.routers[router].next_check_at <= self.at {
            self.routers[router].next_check_at = self.at + CHECK_INTERVAL;
            self.check_source(router);
            self.refresh_topics(router);
        }
    }

    fn check_source(&mut self, router: usize) {
        if self.server.phase != ServerPhase::Up || self.is_cut_off {
            return;
        }
        let reading = self.server.read_slot();
        let catalog = self.server.read_catalog();
        let snapshot = self.routers[router].relay.snapshot(self.at);
        self.set_baseline(router, snapshot.baseline.clone());
        let outboxes = queries::outboxes(self.plan.version);
        let watched = publication::Watched { publication: PUBLICATION, outboxes: &outboxes };
        let before = snapshot.baseline.as_ref().map(|baseline| &baseline.catalog);
        let mut findings: Vec<_> =
            slot_checks::suitable(SLOT, &reading).err().into_iter().collect();
        findings.extend(publication::compare(watched, before, &catalog));
        let now = reading.mark();
        if findings.iter().all(Failure::is_note) {
            let confirmed = reading.slot.as_ref().and_then(|slot| slot.confirmed_flush_lsn);
            let last_good = LastGood { checked: now, confirmed };
            self.routers[router].last_good = Some(last_good);
            self.input(router, Input::SourceVerified(&reading, &catalog));
            return;
        }
        let last_good = self.routers[router].last_good.clone();
        for failure in findings {
            let code = failure.code;
            if self.routers[router].suspected.contains(&code) {
                continue;
            }
            if let Some(gap) = suspected_gap(failure, last_good.clone(), &snapshot, &now) {
                self.routers[router].suspected.insert(code);
                self.input(router, Input::GapSuspected(gap));
            }
        }
    }

    /// From now on the monitor compares with what the new session found.
    fn set_baseline(&mut self, router: usize, baseline: Option<Arc<Baseline>>) {
        let process = &mut self.routers[router];
        let is_known = match (&process.baseline, &baseline) {
            (Some(known), Some(present)) => Arc::ptr_eq(known, present),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_known {
            process.suspected.clear();
            process.last_good = baseline.as_deref().map(LastGood::from);
            process.baseline = baseline;
        }
    }

    /// Counts the errors that a process has reported since the last call.
    pub(super) fn count_errors(&mut self, router: usize) {
        let errors = self.routers[router].relay.snapshot(self.at).errors;
        for (code, times) in errors {
            let known = self.routers[router].counted.insert(code, times).unwrap_or(0);
            self.coverage.code(code, times.saturating_sub(known));
        }
    }
}
