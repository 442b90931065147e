//! How many rows of a table are in which state, by one statement that reads no more than it has to.

use relay::Failure;
use tokio_postgres::{Client, SimpleQueryRow};

use super::{
    conditions::and,
    connection::run,
    failure::{malformed, of_table},
    table::PolledTable,
    transaction::{Access, BEGINS, COMMIT, Ways, begin_on},
};
use crate::{
    postgres::{quote_identifier, sql_failure},
    wording::rows_are,
};

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

impl RowCount {
    /// What was counted.
    pub const fn rows(self) -> u64 {
        match self {
            Self::Exactly(rows) | Self::AtLeast(rows) => rows,
        }
    }

    /// The beginning of a sentence about the rows; `None` where there are none.
    pub fn are(self) -> Option<String> {
        match self {
            Self::Exactly(0) => None,
            Self::Exactly(rows) => Some(rows_are(rows)),
            Self::AtLeast(rows) => Some(format!("more than {rows} rows are")),
        }
    }
}

/// The rows of a table, by their states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableSurvey {
    /// Neither published nor abandoned, those that are counted below included.
    pub pending: RowCount,
    /// Those of them that were not tried, and whose time has not come.
    pub not_due: u64,
    /// In how many seconds the time of the first of those comes.
    pub due_in_seconds: Option<f64>,
    /// Those of the pending rows that could be read now: their time has come, also where they were
    /// tried, and nobody has claimed them, or this worker has.
    pub ready: u64,
    /// The age of the first pending row whose time has come, in seconds. `None` without such a row,
    /// or a column of the time.
    pub oldest_seconds: Option<f64>,
    /// Tried, and waiting for another attempt.
    pub failed: RowCount,
    /// Abandoned.
    pub abandoned: RowCount,
    /// Neither pending, nor published, nor abandoned: nothing is known of their status.
    pub stranded: RowCount,
    /// Claimed by a worker, this one or another.
    pub processing: RowCount,
}

impl TableSurvey {
    /// The rows that were not sent, as people are told of them: each state that has some, as the
    /// beginning of a sentence.
    pub fn unsent(&self) -> Vec<String> {
        let states = [
            (self.pending, "pending"),
            (self.abandoned, "abandoned"),
            (self.stranded, "of unknown status"),
        ];
        let said =
            states.iter().filter_map(|(rows, state)| Some(format!("{} {state}", rows.are()?)));
        said.collect()
    }
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
    let number = |place| -> Result<Option<f64>, Failure> {
        let text: Option<&str> = row.try_get(place).map_err(sql_failure)?;
        Ok(text.and_then(|text| text.parse().ok()))
    };
    Ok(TableSurvey {
        pending: count(row, 0)?,
        not_due: count(row, 1)?.rows(),
        due_in_seconds: number(2)?,
        ready: count(row, 3)?.rows(),
        oldest_seconds: number(4)?,
        failed: count(row, 5)?,
        abandoned: count(row, 6)?,
        processing: count(row, 7)?,
        stranded: count(row, 8)?,
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
    let (pending, oldest) = (pending(table, &filter), oldest(table, &filter));
    let ways = if table.has_pending_index() { Ways::Indexes } else { Ways::Any };
    format!(
        "{}select p.*, {oldest}, {}, {}, {}, {} from ({pending}) p{COMMIT}",
        begin_on(Access::ReadOnly, ways, table.strangers),
        counted(waiting(conditions.is_retried("t"))),
        counted(waiting(conditions.is_abandoned("t"))),
        counted(waiting(conditions.is_claimed("t").map(|condition| format!("({condition})")))),
        counted(waiting(conditions.is_stranded("t"))),
    )
}

/// How many rows are pending, how many of them wait for nothing but their time, in how many seconds
/// the first of these is due, and how many could be read now. Each row is looked at once. What a
/// table has no columns for is a constant, so that the index alone may say how many rows there are.
fn pending(table: &PolledTable, filter: &str) -> String {
    let conditions = table.conditions();
    let (open, mut ready) = (conditions.open("t"), conditions.ready("t"));
    let ready = and(&ready.split_off(open.len()));
    let retried = conditions.is_retried("t");
    let untried = retried.map(|retried| format!(" and not coalesce({retried}, false)"));
    let (later, available) = match &table.marks.available_at {
        Some(available) => {
            let available = format!("t.{}::timestamptz", quote_identifier(available));
            (format!("{available} > now(){}", untried.unwrap_or_default()), available)
        }
        None => ("false".to_owned(), "null::timestamptz".to_owned()),
    };
    // The difference of two times fails where one of them is infinite.
    format!(
        "select count(*), count(*) filter (where s.later), \
           extract(epoch from min(s.available) filter (where s.later)) - extract(epoch from now()), \
           count(*) filter (where s.ready) \
         from (select {later} as later, {available} as available, {ready} as ready \
           from {} t where {}{filter} limit {}) s",
        table.quoted(),
        and(&open),
        COUNTED + 1
    )
}

/// For how long the first row has waited that is due.
fn oldest(table: &PolledTable, filter: &str) -> String {
    if table.time.is_none() {
        return "null".to_owned();
    }
    format!(
        "(select greatest(extract(epoch from now()) - {} / 1000000.0, 0) \
         from {} t where {}{filter} order by {} limit 1)",
        table.written_at,
        table.quoted(),
        and(&table.conditions().due("t")),
        table.order_by()
    )
}
