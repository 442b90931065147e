//! What a session learns of the topics that it produces to.

use super::{Keeper, Unwritten};
use crate::{
    routing::topic::TopicName,
    telemetry::TopicLook,
    witness::{LostTopic, TopicSight, acceptance::Changed},
};

impl Keeper {
    /// Notes what Kafka has under the names of topics, in the record that the present session
    /// writes. Without a session nothing is noted: the topics are looked at again when there is
    /// one.
    pub(crate) fn topics_seen(&mut self, topics: &[(TopicName, TopicSight)]) {
        let (record, unwritten) = match (&mut self.session_record, &mut self.witness) {
            (Some(own), _) => (&mut own.witness, Some(&mut own.unwritten)),
            (None, Some(known)) if self.settings.is_none() => (known, None),
            (None, _) => return,
        };
        let mut changed = Changed::No;
        for (topic, sight) in topics {
            self.unseen_topics.remove(topic.as_str());
            if record.see_topic(topic.as_str(), sight.clone()) == Changed::Yes {
                changed = Changed::Yes;
            }
        }
        if let (Changed::Yes, Some(unwritten)) = (changed, unwritten) {
            *unwritten = Unwritten::Some;
        }
    }

    /// The topics that were produced to, also those that this process has not produced to yet.
    pub(crate) fn topics_produced_to(&self) -> impl Iterator<Item = &str> {
        let own = self.session_record.as_ref().map(|session_record| &session_record.witness);
        let in_memory = self.witness.as_ref().filter(|_| self.settings.is_none());
        let witness = own.or(in_memory);
        witness.into_iter().flat_map(|witness| witness.topics.keys()).map(String::as_str)
    }

    /// Whether the session has looked at every topic that was produced to before it.
    pub(crate) fn topic_look(&self) -> TopicLook {
        if self.unseen_topics.is_empty() { TopicLook::Complete } else { TopicLook::Due }
    }

    /// The topics that are gone: what this session has noted counts before it is in Kafka.
    pub(crate) fn lost_topics(&self) -> Vec<LostTopic> {
        let own = self.session_record.as_ref().map(|session_record| &session_record.witness);
        own.or(self.witness.as_ref()).map_or_else(Vec::new, |known| known.open_topics().to_vec())
    }
}
