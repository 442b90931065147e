//! Rows that `recover` or a back-fill has left out of what it sent, in `outbox_router.left_out`:
//! the stream has not delivered them, so they stay pending.

use relay::{Case, Failure, Name};
use tokio_postgres::Client;

use super::Switching;
use crate::{cli::TaskError, polling::sql::PolledTable, republish::left_out};

impl Switching<'_> {
    /// # Errors
    /// Rows of a table were left out, and no row of it has their ids (P043).
    pub(super) async fn refuse_unknown_left_out(
        &self,
        tables: &[PolledTable],
    ) -> Result<(), TaskError> {
        for table in tables {
            self.is_left_out(self.books, table).await?;
        }
        Ok(())
    }

    /// The condition that a row `t` of a table was left out. `None`: no row was.
    ///
    /// # Errors
    /// As [`Self::refuse_unknown_left_out`].
    pub(super) async fn is_left_out(
        &self,
        client: &Client,
        table: &PolledTable,
    ) -> Result<Option<String>, TaskError> {
        if !left_out::exists(client).await? {
            return Ok(None);
        }
        let mut failure = None;
        for query in table.count_unfound_left_out() {
            let row = client.query_one(&query, &[]).await?;
            let (rows, ids): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
            if rows == 0 {
                return Ok(table.is_left_out());
            }
            let what = format!(
                "rows of {}: {rows} are in outbox_router.left_out by their ids, which no row has \
                 now: {ids}",
                table.name()
            );
            let lines = format!(
                "delete from outbox_router.left_out o where {} and o.event_id in ({ids})",
                left_out::is_of(&self.config.name, table.oid()),
            );
            failure = Some(Failure::of(Case::SwitchLeftOut, what).naming(Name::Statements, lines));
        }
        failure.map_or(Ok(table.is_left_out()), |failure| Err(failure.into()))
    }
}
