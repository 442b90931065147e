//! Each fault, done to the world.

use std::time::Duration;

use relay::{Code, Input, State, failpoint::Failpoint};

use super::{World, mending::Mend};
use crate::{
    coverage,
    fault::Fault,
    history::{Health, LONG, Publishing},
    postgres::{Phase, Slot},
};

/// Whether a fault could be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// There was nothing that it could be done to.
    Pointless,
}

impl From<bool> for Outcome {
    fn from(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Pointless }
    }
}

const NOW: Duration = Duration::ZERO;

impl World {
    pub(super) fn inject(&mut self, fault: Fault) -> Outcome {
        let router = self.random.index(self.routers.len());
        match fault {
            Fault::KillRouter | Fault::KillAtFailpoint | Fault::FreezeRouter | Fault::Shutdown => {
                self.disturb_process(fault, router)
            }
            Fault::CutConnection
            | Fault::BlackHole
            | Fault::CrashServer
            | Fault::FastStop
            | Fault::ServerError
            | Fault::RestoreBackup
            | Fault::LongTransaction
            | Fault::AlterTable => self.disturb_server(fault),
            Fault::ClusterDown
            | Fault::LeaderDown
            | Fault::LoseAcks
            | Fault::DuplicateBatch
            | Fault::RejectBatch
            | Fault::RejectRecord
            | Fault::FatalProducer
            | Fault::MetadataFlap
            | Fault::DeleteTopic
            | Fault::GrowTopic => self.disturb_cluster(fault, router),
            Fault::DropSlot
            | Fault::RecreateSlot
            | Fault::LoseSlot
            | Fault::AdvanceSlot
            | Fault::DropPublication
            | Fault::WithholdInserts
            | Fault::RenameKeyColumn
            | Fault::PoisonRow => self.call_for_a_person(fault),
        }
    }

    fn disturb_process(&mut self, fault: Fault, router: usize) -> Outcome {
        if !self.routers[router].runs() {
            return Outcome::Pointless;
        }
        match fault {
            Fault::KillRouter => self.kill(router),
            Fault::KillAtFailpoint => {
                let point = Failpoint::ALL[self.random.index(Failpoint::ALL.len())];
                let nth = 1 + self.random.below(4);
                coverage::arm(point, u32::try_from(nth).expect("small"));
                self.judge.interrupted();
                self.provoke(point, router);
            }
            Fault::FreezeRouter => {
                self.judge.interrupted();
                let hour = Duration::from_secs(3_600);
                self.routers[router].frozen_until = Some(self.at + hour);
                // Often longer than the walsender waits.
                let least = if self.random.one_in(3) { NOW } else { Duration::from_secs(11) };
                self.mend_after(least, Mend::Thaw(router));
            }
            _ => self.input(router, Input::Shutdown),
        }
        Outcome::Done
    }

    /// Some places are only reached when somebody leads there.
    fn provoke(&mut self, point: Failpoint, router: usize) {
        match point {
            Failpoint::DrainBegun | Failpoint::DrainTold | Failpoint::DrainEnded => {
                coverage::arm(point, 1);
                self.input(router, Input::Shutdown);
            }
            Failpoint::StreamEnded => {
                coverage::arm(point, 1);
                self.server.stop(self.at);
            }
            Failpoint::DeliveryFailed => {
                coverage::arm(point, 1);
                self.kafka.rejects = Some(Code::DeliveryFailed);
            }
            Failpoint::WarningTaken => {
                coverage::arm(point, 1);
                let notice = relay::ServerNotice {
                    code: "01000".to_owned(),
                    message: "there is nothing to worry about".to_owned(),
                };
                self.input(router, Input::Notice(&notice));
            }
            Failpoint::SlotChecked | Failpoint::Connected | Failpoint::ReplicationStarted => {
                coverage::arm(point, 1);
                self.server.end_walsenders(Code::ServerUnreachable);
            }
            _ => {}
        }
    }

    fn disturb_server(&mut self, fault: Fault) -> Outcome {
        if self.server.phase != Phase::Up {
            return Outcome::Pointless;
        }
        let until = self.at + Duration::from_millis(self.random.below(2_500));
        match fault {
            Fault::CutConnection => {
                self.judge.interrupted();
                let is_streaming = self.server.holder().is_some();
                self.server.end_walsenders(Code::ServerUnreachable);
                return is_streaming.into();
            }
            Fault::BlackHole => {
                self.judge.interrupted();
                let connections = self.server.connections.iter_mut();
                let mut served = connections.filter(|connection| connection.is_served);
                return served
                    .next()
                    .map(|connection| connection.is_swallowed = true)
                    .is_some()
                    .into();
            }
            Fault::CrashServer => {
                self.judge.interrupted();
                self.server.crash(until);
            }
            Fault::FastStop => {
                self.judge.interrupted();
                self.server.stop(self.at);
            }
            Fault::ServerError => {
                self.judge.interrupted();
                self.write_transaction(2, Health::Sound);
                let last = self.server.history.transactions.last();
                self.server.undecodable = last.map(|transaction| transaction.commit_lsn);
                self.mend_after(NOW, Mend::Decoding);
            }
            Fault::RestoreBackup => return self.restore(until),
            Fault::LongTransaction => self.write_transaction(LONG, Health::Sound),
            _ => self.server.catalog.shape += 1,
        }
        Outcome::Done
    }

    /// The first time, a backup is taken; the next, it is restored.
    fn restore(&mut self, until: relay::Moment) -> Outcome {
        self.judge.interrupted();
        if self.server.restore(until) {
            self.judge.went_back(&self.server.history);
            self.lost_word = self.lost_word.min(self.server.history.end_of_wal);
            self.refused = None;
            // A router that remembers a later position stops and says so.
            self.needs_person = true;
            return Outcome::Done;
        }
        self.server.back_up();
        Outcome::Pointless
    }

    fn write_transaction(&mut self, rows: u64, health: Health) {
        let catalog = self.server.catalog;
        self.server.history.write_transaction(rows, &mut self.random, catalog, health);
    }

    fn disturb_cluster(&mut self, fault: Fault, router: usize) -> Outcome {
        let place = self.random.index(self.kafka.topics.len());
        let more = 1 + i32::try_from(self.random.below(3)).expect("small");
        let topic = &mut self.kafka.topics[place];
        match (fault, topic.partitions) {
            (Fault::ClusterDown, _) => {
                self.kafka.is_up = false;
                self.mend_after(NOW, Mend::Cluster);
            }
            (Fault::LeaderDown, _) => {
                topic.leaderless = self.random.next();
                self.mend_after(NOW, Mend::Leaders);
            }
            (Fault::LoseAcks, _) => {
                self.kafka.acks_pass = false;
                self.mend_after(NOW, Mend::Acks);
            }
            (Fault::DuplicateBatch, _) => self.kafka.stores_twice = true,
            (Fault::RejectBatch, _) => self.kafka.rejects = Some(Code::DeliveryFailed),
            (Fault::RejectRecord, _) => return self.refuse_a_record(),
            (Fault::FatalProducer, _) => {
                self.judge.interrupted();
                return (self.routers[router].runs() && self.fail_producer(router)).into();
            }
            (Fault::MetadataFlap, Some(_)) => {
                topic.is_denied = true;
                self.mend_after(NOW, Mend::Metadata);
            }
            (Fault::DeleteTopic, Some(_)) => {
                self.judge.interrupted();
                topic.partitions = None;
                self.mend_after(NOW, Mend::Topic(place, more));
            }
            (Fault::GrowTopic, Some(count)) => {
                topic.partitions = Some(count + more);
                topic.counts.push(count + more);
            }
            _ => return Outcome::Pointless,
        }
        Outcome::Done
    }

    /// Some event that is to come is refused for a while.
    fn refuse_a_record(&mut self) -> Outcome {
        self.judge.interrupted();
        self.write_transaction(3, Health::Sound);
        let number = self.server.history.events.len() - 2;
        self.refused = Some((number, None));
        self.mend_after(NOW, Mend::Record);
        Outcome::Done
    }

    /// What only a person ends is done to a router that streams: nobody else could know of it.
    fn call_for_a_person(&mut self, fault: Fault) -> Outcome {
        coverage::disarm();
        if !self.wait_until_streaming() {
            return Outcome::Pointless;
        }
        self.needs_person = true;
        let later = Duration::from_secs(12);
        match fault {
            Fault::DropSlot => {
                self.server.end_walsenders(Code::ServerUnreachable);
                self.server.slot = None;
                self.mend_after(later, Mend::Slot);
            }
            Fault::RecreateSlot => {
                self.write_transaction(2, Health::Sound);
                self.server.end_walsenders(Code::ServerUnreachable);
                let here = self.server.history.end_of_wal;
                self.server.slot = Some(Slot { confirmed: here, saved: here, is_lost: false });
            }
            Fault::LoseSlot => {
                self.server.end_walsenders(Code::ServerUnreachable);
                if let Some(slot) = &mut self.server.slot {
                    slot.is_lost = true;
                }
            }
            Fault::AdvanceSlot => {
                self.write_transaction(2, Health::Sound);
                self.server.end_walsenders(Code::ServerUnreachable);
                if let Some(slot) = &mut self.server.slot {
                    slot.confirmed = self.server.history.end_of_wal;
                }
            }
            Fault::DropPublication => {
                self.server.catalog.publishing = Publishing::Missing;
                self.mend_after(NOW, Mend::Publication);
            }
            Fault::WithholdInserts => {
                self.server.catalog.publishing = Publishing::Withheld;
                self.mend_after(later, Mend::Inserts);
            }
            Fault::RenameKeyColumn => self.server.catalog.shape += crate::postgres::RENAMED,
            _ => self.write_transaction(3, Health::NullKey),
        }
        self.write_transaction(2, Health::Sound);
        // What the router said last is believed for ten seconds: by then it has to be back.
        for _ in 0..30 {
            self.let_everything_happen();
        }
        Outcome::Done
    }

    /// Lets the world go on without further trouble until its one router streams.
    fn wait_until_streaming(&mut self) -> bool {
        self.mend_everything();
        self.kafka.heal();
        for _ in 0..300 {
            let process = &self.routers[0];
            let connection = process.connection.and_then(|id| self.server.connection(id));
            let streams = connection.is_some_and(|one| one.is_served && !one.is_swallowed);
            let state = process.relay.condition(self.at).state;
            let is_well = state == State::Streaming && self.server.phase == Phase::Up;
            if streams && is_well && process.runs() {
                return true;
            }
            self.let_everything_happen();
        }
        false
    }
}
