//! Faults of Kafka.

use relay::Code;

use super::AT_ONCE;
use crate::{
    kafka::SimulatedTopic,
    world::{World, injection::Injection, repair::Repair},
};

impl World {
    pub(super) fn stop_the_cluster(&mut self) -> Injection {
        self.kafka.is_up = false;
        self.schedule_repair(AT_ONCE, Repair::Cluster);
        Injection::Done
    }

    pub(super) fn remove_leaders(&mut self) -> Injection {
        let leaderless = self.random.next_number();
        self.some_topic().1.leaderless = leaderless;
        self.schedule_repair(AT_ONCE, Repair::Leaders);
        Injection::Done
    }

    pub(super) fn hold_acks(&mut self) -> Injection {
        self.kafka.acks_pass = false;
        self.schedule_repair(AT_ONCE, Repair::Acks);
        Injection::Done
    }

    pub(super) fn store_the_next_batch_twice(&mut self) -> Injection {
        self.kafka.stores_twice = true;
        Injection::Done
    }

    pub(super) fn reject_the_next_batch(&mut self, code: Code) -> Injection {
        self.kafka.rejects = Some(code);
        Injection::Done
    }

    /// One producer fails, or every producer for a while.
    pub(super) fn fail_producers(&mut self) -> Injection {
        if self.random.one_in(2) {
            self.kafka.fails_producers = true;
            self.schedule_repair(AT_ONCE, Repair::Producers);
        }
        self.fail_a_producer()
    }

    fn fail_a_producer(&mut self) -> Injection {
        self.checker.note_interruption();
        let router = self.some_router();
        Injection::from(self.routers[router].runs() && self.fail_producer(router))
    }

    pub(super) fn hide_a_topic(&mut self) -> Injection {
        self.some_topic().1.is_hidden = true;
        self.schedule_repair(AT_ONCE, Repair::Metadata);
        Injection::Done
    }

    pub(super) fn delete_a_topic(&mut self) -> Injection {
        let partitions = self.some_partitions();
        let (index, topic) = self.some_topic();
        if topic.partitions.take().is_none() {
            return Injection::NotApplicable;
        }
        self.checker.note_interruption();
        self.schedule_repair(AT_ONCE, Repair::Topic(index, partitions));
        Injection::Done
    }

    pub(super) fn grow_a_topic(&mut self) -> Injection {
        let more = self.some_partitions();
        let (_, topic) = self.some_topic();
        let Some(partitions) = &mut topic.partitions else { return Injection::NotApplicable };
        *partitions += more;
        topic.counts.push(*partitions);
        Injection::Done
    }

    /// A producer reads the topics' limits when it is new.
    pub(super) fn lower_a_limit(&mut self) -> Injection {
        let (index, topic) = self.some_topic();
        (topic.limit, topic.was_lowered) = (Some(60), true);
        self.server.history.note_lowered(index);
        self.schedule_repair(AT_ONCE, Repair::Limits);
        self.fail_a_producer()
    }

    fn some_topic(&mut self) -> (usize, &mut SimulatedTopic) {
        let index = self.random.index(self.kafka.topics.len());
        (index, &mut self.kafka.topics[index])
    }

    fn some_partitions(&mut self) -> i32 {
        1 + i32::try_from(self.random.below(3)).expect("small")
    }
}
