//! Topics that a command has produced to, beside a router or while none runs: the witness names
//! them, so that it is noticed when one is deleted (K024).

use relay::{Failure, witness::ProducedTo};

use super::witness::Records;

/// How often the witness is written at most, until it has the topics: an acceptance may begin a
/// generation meanwhile, which does not take the note over.
const TRIES: u32 = 5;

impl Records {
    /// Notes topics in the witness, where there is one and it lacks them.
    ///
    /// # Errors
    /// Kafka does not answer, or refuses the record.
    pub(super) async fn note_topics(&self, produced: &ProducedTo) -> Result<(), Failure> {
        if produced.is_empty() {
            return Ok(());
        }
        for _ in 0..TRIES {
            let Some(witness) = self.read().await?.witness else { return Ok(()) };
            let Some(note) = witness.note_of(produced) else { return Ok(()) };
            self.write("topics", &note).await?;
        }
        Ok(())
    }
}
