//! The witness's note that rows were not sent: `outbox_router.left_out` alone says which, so a loss
//! of that table is noticed.

use relay::{Code, Failure, witness::RowsLeftOut};
use tokio_postgres::Client;

use super::{connect::Access, witness::Records};
use crate::{config::Config, republish::left_out};

/// How often the witness is written at most, until it has the note: an acceptance may begin a
/// generation meanwhile, which does not take it over.
const TRIES: u32 = 5;

impl Records {
    /// Notes in the witness, where there is one, that rows are in the table, and by which position.
    ///
    /// # Errors
    /// Kafka does not answer, or refuses the record; or the witness has been written again and
    /// again without the note.
    pub(super) async fn note_left_out(&self, noted: RowsLeftOut) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let Some(witness) = self.read().await?.witness else { return Ok(()) };
            let Some(note) = witness.note_of_left_out(noted) else { return Ok(()) };
            self.write("left-out", &note).await?;
        }
        let what = format!(
            "the witness in {} does not have that rows were left out after {TRIES} writes: that \
             outbox_router.left_out is gone would not be noticed",
            self.topic()
        );
        Err(Failure::new(Code::StateTopicUnsuitable, what))
    }
}

/// Makes the table of rows that are left out, unless the witness has that there was one: an empty
/// table would hide its loss.
///
/// # Errors
/// That table is gone; the role may not make one; or a connection breaks.
pub(super) async fn make_left_out(
    client: &Client,
    config: &Config,
    access: Access<'_>,
) -> Result<(), Failure> {
    if let Some(records) = Records::of(config, access)?
        && let Some(witness) = records.read().await?.witness
    {
        left_out::check_there(client, witness.left_out).await?;
    }
    left_out::make(client, access.role_of_router().as_deref()).await
}
