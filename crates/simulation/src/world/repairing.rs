//! Ends faults: every transient fault has a repair, whose time is chosen together with the fault.

use std::time::Duration;

use relay::Input;

use super::{World, repair::Repair};
use crate::{
    history::{OutboxName, PublicationState},
    postgres::SimulatedSlot,
};

/// How late a process has to be woken to know that it was stopped: half of `wal_sender_timeout`.
const STALL_MIN: Duration = Duration::from_secs(5);

impl World {
    /// Schedules a repair between `least` and twenty seconds later.
    pub(super) fn schedule_repair(&mut self, least: Duration, repair: Repair) {
        let more = if self.random.one_in(3) { 20_000 } else { 900 };
        let delay = least + Duration::from_millis(self.random.below(more));
        self.repairs.push((self.at + delay, repair));
    }

    pub(super) fn run_due_repairs(&mut self) {
        let at = self.at;
        let due = self.repairs.extract_if(.., |(when, _)| *when <= at);
        let due: Vec<Repair> = due.map(|(_, repair)| repair).collect();
        for repair in due {
            self.repair(repair);
        }
    }

    /// Does every scheduled repair now, but for those that a person does.
    pub(super) fn run_all_repairs(&mut self) {
        let passes = |repair: &Repair| {
            !matches!(repair, Repair::Slot | Repair::Publication | Repair::Inserts | Repair::Table)
        };
        let left = self.repairs.extract_if(.., |(_, repair)| passes(repair));
        let left: Vec<Repair> = left.map(|(_, repair)| repair).collect();
        for repair in left {
            self.repair(repair);
        }
    }

    pub(super) fn repair(&mut self, repair: Repair) {
        match repair {
            Repair::Cluster => self.kafka.is_up = true,
            Repair::Leaders => {
                for topic in &mut self.kafka.topics {
                    topic.leaderless = 0;
                }
            }
            Repair::Producers => self.kafka.fails_producers = false,
            Repair::Acks => self.kafka.acks_pass = true,
            Repair::Metadata => {
                for topic in &mut self.kafka.topics {
                    topic.is_hidden = false;
                }
            }
            Repair::Limits => {
                for topic in &mut self.kafka.topics {
                    topic.limit = topic.usual_limit;
                }
            }
            Repair::Topic(index, partitions) => {
                let topic = &mut self.kafka.topics[index];
                topic.partitions = Some(partitions);
                topic.counts.push(partitions);
                topic.fewest = topic.fewest.into_iter().chain([partitions]).min();
            }
            Repair::ResumeProcess(router) => self.resume_process(router),
            Repair::Decoding => self.server.undecodable = None,
            Repair::Record => {
                self.refused_event = None;
                self.held.accept_again();
            }
            Repair::Letters => self.kafka.refuses_letters = None,
            Repair::TableName => self.server.catalog.name = OutboxName::Configured,
            Repair::Slot => {
                let here = self.server.history.end_of_wal;
                self.server.slot.get_or_insert(SimulatedSlot::at(here));
            }
            Repair::Publication => {
                self.server.catalog.publication = PublicationState::Complete;
                self.server.publication_oid += 1;
                self.server.entry_oid += 1;
            }
            Repair::Inserts => {
                self.server.catalog.publication = PublicationState::Complete;
                self.server.altered_by += 1;
            }
            Repair::Table => {
                self.server.catalog.publication = PublicationState::Complete;
                self.server.entry_oid += 1;
            }
            Repair::StartProcess(router) => self.routers[router].is_down = false,
            Repair::Network => self.is_cut_off = false,
            Repair::Standby => {
                if let Some(standby) = &mut self.server.history.standby {
                    standby.is_away = false;
                }
            }
            Repair::State => {
                self.kafka.state.is_leaderless = false;
                self.kafka.state.is_deleted = false;
            }
        }
    }

    /// SIGCONT: the process handles everything that it missed.
    fn resume_process(&mut self, router: usize) {
        if let Some(since) = self.routers[router].frozen_since.take() {
            let late = self.at.since(since);
            if late >= STALL_MIN {
                self.checker.end_session(self.routers[router].session);
                self.input(router, Input::ProcessStalled(late));
            }
            self.wake(router);
        }
    }
}
