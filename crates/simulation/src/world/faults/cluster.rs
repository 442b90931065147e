//! Faults of Kafka.

use relay::Code;

use super::NOW;
use crate::{
    kafka::SimulatedTopic,
    world::{World, injection::Injection, repair::Repair},
};

impl World {
    pub(super) fn take_the_cluster_down(&mut self) -> Injection {
        self.kafka.is_up = false;
        self.mend_after(NOW, Repair::Cluster);
        Injection::Done
    }

    pub(super) fn take_leaders(&mut self) -> Injection {
        let leaderless = self.random.next_number();
        self.some_topic().1.leaderless = leaderless;
        self.mend_after(NOW, Repair::Leaders);
        Injection::Done
    }

    pub(super) fn hold_acks_back(&mut self) -> Injection {
        self.kafka.acks_pass = false;
        self.mend_after(NOW, Repair::Acks);
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
    pub(super) fn end_producers(&mut self) -> Injection {
        if self.random.one_in(2) {
            self.kafka.ends_producers = true;
            self.mend_after(NOW, Repair::Producers);
        }
        self.end_a_producer()
    }

    fn end_a_producer(&mut self) -> Injection {
        self.checker.interrupted();
        let router = self.some_router();
        Injection::from(self.routers[router].runs() && self.fail_producer(router))
    }

    pub(super) fn deny_a_topic(&mut self) -> Injection {
        self.some_topic().1.is_denied = true;
        self.mend_after(NOW, Repair::Metadata);
        Injection::Done
    }

    pub(super) fn delete_a_topic(&mut self) -> Injection {
        let partitions = self.some_partitions();
        let (place, topic) = self.some_topic();
        if topic.partitions.take().is_none() {
            return Injection::NotApplicable;
        }
        self.checker.interrupted();
        self.mend_after(NOW, Repair::Topic(place, partitions));
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
        self.some_topic().1.limit = Some(60);
        self.mend_after(NOW, Repair::Limits);
        self.end_a_producer()
    }

    fn some_topic(&mut self) -> (usize, &mut SimulatedTopic) {
        let place = self.random.index(self.kafka.topics.len());
        (place, &mut self.kafka.topics[place])
    }

    fn some_partitions(&mut self) -> i32 {
        1 + i32::try_from(self.random.below(3)).expect("small")
    }
}
