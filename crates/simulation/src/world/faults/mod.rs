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
mod held;
mod histories;
mod person;
mod process;
mod server;

/// The earliest time of a repair that may follow at once.
const AT_ONCE: Duration = Duration::ZERO;

impl World {
    pub(super) fn inject(&mut self, fault: Fault) -> Injection {
        match fault {
            Fault::KillRouter => self.kill_a_router(),
            Fault::KillAtFailpoint => self.kill_at_a_failpoint(),
            Fault::FreezeRouter => self.freeze_a_router(),
            Fault::Shutdown => self.shut_a_router_down(),
            Fault::AllDown => {
                self.stop_all_routers();
                Injection::Done
            }

            Fault::CutConnection => self.cut_the_connection(),
            Fault::BlackHole => self.black_hole_the_connection(),
            Fault::CutOff => {
                self.cut_off_all_routers();
                Injection::Done
            }
            Fault::CrashServer => self.crash_the_server(),
            Fault::FastStop => self.stop_the_server(),
            Fault::ServerError => self.write_undecodable_transaction(),
            Fault::PromoteStandby => self.promote_a_standby(),
            Fault::StandbyAway => self.take_the_standby_away(),
            Fault::PromoteNamed => self.promote_the_named_standby(),
            Fault::LongTransaction => self.write_transaction(LONG, RowKind::Valid),
            Fault::AlterTable => self.alter_the_table(1),
            Fault::RenameTable => self.rename_the_table(),

            Fault::ClusterDown => self.stop_the_cluster(),
            Fault::LeaderDown => self.remove_leaders(),
            Fault::LoseAcks => self.hold_acks(),
            Fault::DuplicateBatch => self.store_the_next_batch_twice(),
            Fault::RejectBatch => self.reject_the_next_batch(Code::DeliveryFailed),
            Fault::RejectRecord => self.refuse_a_record(),
            Fault::FatalProducer => self.fail_producers(),
            Fault::MetadataFlap => self.hide_a_topic(),
            Fault::DeleteTopic => self.delete_a_topic(),
            Fault::GrowTopic if self.has_dead_letters() && self.random.one_in(2) => {
                self.grow_a_topic_amid_a_batch()
            }
            Fault::GrowTopic => self.grow_a_topic(),
            Fault::LowerLimit => self.lower_a_limit(),
            Fault::GrowWhileDown => self.grow_a_topic_while_down(),
            Fault::StateAway => self.make_the_state_topic_unavailable(),
            Fault::DeleteState => self.delete_the_state_topic(),

            Fault::RefuseLetters => self.refuse_letters(),

            Fault::DropSlot => self.inject_for_person(fault, Self::drop_the_slot),
            Fault::RecreateSlot => self.inject_for_person(fault, Self::move_the_slot),
            Fault::AdvanceSlot => self.inject_for_person(fault, Self::move_the_slot),
            Fault::LoseSlot => self.inject_for_person(fault, Self::lose_the_slot),
            Fault::DropPublication => self.inject_for_person(fault, Self::drop_the_publication),
            Fault::WithholdInserts => self.inject_for_person(fault, Self::withhold_inserts),
            Fault::TableOut => self.inject_for_person(fault, Self::take_the_table_out),
            Fault::PromoteLagging => self.promote_a_lagging_standby(),
            Fault::PromoteWithoutSlot => self.promote_a_standby_without_slot(),
            Fault::RestoreBackup => self.restore_a_backup(),
            Fault::RestoreSnapshot => self.restore_a_snapshot(),
            Fault::ExchangeServer => self.replace_the_server(),
            Fault::ExchangeKafka => self.replace_kafka(),
            Fault::LoseWrites => self.lose_the_latest_writes(),
            Fault::RenameKeyColumn => self.inject_for_person(fault, Self::rename_the_key),
            Fault::PoisonRow => self.write_bad_row(fault, RowKind::NullKey, Self::write_a_null_key),
            Fault::OversizedRow => {
                self.write_bad_row(fault, RowKind::Oversized, Self::write_a_huge_row)
            }
            Fault::UnroutableRow => {
                self.write_bad_row(fault, RowKind::IllegalTopic, Self::write_an_illegal_topic)
            }
            Fault::RemoveHeldRow => self.remove_a_held_row(),
            Fault::RestoreHeldTable => self.restore_the_held_table(),
        }
    }

    fn some_router(&mut self) -> usize {
        self.random.index(self.routers.len())
    }

    fn write_transaction(&mut self, rows: u64, kind: RowKind) -> Injection {
        let catalog = self.server.catalog;
        self.server.history.write_transaction(rows, &mut self.random, catalog, kind);
        Injection::Done
    }

    fn alter_the_table(&mut self, shapes: usize) -> Injection {
        self.server.catalog.shape += shapes;
        Injection::Done
    }

    /// The outbox gets another name: until a repair, or for one transaction only. Or a transaction
    /// is sent as rows of a partition.
    fn rename_the_table(&mut self) -> Injection {
        if self.random.one_in(2) {
            self.server.catalog.name = OutboxName::Changed;
            self.schedule_repair(AT_ONCE, Repair::TableName);
        } else {
            let name = match self.random.one_in(2) {
                true => OutboxName::Changed,
                false => OutboxName::Partition,
            };
            let catalog = CatalogState { name, ..self.server.catalog };
            let Self { server, random, .. } = self;
            server.history.write_transaction(2, random, catalog, RowKind::Valid);
        }
        Injection::Done
    }

    /// An event that is still to be stored is refused for a while.
    fn refuse_a_record(&mut self) -> Injection {
        self.checker.note_interruption();
        let _written = self.write_transaction(3, RowKind::Valid);
        let number = self.server.history.events.len() - 2;
        self.schedule_repair(AT_ONCE, Repair::Record);
        if self.plan.dead_letters.is_some_and(|letters| letters.takes(Code::RecordRefused)) {
            self.held.refuse_for_now(number);
            self.server.history.note_cause(number, Code::RecordRefused);
            return Injection::Done;
        }
        // Behind a dead letter of its key it is held, and may be one itself when it is released.
        self.held.ever_refused.insert(number);
        self.refused_event = Some((number, None));
        Injection::Done
    }
}
