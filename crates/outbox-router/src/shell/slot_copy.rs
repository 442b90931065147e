//! The connection of a [dry stream](super::DryStream), which is what commands use: a temporary copy
//! of the slot. What the slot holds is read from the copy, and the slot itself stays where it is,
//! even while another process streams from it.
//!
//! `pg_copy_logical_replication_slot` needs no more than the attribute REPLICATION. PostgreSQL
//! drops a temporary slot when its session ends, for whatever reason (manual, section "Replication
//! Management Functions"); so nothing has to be cleaned up. Only the session that made it can
//! stream from it.

use relay::{Case, Code, Failure, Lsn, source::slot_checks};

use super::{
    command_stream::{CommandStream, be_patient},
    connect::{Source, SourceReading, client_encoding},
};
use crate::postgres::{CopiedSlot, ReplicationConnection, Row, command_failure, quote_literal};

/// How many bytes of the slot's name its copy's name begins with; a name has at most 63.
const NAME_BYTES: usize = 40;

/// A stream from a temporary copy of the slot.
pub(super) struct SlotCopy {
    pub(super) stream: CommandStream,
    /// The slot's `confirmed_flush_lsn` when it was read, shortly before it was copied; the copy
    /// may begin later. Nothing that was committed before it comes.
    pub(super) begins_at: Lsn,
}

impl Source {
    /// Reads slot, publication and tables, copies the slot and starts to stream from the copy.
    ///
    /// # Errors
    /// The server cannot be reached or refuses; the slot is missing, lost, or of another plugin.
    pub(super) async fn copy_slot(&self) -> Result<(SlotCopy, SourceReading), Failure> {
        let reading = self.read(None).await?;
        let slot = slot_checks::suitable(&self.slot, &reading.slot_reading)?;
        let begins_at = slot.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
        // No SQL on tables may run on the connection that streams; see `Source::start`.
        let options = self.options(client_encoding(&reading.server));
        let mut connection = self.connect_again(options, &reading.server.history).await?;
        be_patient(&mut connection).await?;
        let copy = self.copied(&mut connection).await?;
        let publications = [self.publication.as_str()];
        let stream = connection
            .start_replication(&copy.name, &publications)
            .await
            .map_err(command_failure)?;
        Ok((SlotCopy { stream: CommandStream::new(stream, &self.publication), begins_at }, reading))
    }

    /// Copies the slot, for as long as this session lasts.
    pub(super) async fn copied(
        &self,
        connection: &mut ReplicationConnection,
    ) -> Result<CopiedSlot, Failure> {
        let name = copy_name(&self.slot);
        let statement = format!(
            "select lsn from pg_catalog.pg_copy_logical_replication_slot({}, {}, true)",
            quote_literal(&self.slot),
            quote_literal(&name)
        );
        let rows = connection.query("the copy of the slot", &statement).await.map_err(|error| {
            let failure = command_failure(error);
            if failure.code == Code::ServerFull {
                failure.with_case(Case::NoFreeSlot)
            } else {
                failure
            }
        })?;
        let begins_at = position(&rows, "the copy of the slot")?;
        Ok(CopiedSlot { name, begins_at })
    }
}

/// The one value of an answer, a position.
pub(super) fn position(rows: &[Row], of: &str) -> Result<Lsn, Failure> {
    let value = rows.first().and_then(|row| row.first()?.as_deref());
    value.and_then(|lsn| lsn.parse().ok()).ok_or_else(|| {
        Failure::new(Code::Protocol, format!("the server names no position for {of}"))
    })
}

/// A name that no other slot has; a slot's name has lower-case letters, digits and underscores.
fn copy_name(slot: &str) -> String {
    let own = uuid::Uuid::new_v4().simple().to_string();
    let beginning: String = slot.chars().take(NAME_BYTES).collect();
    format!("{beginning}_copy_{}", own.get(..8).unwrap_or(&own))
}
