//! The witness's note that rows were not sent: `outbox_router.left_out` alone says which, so a loss
//! of that table is noticed.

use relay::{Code, Failure, witness::Notes};
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
    pub(super) async fn note_left_out(&self, noted: Notes) -> Result<(), Failure> {
        for _ in 0..TRIES {
            let Some(witness) = self.read().await?.witness else { return Ok(()) };
            let Some(note) = witness.noting(noted) else { return Ok(()) };
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

/// Notes that the witness counts, and the server lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingNotes {
    /// Another note would hide the loss by its number.
    Refused,
    /// They are a gap that is in the witness before the command writes a note.
    AreGap,
}

/// Makes the table of rows that are left out, unless the witness has that there was one: an empty
/// table would hide its loss.
///
/// # Errors
/// That table is gone, or lines of it are; the role may not make one; or a connection breaks.
pub(super) async fn make_left_out(
    client: &Client,
    config: &Config,
    access: Access<'_>,
    missing: MissingNotes,
) -> Result<(), Failure> {
    if let Some(records) = Records::of(config, access)?
        && let Some(witness) = records.read().await?.witness
    {
        match missing {
            MissingNotes::Refused => {
                left_out::check_there(client, &config.name, witness.notes).await?;
            }
            MissingNotes::AreGap => left_out::check_table(client, witness.notes).await?,
        }
    }
    left_out::make(client, access.role_of_router().as_deref()).await
}
