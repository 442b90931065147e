//! What the marks of one row say, for a person who looks for it.

use relay::{Failure, HoldKeys, polling::RowId};
use tokio_postgres::{Client, SimpleQueryRow};

use super::{
    conditions::and,
    connection::run,
    failure::{malformed, of_table},
    stuck::{Stuck, condition},
    table::PolledTable,
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::postgres::{quote_identifier, sql_failure};

/// What a row is, by its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// Marked as published.
    Published,
    /// Its status is one of which nothing is known.
    Stranded,
    /// Abandoned.
    Abandoned,
    /// Tried, and waiting for another attempt.
    Retried,
    /// Pending, and a worker has claimed it.
    Claimed,
    /// Pending, and its key waits for another row, which is so.
    Behind(Stuck),
    /// Pending.
    Pending,
    /// Pending, and its time has not come.
    Later,
    /// None of these: a worker leaves it alone.
    Other,
}

impl RowState {
    /// In the order in which they are asked for: the first that fits is said.
    const ALL: [Self; 10] = [
        Self::Published,
        Self::Stranded,
        Self::Abandoned,
        Self::Retried,
        Self::Claimed,
        Self::Behind(Stuck::Abandoned),
        Self::Behind(Stuck::Waiting),
        Self::Pending,
        Self::Later,
        Self::Other,
    ];

    /// As the statement says it.
    const fn word(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Stranded => "stranded",
            Self::Abandoned => "abandoned",
            Self::Retried => "retried",
            Self::Claimed => "claimed",
            Self::Behind(Stuck::Abandoned) => "behind_abandoned",
            Self::Behind(Stuck::Waiting) => "behind_waiting",
            Self::Pending => "pending",
            Self::Later => "later",
            Self::Other => "other",
        }
    }

    /// That a row `t` is so, where it is none of those before. `None`: no row of the table can be,
    /// or there is nothing to ask.
    fn condition(self, table: &PolledTable) -> Option<String> {
        let conditions = table.conditions();
        match self {
            Self::Published => conditions.is_published("t"),
            Self::Stranded => conditions.is_stranded("t"),
            Self::Abandoned => conditions.is_abandoned("t"),
            Self::Retried => conditions.is_retried("t"),
            Self::Claimed => conditions.is_claimed("t"),
            Self::Behind(which) => behind(table, which),
            Self::Pending => Some(and(&conditions.due("t"))),
            Self::Later => table.marks.available_at.is_some().then(|| and(&conditions.open("t"))),
            Self::Other => None,
        }
    }
}

/// What the marks of a row say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowMarks {
    /// What it is.
    pub state: RowState,
    /// How often it was tried; `None` where the table does not count.
    pub attempts: Option<i64>,
    /// Why it was not delivered; `None` where it was not tried, or the table does not keep it. It
    /// stays when a row is requeued.
    pub error: Option<String>,
    /// From when on it is read, in milliseconds since 1970; `None` where the table does not say it,
    /// or never.
    pub available_ms: Option<i64>,
}

/// Reads the marks of a row. `None`: there is no such row any more.
///
/// # Errors
/// The table cannot be read, or the connection breaks.
pub async fn row_marks(
    client: &Client,
    table: &PolledTable,
    row: &RowId,
) -> Result<Option<RowMarks>, Failure> {
    let sql = statement(table, row);
    let answers = run(client, &sql).await.map_err(|error| of_table(error, table.name()))?;
    let row = answers.get(BEGINS).and_then(|answer| answer.rows.first());
    row.map(read).transpose()
}

fn statement(table: &PolledTable, row: &RowId) -> String {
    let marks = &table.marks;
    let text = |column: Option<&String>| match column {
        Some(name) => table.text_of(name),
        None => "null".to_owned(),
    };
    let available = match &marks.available_at {
        Some(name) => {
            let at = format!("t.{}::timestamptz", quote_identifier(name));
            format!(
                "case when isfinite({at}) then floor(extract(epoch from {at}) * 1000)::int8 end"
            )
        }
        None => "null".to_owned(),
    };
    let mut cases = String::new();
    for state in RowState::ALL {
        if let Some(condition) = state.condition(table) {
            cases += &format!("when {condition} then '{}' ", state.word());
        }
    }
    format!(
        "{}select case {cases}else '{}' end, {}, {}, {available} from {} t where {}{COMMIT}",
        begin(Access::ReadOnly, Ways::Any),
        RowState::Other.word(),
        text(marks.attempts.as_ref().map(|attempts| &attempts.column)),
        text(marks.last_error.as_ref().map(|error| &error.column)),
        table.quoted(),
        table.is_row(row),
    )
}

/// That a row `t` is open, and another one of its key is so, for which it waits.
fn behind(table: &PolledTable, which: Stuck) -> Option<String> {
    if table.settings.hold_keys == HoldKeys::No {
        return None;
    }
    let holds = condition(table, which, "h")?;
    let (own, other) = (table.key.never_null("t"), table.key.never_null("h"));
    Some(format!(
        "{} and exists (select from {} h where {holds}{} and {other} = {own})",
        and(&table.conditions().open("t")),
        table.quoted(),
        table.and_filter("h"),
    ))
}

fn read(row: &SimpleQueryRow) -> Result<RowMarks, Failure> {
    let text = |place: usize| row.try_get(place).map_err(sql_failure);
    let word = text(0)?.unwrap_or_default();
    let state = RowState::ALL.into_iter().find(|state| state.word() == word);
    Ok(RowMarks {
        state: state.ok_or_else(|| malformed("names no state of a row"))?,
        attempts: text(1)?.and_then(|attempts| attempts.parse().ok()),
        error: text(2)?.map(str::to_owned),
        available_ms: text(3)?.and_then(|millis| millis.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::{super::table::samples, *};

    fn row(id: &str) -> RowId {
        RowId(vec![id.into()].into_boxed_slice())
    }

    #[test]
    fn a_row_that_is_only_marked_is_published_or_pending() {
        let sql = statement(&samples::table(samples::time()), &row("7"));
        let expected = "select case when t.\"published_at\" is not null then 'published' \
             when t.\"published_at\" is null then 'pending' else 'other' end, null, null, null \
             from \"public\".\"outbox\" t where t.\"id\" operator(\"pg_catalog\".=) '7'; commit";
        assert!(sql.ends_with(expected), "{sql}");
    }

    #[test]
    fn every_state_is_asked_for_in_its_order() {
        let sql = statement(&samples::table(samples::states()), &row("it's"));
        let place = |state: &RowState| sql.find(&format!(" '{}' ", state.word()));
        let places: Vec<Option<usize>> = RowState::ALL.iter().map(place).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {sql}");
        let columns = "t.\"attempts\"::text, t.\"last_error\"::text, case when isfinite(";
        assert!(sql.contains(columns) && sql.contains("=) 'it''s'; commit"), "{sql}");
    }
}
