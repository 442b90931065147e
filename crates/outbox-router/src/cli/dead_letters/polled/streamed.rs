//! Rows of tables that were handed to the stream: one that is pending again is an UPDATE, which the
//! stream does not send, and after the way back it would count as delivered.

use relay::{Code, Failure, HoldKeys, Name, handover::switch::SwitchState};
use tokio_postgres::Client;

use crate::{
    cli::TaskError,
    held,
    polling::sql::{PolledTable, switch::switching},
};

/// # Errors
/// A table is streamed (P043).
pub(super) async fn refuse_streamed(
    client: &Client,
    tables: &[PolledTable],
    hold: HoldKeys,
) -> Result<(), TaskError> {
    if !held::exists(client, "switch").await? {
        return Ok(());
    }
    for table in tables {
        let query = "select state, \"by\", since::text from outbox_router.switch \
                     where relation = $1";
        let Some(row) = client.query_opt(query, &[&table.oid()]).await? else { continue };
        let (state, by, since): (String, String, String) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        // A switch that was refused because of this row notes the pending rows once more.
        if SwitchState::of(&state) == Some(SwitchState::Closing) && hold == HoldKeys::Yes {
            continue;
        }
        let table = table.name();
        if let Some(failure) = switching(table, SwitchState::of(&state)) {
            return Err(failure.into());
        }
        let what = format!(
            "table {table} was handed to the stream by {by} at {since}: it would not send these \
             rows when they are pending again"
        );
        return Err(Failure::new(Code::Switched, what).naming(Name::Table, table).into());
    }
    Ok(())
}
