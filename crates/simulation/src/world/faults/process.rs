//! Faults of a router's process.

use std::time::Duration;

use relay::Input;

use super::AT_ONCE;
use crate::world::{World, injection::Injection, repair::Repair};

impl World {
    pub(super) fn kill_a_router(&mut self) -> Injection {
        let router = self.some_router();
        let runs = self.routers[router].runs();
        if runs {
            self.kill(router);
        }
        Injection::from(runs)
    }

    /// Every router is killed, and started again later.
    pub(super) fn stop_all_routers(&mut self) {
        for router in 0..self.routers.len() {
            if self.routers[router].is_down {
                continue;
            }
            self.kill(router);
            self.routers[router].is_down = true;
            self.schedule_repair(AT_ONCE, Repair::StartProcess(router));
        }
    }

    /// A topic gets more partitions while no router runs and events are in flight.
    pub(super) fn grow_a_topic_while_down(&mut self) -> Injection {
        self.stop_all_routers();
        self.grow_a_topic()
    }

    pub(super) fn freeze_a_router(&mut self) -> Injection {
        let router = self.some_router();
        if !self.routers[router].runs() {
            return Injection::NotApplicable;
        }
        self.checker.note_interruption();
        self.routers[router].frozen_since = Some(self.at);
        // Often longer than `wal_sender_timeout`.
        let least = if self.random.one_in(3) { AT_ONCE } else { Duration::from_secs(11) };
        self.schedule_repair(least, Repair::ResumeProcess(router));
        Injection::Done
    }

    pub(super) fn shut_a_router_down(&mut self) -> Injection {
        let router = self.some_router();
        let runs = self.routers[router].runs();
        if runs {
            self.input(router, Input::Shutdown);
        }
        Injection::from(runs)
    }
}
