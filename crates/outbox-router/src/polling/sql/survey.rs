//! How many rows of a table are in which state, by one statement that reads no more than it has to.

use relay::Failure;
use tokio_postgres::{Client, SimpleQueryRow};

use super::{
    conditions::and,
    connection::run,
    failure::{malformed, of_table},
    table::PolledTable,
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::postgres::{quote_identifier, sql_failure};

/// So many rows are counted; more are only known to be more.
const COUNTED: u64 = 100_000;

/// A number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowCount {
    /// So many.
    Exactly(u64),
    /// So many were counted, and there are more.
    AtLeast(u64),
}

/// The rows of a table, by their states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableSurvey {
    /// Neither published nor given up, those that are counted below included.
    pub pending: RowCount,
    /// The age of the first pending row whose time has come, in seconds. Less than zero: the time
    /// of no row has come, and that of the first one that was not tried comes in so many seconds.
    /// `None` where neither is known: without such rows, or a column of the time.
    pub oldest_seconds: Option<f64>,
    /// Tried, and waiting for another attempt.
    pub failed: RowCount,
    /// Given up.
    pub abandoned: RowCount,
    /// Taken by a worker, this one or another.
    pub processing: RowCount,
}

/// Counts the rows.
///
/// # Errors
/// The table cannot be read, or the connection breaks.
pub async fn survey(client: &Client, table: &PolledTable) -> Result<TableSurvey, Failure> {
    let answers = run(client, &statement(table)).await;
    let answers = answers.map_err(|error| of_table(error, table.name()))?;
    let row = answers.get(BEGINS).and_then(|answer| answer.rows.first());
    let row = row.ok_or_else(|| malformed("counts no rows"))?;
    let value = |place| row.try_get(place).map_err(sql_failure);
    let oldest: Option<&str> = value(1)?;
    Ok(TableSurvey {
        pending: count(row, 0)?,
        oldest_seconds: oldest.and_then(|text| text.parse().ok()),
        failed: count(row, 2)?,
        abandoned: count(row, 3)?,
        processing: count(row, 4)?,
    })
}

fn count(row: &SimpleQueryRow, place: usize) -> Result<RowCount, Failure> {
    let text: Option<&str> = row.try_get(place).map_err(sql_failure)?;
    let count: u64 = text
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| malformed("has no number of rows where one must be"))?;
    Ok(if count > COUNTED { RowCount::AtLeast(COUNTED) } else { RowCount::Exactly(count) })
}

fn statement(table: &PolledTable) -> String {
    let conditions = table.conditions();
    let filter = table.filter.as_ref();
    let filter = filter.map_or_else(String::new, |filter| format!(" and {}", filter.sql("t")));
    let counted = |condition: Option<String>| match condition {
        Some(condition) => format!(
            "(select count(*) from (select from {} t where {condition}{filter} limit {}) s)",
            table.quoted(),
            COUNTED + 1
        ),
        None => "0".to_owned(),
    };
    let may_hold = conditions.may_hold("t");
    let waiting = |condition: Option<String>| {
        let may = may_hold.as_ref()?;
        Some(format!("{may} and {}", condition?))
    };
    let open = and(&conditions.open("t"));
    let oldest = oldest(table, &filter);
    let ways = if table.has_pending_index() { Ways::Indexes } else { Ways::Any };
    format!(
        "{}select {}, {oldest}, {}, {}, {}{COMMIT}",
        begin(Access::ReadOnly, ways),
        counted(Some(open.clone())),
        counted(waiting(conditions.is_retried("t"))),
        counted(waiting(conditions.is_abandoned("t"))),
        counted(waiting(conditions.is_in_work("t").map(|condition| format!("({condition})")))),
    )
}

/// For how long the first row has waited that is due; where none is, less than zero: until when.
fn oldest(table: &PolledTable, filter: &str) -> String {
    let (quoted, due) = (table.quoted(), and(&table.conditions().due("t")));
    let later = later(table, filter);
    match &table.time {
        Some(_) => format!(
            "coalesce((select greatest(extract(epoch from now()) - {} / 1000000.0, 0) \
             from {quoted} t where {due}{filter} order by {} limit 1), {later})",
            table.written_at,
            table.order_by()
        ),
        None => format!(
            "case when exists (select from {quoted} t where {due}{filter}) then null \
             else {later} end"
        ),
    }
}

/// In how many seconds the first row is due that is not and was not tried, as a number below zero.
/// It is not read before it is known that no row is due.
fn later(table: &PolledTable, filter: &str) -> String {
    let Some(available) = &table.marks.available_at else { return "null".to_owned() };
    let available = format!("t.{}::timestamptz", quote_identifier(available));
    let conditions = table.conditions();
    let untried = conditions.is_retried("t");
    let untried = untried.map(|retried| format!(" and not coalesce({retried}, false)"));
    format!(
        "(select -extract(epoch from min(s.a) - now()) from (select {available} as a from {} t \
         where {} and {available} > now(){}{filter} limit {}) s)",
        table.quoted(),
        and(&conditions.open("t")),
        untried.unwrap_or_default(),
        COUNTED + 1
    )
}
