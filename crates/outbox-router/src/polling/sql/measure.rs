//! How large a table is, and how old its oldest row.

use relay::Failure;
use tokio_postgres::Client;

use super::{
    connection::run,
    failure::{malformed, of_table},
    removal::Removal,
    table::PolledTable,
    transaction::{Access, BEGINS, COMMIT, Ways, begin_on},
};
use crate::{
    postgres::{sql_failure, table_size_sql},
    retention::TableFigures,
};

/// The size of a file is asked under a lock that a rewrite of the table refuses for as long as it
/// takes.
const LOCK_TIMEOUT: &str = "set local lock_timeout = '2s'; ";

/// Reads the figures. The age is that of the oldest row by the column by which rows are removed,
/// zero where there is none with an index.
pub(super) async fn measure(
    client: &Client,
    table: &PolledTable,
    removal: Option<&Removal>,
) -> Result<TableFigures, Failure> {
    let oldest = removal.and_then(Removal::oldest).unwrap_or("null");
    let statement = format!(
        "{}{LOCK_TIMEOUT}select s.size_rows, s.size_bytes, {oldest} from ({}) s{COMMIT}",
        begin_on(Access::ReadOnly, Ways::Indexes, table.strangers),
        table_size_sql(&table.facts.oid.to_string()),
    );
    let answers = run(client, &statement).await;
    let answers = answers.map_err(|error| of_table(error, table.name()))?;
    // The limit for locks is a statement of its own.
    let row = answers.get(BEGINS + 1).and_then(|answer| answer.rows.first());
    let row = row.ok_or_else(|| malformed("has no size of a table"))?;
    let text = |place| row.try_get(place).map_err(sql_failure);
    let whole = |place| -> Result<u64, Failure> {
        let text: Option<&str> = text(place)?;
        text.and_then(|text| text.parse().ok()).ok_or_else(|| malformed("has no size of a table"))
    };
    let oldest: Option<f64> = text(2)?.and_then(|age| age.parse().ok());
    Ok(TableFigures {
        rows: whole(0)?,
        bytes: whole(1)?,
        oldest_seconds: oldest.unwrap_or_default().max(0.0),
    })
}
