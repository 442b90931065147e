//! For whom a request is carried out: the stream whose events it concerns.

use relay::{Code, Failure, source::History};

use super::{pipeline::Pipeline, session::Sql};
use crate::postgres::sql_failure;

/// A stream of the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldStream {
    /// The server that it comes from.
    pub history: History,
    /// Its walsender's process id; `None` if a pooler hides it.
    pub walsender: Option<i32>,
}

impl HeldStream {
    /// Checks that this stream still holds the slot: else another router, or nobody, does, and what
    /// this router knows of the table may be of another history.
    ///
    /// # Errors
    /// It does not (P012), or the server does not answer (P001).
    pub(super) async fn check_holds_slot(
        &self,
        sql: &mut Sql<'_>,
        pipeline: &Pipeline,
    ) -> Result<(), Failure> {
        const HOLDER: &str = "select active_pid from pg_replication_slots where slot_name = $1";
        let Some(walsender) = self.walsender else { return Ok(()) };
        let statement = sql.prepared(HOLDER).await.map_err(sql_failure)?;
        let row = sql.client.query_opt(&statement, &[&pipeline.slot]).await.map_err(sql_failure)?;
        let holder: Option<i32> = match row {
            Some(row) => row.try_get(0).map_err(sql_failure)?,
            None => None,
        };
        if holder == Some(walsender) {
            return Ok(());
        }
        let what = format!(
            "held events are not read or written: this router does not hold slot {} any more",
            pipeline.slot
        );
        Err(Failure::new(Code::SlotInUse, what))
    }
}
