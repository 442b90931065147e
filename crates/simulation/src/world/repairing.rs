//! Ends faults: every fault that passes has its mend, at a time that was chosen together with the
//! fault.

use std::time::Duration;

use relay::Input;

use super::{World, repair::Repair};
use crate::{
    history::{OutboxName, PublicationState},
    postgres::SimulatedSlot,
};

/// How late a process has to be woken to know that it was stopped: half of `wal_sender_timeout`.
const STOOD_STILL: Duration = Duration::from_secs(5);

impl World {
    /// Schedules a mend between `least` and twenty seconds later.
    pub(super) fn mend_after(&mut self, least: Duration, mend: Repair) {
        let more = if self.random.one_in(3) { 20_000 } else { 900 };
        let delay = least + Duration::from_millis(self.random.below(more));
        self.mends.push((self.at + delay, mend));
    }

    pub(super) fn mend_what_is_due(&mut self) {
        let at = self.at;
        let due = self.mends.extract_if(.., |(when, _)| *when <= at);
        let due: Vec<Repair> = due.map(|(_, mend)| mend).collect();
        for mend in due {
            self.mend(mend);
        }
    }

    /// Does every scheduled mend now, but for those that a person does.
    pub(super) fn mend_everything(&mut self) {
        let passes = |mend: &Repair| {
            !matches!(mend, Repair::Slot | Repair::Publication | Repair::Inserts | Repair::Table)
        };
        let left = self.mends.extract_if(.., |(_, mend)| passes(mend));
        let left: Vec<Repair> = left.map(|(_, mend)| mend).collect();
        for mend in left {
            self.mend(mend);
        }
    }

    pub(super) fn mend(&mut self, mend: Repair) {
        match mend {
            Repair::Cluster => self.kafka.is_up = true,
            Repair::Leaders => {
                for topic in &mut self.kafka.topics {
                    topic.leaderless = 0;
                }
            }
            Repair::Producers => self.kafka.ends_producers = false,
            Repair::Acks => self.kafka.acks_pass = true,
            Repair::Metadata => {
                for topic in &mut self.kafka.topics {
                    topic.is_denied = false;
                }
            }
            Repair::Limits => {
                for topic in &mut self.kafka.topics {
                    topic.limit = None;
                }
            }
            Repair::Topic(place, partitions) => {
                let topic = &mut self.kafka.topics[place];
                topic.partitions = Some(partitions);
                topic.counts.push(partitions);
                topic.fewest = topic.fewest.into_iter().chain([partitions]).min();
            }
            Repair::ResumeProcess(router) => self.thaw(router),
            Repair::Decoding => self.server.undecodable = None,
            Repair::Record => self.refused = None,
            Repair::TableName => self.server.catalog.called = OutboxName::Configured,
            Repair::Slot => {
                let here = self.server.history.end_of_wal;
                self.server.slot.get_or_insert(SimulatedSlot::at(here));
            }
            Repair::Publication => {
                self.server.catalog.publishing = PublicationState::Complete;
                self.server.publication_oid += 1;
                self.server.entry_oid += 1;
            }
            Repair::Inserts => {
                self.server.catalog.publishing = PublicationState::Complete;
                self.server.altered_by += 1;
            }
            Repair::Table => {
                self.server.catalog.publishing = PublicationState::Complete;
                self.server.entry_oid += 1;
            }
            Repair::StartProcess(router) => self.routers[router].is_down = false,
            Repair::Network => self.is_cut_off = false,
            Repair::State => {
                self.kafka.state.is_leaderless = false;
                self.kafka.state.is_deleted = false;
            }
        }
    }

    /// SIGCONT: the process handles everything that it missed.
    fn thaw(&mut self, router: usize) {
        if let Some(since) = self.routers[router].frozen_since.take() {
            let late = self.at.since(since);
            if late >= STOOD_STILL {
                self.checker.session_must_end(self.routers[router].session);
                self.input(router, Input::ProcessStalled(late));
            }
            self.wake(router);
        }
    }
}
