//! The topics that the witness names, for a command. One that it has produced to, beside a router
//! or while none runs, is noted; and it looks whether one is gone (K024), which no router may have
//! noticed yet.

use relay::{
    Code, Failure, TopicName,
    witness::{ProducedTo, Witness},
};

use super::witness::Records;
use crate::{blocking::blocking, kafka::see_topics};

/// How often the witness is written at most, until it has the topics: an acceptance may begin a
/// generation meanwhile, which does not take the note over.
const TRIES: u32 = 5;

impl Records {
    /// The witness with what Kafka has now under the names of its topics, and those of them that no
    /// broker describes. On another cluster every topic is missing, or another one: that is a
    /// finding of its own (K021).
    ///
    /// # Errors
    /// The producer that asks cannot start.
    pub(super) async fn look_at_topics(
        &self,
        witness: Witness,
        cluster: &str,
    ) -> Result<(Witness, Vec<TopicName>), Failure> {
        let names = witness.topics.keys().filter_map(|name| TopicName::new(name).ok());
        let names: Vec<TopicName> = names.collect();
        if names.is_empty() || witness.cluster != cluster {
            return Ok((witness, Vec::new()));
        }
        let settings = self.settings.clone();
        let (mut sights, mut unseen) = (Vec::new(), Vec::new());
        for (topic, sight) in blocking(move || see_topics(&settings, names)).await? {
            let is_known = witness.topics.get(topic.as_str()).is_some_and(|it| it.uuid.is_some());
            match sight {
                Some(sight) => sights.push((topic, sight)),
                None if is_known => unseen.push(topic),
                None => {}
            }
        }
        Ok((witness.with_topics_seen(&sights), unseen))
    }

    /// Notes topics in the witness, where there is one and it lacks them.
    ///
    /// # Errors
    /// Kafka does not answer, or refuses the record; or the witness has been written again and
    /// again without the topics.
    pub(super) async fn note_topics(&self, produced: &ProducedTo) -> Result<(), Failure> {
        if produced.is_empty() {
            return Ok(());
        }
        for _ in 0..TRIES {
            let Some(witness) = self.read().await?.witness else { return Ok(()) };
            let Some(note) = witness.note_of(produced) else { return Ok(()) };
            self.write("topics", &note).await?;
        }
        let names: Vec<&str> = produced.keys().map(String::as_str).collect();
        let what = format!(
            "the witness in {} does not have the topics {} after {TRIES} writes: that one of them \
             is deleted would not be noticed",
            self.topic(),
            names.join(", ")
        );
        Err(Failure::new(Code::StateTopicUnsuitable, what))
    }
}
