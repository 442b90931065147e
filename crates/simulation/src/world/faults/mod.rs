//! How each fault is done to the world.

use std::time::Duration;

use relay::Code;

use super::{World, injection::Injection, repair::Repair};
use crate::{
    fault::Fault,
    history::{CatalogState, LONG, OutboxName, RowKind},
};

mod cluster;
mod failpoints;
mod histories;
mod person;
mod process;
mod server;

/// The earliest time of a mend that may follow at once.
const NOW: Duration = Duration::ZERO;

impl World {
    pub(super) fn inject(&mut self, fault: Fault) -> Injection {
        match fault {
            Fault::KillRouter => self.kill_a_router(),
            Fault::KillAtFailpoint => self.kill_at_a_failpoint(),
            Fault::FreezeRouter => self.freeze_a_router(),
            Fault::Shutdown => self.shut_a_router_down(),
            Fault::AllDown => {
                self.take_all_routers_down();
                Injection::Done
            }

            Fault::CutConnection => self.cut_the_connection(),
            Fault::BlackHole => self.swallow_the_connection(),
            Fault::CutOff => {
                self.cut_everybody_off();
                Injection::Done
            }
            Fault::CrashServer => self.crash_the_server(),
            Fault::FastStop => self.stop_the_server(),
            Fault::ServerError => self.write_what_cannot_be_decoded(),
            Fault::PromoteStandby => self.promote_a_standby(),
            Fault::LongTransaction => self.write_transaction(LONG, RowKind::Valid),
            Fault::AlterTable => self.alter_the_table(1),
            Fault::RenameTable => self.rename_the_table(),

            Fault::ClusterDown => self.take_the_cluster_down(),
            Fault::LeaderDown => self.take_leaders(),
            Fault::LoseAcks => self.hold_acks_back(),
            Fault::DuplicateBatch => self.store_the_next_batch_twice(),
            Fault::RejectBatch => self.reject_the_next_batch(Code::DeliveryFailed),
            Fault::RejectRecord => self.refuse_a_record(),
            Fault::FatalProducer => self.end_producers(),
            Fault::MetadataFlap => self.deny_a_topic(),
            Fault::DeleteTopic => self.delete_a_topic(),
            Fault::GrowTopic => self.grow_a_topic(),
            Fault::LowerLimit => self.lower_a_limit(),
            Fault::GrowWhileDown => self.grow_a_topic_meanwhile(),
            Fault::StateAway => self.take_the_state_away(),
            Fault::DeleteState => self.delete_the_state(),

            Fault::DropSlot => self.call_for_a_person(fault, Self::drop_the_slot),
            Fault::RecreateSlot => self.call_for_a_person(fault, Self::move_the_slot),
            Fault::AdvanceSlot => self.call_for_a_person(fault, Self::move_the_slot),
            Fault::LoseSlot => self.call_for_a_person(fault, Self::lose_the_slot),
            Fault::DropPublication => self.call_for_a_person(fault, Self::drop_the_publication),
            Fault::WithholdInserts => self.call_for_a_person(fault, Self::withhold_inserts),
            Fault::TableOut => self.call_for_a_person(fault, Self::take_the_table_out),
            Fault::PromoteLagging => self.promote_one_that_lags(),
            Fault::PromoteWithoutSlot => self.promote_one_without_slot(),
            Fault::RestoreBackup => self.restore_a_backup(),
            Fault::RestoreSnapshot => self.restore_a_snapshot(),
            Fault::ExchangeServer => self.exchange_the_server(),
            Fault::ExchangeKafka => self.exchange_kafka(),
            Fault::RenameKeyColumn => self.call_for_a_person(fault, Self::rename_the_key),
            Fault::PoisonRow => self.call_for_a_person(fault, Self::write_a_null_key),
            Fault::OversizedRow => self.call_for_a_person(fault, Self::write_a_huge_row),
        }
    }

    fn some_router(&mut self) -> usize {
        self.random.index(self.routers.len())
    }

    fn write_transaction(&mut self, rows: u64, health: RowKind) -> Injection {
        let catalog = self.server.catalog;
        self.server.history.write_transaction(rows, &mut self.random, catalog, health);
        Injection::Done
    }

    fn alter_the_table(&mut self, shapes: usize) -> Injection {
        self.server.catalog.shape += shapes;
        Injection::Done
    }

    /// The outbox gets another name: until a mend, or for one transaction only.
    fn rename_the_table(&mut self) -> Injection {
        if self.random.one_in(2) {
            self.server.catalog.called = OutboxName::Changed;
            self.mend_after(NOW, Repair::TableName);
        } else {
            let catalog = CatalogState { called: OutboxName::Changed, ..self.server.catalog };
            let Self { server, random, .. } = self;
            server.history.write_transaction(2, random, catalog, RowKind::Valid);
        }
        Injection::Done
    }

    /// An event that is still to be stored is refused for a while.
    fn refuse_a_record(&mut self) -> Injection {
        self.checker.interrupted();
        let _written = self.write_transaction(3, RowKind::Valid);
        let number = self.server.history.events.len() - 2;
        self.refused = Some((number, None));
        self.mend_after(NOW, Repair::Record);
        Injection::Done
    }
}
