//! What befalls a router's process.

use std::time::Duration;

use relay::{Code, Input, ServerNotice, failpoint::Failpoint};

use super::{NOW, Outcome};
use crate::{
    coverage,
    world::{World, mending::Mend},
};

impl World {
    pub(super) fn kill_a_router(&mut self) -> Outcome {
        let router = self.some_router();
        let runs = self.routers[router].runs();
        if runs {
            self.kill(router);
        }
        Outcome::from(runs)
    }

    /// Every router is killed, and started again at some time.
    pub(super) fn take_all_routers_down(&mut self) {
        for router in 0..self.routers.len() {
            if self.routers[router].is_down {
                continue;
            }
            self.kill(router);
            self.routers[router].is_down = true;
            self.mend_after(NOW, Mend::Start(router));
        }
    }

    /// A topic grows while nobody is there who has events in flight.
    pub(super) fn grow_a_topic_meanwhile(&mut self) -> Outcome {
        self.take_all_routers_down();
        self.grow_a_topic()
    }

    pub(super) fn freeze_a_router(&mut self) -> Outcome {
        let router = self.some_router();
        if !self.routers[router].runs() {
            return Outcome::Pointless;
        }
        self.judge.interrupted();
        self.routers[router].frozen_since = Some(self.at);
        // Often longer than the walsender waits.
        let least = if self.random.one_in(3) { NOW } else { Duration::from_secs(11) };
        self.mend_after(least, Mend::Thaw(router));
        Outcome::Done
    }

    pub(super) fn shut_a_router_down(&mut self) -> Outcome {
        let router = self.some_router();
        let runs = self.routers[router].runs();
        if runs {
            self.input(router, Input::Shutdown);
        }
        Outcome::from(runs)
    }

    pub(super) fn kill_at_a_failpoint(&mut self) -> Outcome {
        let router = self.some_router();
        if !self.routers[router].runs() {
            return Outcome::Pointless;
        }
        let point = Failpoint::ALL[self.random.index(Failpoint::ALL.len())];
        self.judge.interrupted();
        coverage::arm(point, 1);
        match point {
            // Some places are only reached when somebody leads there.
            Failpoint::DrainBegun | Failpoint::DrainTold | Failpoint::DrainEnded => {
                self.input(router, Input::Shutdown);
            }
            Failpoint::StreamEnded => self.server.stop(self.at),
            Failpoint::DeliveryFailed => self.kafka.rejects = Some(Code::DeliveryFailed),
            Failpoint::SlotChecked | Failpoint::Connected | Failpoint::ReplicationStarted => {
                self.server.end_walsenders(Code::ServerUnreachable);
            }
            Failpoint::WarningTaken => {
                let notice = ServerNotice {
                    code: "01000".to_owned(),
                    message: "there is nothing to worry about".to_owned(),
                };
                self.input(router, Input::Notice(&notice));
            }
            Failpoint::CoveredPassed => {
                // A slot that somebody has made was saved when it was made.
                if self.call.is_idle() {
                    self.server.forget_saved();
                }
                self.server.crash(self.at);
            }
            Failpoint::RelationTaken
            | Failpoint::BeginTaken
            | Failpoint::BeforeEnqueue
            | Failpoint::AfterEnqueue
            | Failpoint::QueueFull
            | Failpoint::CommitTaken
            | Failpoint::KeepaliveTaken
            | Failpoint::BeforeAcks
            | Failpoint::AfterAcks
            | Failpoint::AckedButOpen
            | Failpoint::BeforeAdvance
            | Failpoint::AfterAdvance
            | Failpoint::BeforeWitness
            | Failpoint::WitnessAcked
            | Failpoint::BeforeStatus
            | Failpoint::AfterStatus => {
                let nth = u32::try_from(1 + self.random.below(4)).expect("small");
                coverage::arm(point, nth);
            }
        }
        Outcome::Done
    }
}
