//! The topics that the witness names, as a command finds them: one may be gone (K024), which no
//! router has noticed yet.

use relay::{TopicName, witness::Witness};

use crate::kafka::StateTopic;

/// The witness with what Kafka has now under the names of its topics, and those of them that no
/// broker describes. On another cluster every topic is missing, or another one: that is a finding
/// of its own (K021). It blocks.
pub(super) fn look_at_topics(
    state_topic: &StateTopic,
    witness: Witness,
    cluster: &str,
) -> (Witness, Vec<TopicName>) {
    let names = witness.topics.keys().filter_map(|name| TopicName::new(name).ok());
    let names: Vec<TopicName> = names.collect();
    if names.is_empty() || witness.cluster != cluster {
        return (witness, Vec::new());
    }
    let mut found = state_topic.sights(&names.iter().collect::<Vec<_>>());
    found.resize(names.len(), None);
    let (mut sights, mut unseen) = (Vec::new(), Vec::new());
    for (topic, sight) in names.into_iter().zip(found) {
        let is_known = witness.topics.get(topic.as_str()).is_some_and(|it| it.uuid.is_some());
        match sight {
            Some(sight) => sights.push((topic, sight)),
            None if is_known => unseen.push(topic),
            None => {}
        }
    }
    (witness.with_topics_seen(&sights), unseen)
}
