//! Topics that a command has produced to, beside a router or while none runs: the witness names
//! them, so that it is noticed when one is deleted (K024).

use relay::{Code, Failure, witness::ProducedTo};

use super::witness::Records;

/// How often the witness is written at most, until it has the topics: an acceptance may begin a
/// generation meanwhile, which does not take the note over.
const TRIES: u32 = 5;

impl Records {
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
