//! What is begun beside the core: looking at the server and connecting, waiting for the slot, making a producer.

use relay::{
    Code, Failure, Input,
    bug::{self, Bug},
    failpoint::{self, Failpoint},
    source::{Expectations, Obstacle, judge},
};

use super::{Call, World};
use crate::{
    invariant::Invariant,
    kafka::Producer,
    postgres::{
        Phase, Slot,
        facts::{self, PUBLICATION, SLOT},
    },
    router::Job,
};

impl World {
    /// What was begun beside the core is done.
    pub(super) fn finish_job(&mut self, router: usize) {
        match std::mem::replace(&mut self.routers[router].job, Job::None) {
            Job::None => {}
            Job::Connect => self.finish_connecting(router),
            Job::WatchSlot => match self.server.phase {
                Phase::Down { .. } => {
                    let failure = Failure::new(Code::ServerUnreachable, "refused");
                    self.input(router, Input::Disconnected(failure));
                }
                Phase::Up | Phase::Stopping { .. } if self.server.holder().is_none() => {
                    self.input(router, Input::SlotFree);
                }
                Phase::Up | Phase::Stopping { .. } => {
                    self.routers[router].job = Job::WatchSlot;
                }
            },
        }
    }

    fn finish_connecting(&mut self, router: usize) {
        let refusal = match self.server.phase {
            Phase::Down { .. } => Some(Code::ServerUnreachable),
            Phase::Stopping { .. } => Some(Code::ServerNotReady),
            Phase::Up if self.call != Call::Wrong => None,
            Phase::Up => self.random.one_in(8).then_some(Code::ServerUnreachable),
        };
        if let Some(code) = refusal {
            self.input(router, Input::Disconnected(Failure::new(code, "refused")));
            return;
        }
        if bug::is(Bug::RecreateSlot) && self.server.slot.is_none() {
            self.server.slot = Some(Slot::at(self.server.history.end_of_wal));
            self.routers[router].word.forget();
        }
        let process = &self.routers[router];
        let expected = Expectations {
            slot: SLOT.to_owned(),
            publication: PUBLICATION.to_owned(),
            outboxes: facts::outboxes(),
            confirmed: process.word.holds(self.at),
            furthest: process.word.furthest(),
            earlier: process.baseline.clone(),
        };
        let look = self.server.slot_look();
        match judge(&expected, self.server.server(), &look, self.server.catalog_look()) {
            Err(Obstacle::SlotInUse { pid }) => {
                self.routers[router].word.forget();
                self.routers[router].has_seen_another = true;
                self.input(router, Input::SlotHeld(Some(pid)));
            }
            Err(Obstacle::Gap(gap)) => self.input(router, Input::Disconnected(gap.failure)),
            Err(Obstacle::Failed(failure)) => self.input(router, Input::Disconnected(failure)),
            Ok(baseline) => {
                let end = self.server.history.end_of_wal;
                if self.routers[router].furthest > end {
                    self.judge.accuse(Invariant::I11Loudness, || {
                        format!(
                            "streams from a server whose WAL ends at {end}, before what it was told"
                        )
                    });
                }
                self.start_streaming(router, baseline);
            }
        }
    }

    fn start_streaming(&mut self, router: usize, baseline: relay::source::Baseline) {
        let id = self.server.connect(router, self.at);
        let slot_at = baseline.confirmed();
        let tables = baseline.tables.clone();
        let at = self.at;
        let alive = self.within(router, |process| {
            failpoint::reached(Failpoint::SlotChecked);
            failpoint::reached(Failpoint::Connected);
            process.word.found(slot_at, at);
            process.baseline = Some(baseline);
            process.connection = Some(id);
            failpoint::reached(Failpoint::ReplicationStarted);
        });
        if alive.is_none() {
            return;
        }
        let confirmed = self.server.confirmed();
        // Confirmed before a crash, or on a connection that did not carry it.
        let known = self.history().serial_past(self.server.peak.max(self.lost_word));
        let excused = known.saturating_sub(self.history().serial_past(confirmed));
        let session = self.judge.session_begins(&self.server.history, confirmed, excused);
        self.coverage.sessions += 1;
        let process = &mut self.routers[router];
        process.session = session;
        process.has_seen_another = false;
        if let Some(producer) = &mut process.producer {
            producer.session = session;
        }
        self.input(router, Input::SlotAt(slot_at));
        self.input(router, Input::Tables(tables));
        self.input(router, Input::Connected);
    }

    /// The first producer, or a new one.
    pub(super) fn finish_producer(&mut self, router: usize) {
        if self.routers[router].producer.is_none() {
            // Sometimes the queue is smaller than the window, sometimes the other way round.
            let mut producer = Producer::new(self.plan.queue);
            producer.session = self.routers[router].session;
            self.routers[router].producer = Some(producer);
            self.input(router, Input::SinkReady);
        }
    }
}
