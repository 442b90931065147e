//! How large a table is, and how old its oldest row.

use relay::Failure;

use super::{
    report::TableFigures,
    session::{Session, number, optional},
    target::Target,
};
use crate::postgres::table_size_sql;

/// Reads the figures. Rows are estimated, as PostgreSQL keeps count.
///
/// # Errors
/// A statement fails.
pub(super) async fn read(session: Session<'_>, target: &Target) -> Result<TableFigures, Failure> {
    let size = session.row(&table_size_sql(&target.oid.to_string())).await?;
    let (column, table) = (target.time.quoted(), target.quoted());
    let oldest = match target.check_index() {
        Ok(()) => {
            let age = target.time.age("o.at");
            let query = format!(
                "select {age} from (select (select t.{column} from {table} t \
                   where t.{column} is not null order by t.{column} limit 1) as at) o"
            );
            optional(&session.row(&query).await?, 0)?.and_then(|age| age.parse::<f64>().ok())
        }
        // It would read the whole table.
        Err(_) => None,
    };
    Ok(TableFigures {
        rows: number(&size, 0)?,
        bytes: number(&size, 1)?,
        oldest_seconds: oldest.unwrap_or_default().max(0.0),
    })
}
