//! Faults of Kafka.

use relay::Code;

use super::NOW;
use crate::{
    kafka::Topic,
    world::{World, mend::Mend, outcome::Outcome},
};

impl World {
    pub(super) fn take_the_cluster_down(&mut self) -> Outcome {
        self.kafka.is_up = false;
        self.mend_after(NOW, Mend::Cluster);
        Outcome::Done
    }

    pub(super) fn take_leaders(&mut self) -> Outcome {
        let leaderless = self.random.next_number();
        self.some_topic().1.leaderless = leaderless;
        self.mend_after(NOW, Mend::Leaders);
        Outcome::Done
    }

    pub(super) fn hold_acks_back(&mut self) -> Outcome {
        self.kafka.acks_pass = false;
        self.mend_after(NOW, Mend::Acks);
        Outcome::Done
    }

    pub(super) fn store_the_next_batch_twice(&mut self) -> Outcome {
        self.kafka.stores_twice = true;
        Outcome::Done
    }

    pub(super) fn reject_the_next_batch(&mut self, code: Code) -> Outcome {
        self.kafka.rejects = Some(code);
        Outcome::Done
    }

    /// One producer fails, or every producer for a while.
    pub(super) fn end_producers(&mut self) -> Outcome {
        if self.random.one_in(2) {
            self.kafka.ends_producers = true;
            self.mend_after(NOW, Mend::Producers);
        }
        self.end_a_producer()
    }

    fn end_a_producer(&mut self) -> Outcome {
        self.judge.interrupted();
        let router = self.some_router();
        Outcome::from(self.routers[router].runs() && self.fail_producer(router))
    }

    pub(super) fn deny_a_topic(&mut self) -> Outcome {
        self.some_topic().1.is_denied = true;
        self.mend_after(NOW, Mend::Metadata);
        Outcome::Done
    }

    pub(super) fn delete_a_topic(&mut self) -> Outcome {
        let partitions = self.some_partitions();
        let (place, topic) = self.some_topic();
        if topic.partitions.take().is_none() {
            return Outcome::Pointless;
        }
        self.judge.interrupted();
        self.mend_after(NOW, Mend::Topic(place, partitions));
        Outcome::Done
    }

    pub(super) fn grow_a_topic(&mut self) -> Outcome {
        let more = self.some_partitions();
        let (_, topic) = self.some_topic();
        let Some(partitions) = &mut topic.partitions else { return Outcome::Pointless };
        *partitions += more;
        topic.counts.push(*partitions);
        Outcome::Done
    }

    /// A producer reads the topics' limits when it is new.
    pub(super) fn lower_a_limit(&mut self) -> Outcome {
        self.some_topic().1.limit = Some(60);
        self.mend_after(NOW, Mend::Limits);
        self.end_a_producer()
    }

    fn some_topic(&mut self) -> (usize, &mut Topic) {
        let place = self.random.index(self.kafka.topics.len());
        (place, &mut self.kafka.topics[place])
    }

    fn some_partitions(&mut self) -> i32 {
        1 + i32::try_from(self.random.below(3)).expect("small")
    }
}
