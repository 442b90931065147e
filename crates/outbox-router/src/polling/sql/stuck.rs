//! The rows of a table that are abandoned, or wait for another attempt: what a person sees of them.

use relay::{
    Code, Failure, HoldKeys,
    delivered::{RowAt, RowVersion},
    polling::RowId,
};
use tokio_postgres::{Client, SimpleQueryRow};

use super::{
    conditions::{and, or},
    connection::run,
    failure::{malformed, of_table},
    key::never_null,
    literals::{list, literal},
    named::is_one_of,
    settle::identities,
    table::PolledTable,
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::postgres::{quote_identifier, sql_failure};

/// Which rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stuck {
    /// They are abandoned, or have a status of which nothing is known: a person has to decide.
    Abandoned,
    /// They wait for another attempt. Where a table has no time of it, they were tried and are
    /// pending.
    Waiting,
}

/// Which of them. Several values of one kind mean any of them; several kinds must all apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StuckFilter {
    /// With these ids, or with this value of the primary key.
    pub ids: Vec<String>,
    /// Of these keys.
    pub keys: Vec<String>,
    /// Abandoned at this time or later, else written then: a time that PostgreSQL has written.
    pub since: Option<String>,
    /// Whose last error has one of these codes.
    pub codes: Vec<Code>,
    /// At most so many; `None`: all.
    pub limit: Option<u32>,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckRow {
    /// By which it is found again, as it is shown.
    pub row: RowAt,
    /// The event's id, else the primary key.
    pub id: String,
    /// Its key, as SQL has it.
    pub key: Option<String>,
    /// How often it was tried; `None` where the table does not count.
    pub attempts: Option<i64>,
    /// Why it was not delivered; `None` where the table does not keep it.
    pub error: Option<String>,
    /// When it was abandoned; `None` where the table does not keep it.
    pub abandoned_at: Option<String>,
    /// When it is tried again; `None` where the table does not keep it, or it has passed.
    pub available_at: Option<String>,
    /// When it was written; `None` where the table does not keep it.
    pub written_at: Option<String>,
    /// How many pending rows of its key wait.
    pub behind: u64,
}

impl StuckRow {
    /// The code with which its last error begins.
    pub fn code(&self) -> Option<Code> {
        Code::parse(self.error.as_deref()?.split(':').next()?)
    }
}

/// Reads such rows, in the order in which they would be read to be delivered. `None`: no row of
/// such a table can be so.
///
/// # Errors
/// The table cannot be read, or the connection breaks.
pub async fn stuck(
    client: &Client,
    table: &PolledTable,
    which: Stuck,
    filter: &StuckFilter,
) -> Result<Option<Vec<StuckRow>>, Failure> {
    let Some(condition) = listed(table, which, "t") else { return Ok(None) };
    let sql = statement(table, which, &condition, filter);
    let answers = run(client, &sql).await.map_err(|error| of_table(error, table.name()))?;
    let rows = answers.get(BEGINS).into_iter().flat_map(|answer| &answer.rows);
    rows.map(|row| read(table, row)).collect::<Result<_, _>>().map(Some)
}

/// That a row is so; an index may have the first part.
pub(super) fn condition(table: &PolledTable, which: Stuck, alias: &str) -> Option<String> {
    let conditions = table.conditions();
    let may_hold = conditions.may_hold(alias)?;
    let is = match which {
        Stuck::Abandoned => {
            let any = [conditions.is_abandoned(alias), conditions.is_stranded(alias)];
            let any: Vec<String> = any.into_iter().flatten().collect();
            (!any.is_empty()).then(|| or(&any))
        }
        Stuck::Waiting => conditions.is_retried(alias),
    };
    Some(format!("{may_hold} and {}", is?))
}

/// That a row is shown to people as one that is so: also one that nothing but its attempts shows to
/// wait.
fn listed(table: &PolledTable, which: Stuck, alias: &str) -> Option<String> {
    let tried = match which {
        Stuck::Abandoned => None,
        Stuck::Waiting => table.conditions().is_tried(alias),
    };
    match (condition(table, which, alias), tried) {
        (Some(is), Some(tried)) => Some(or(&[format!("({is})"), tried])),
        (is, tried) => is.or(tried),
    }
}

fn statement(table: &PolledTable, which: Stuck, condition: &str, filter: &StuckFilter) -> String {
    let marks = &table.marks;
    let text = |column: Option<&String>| {
        column.map_or_else(|| "null".to_owned(), |name| format!("t.{}", quote_identifier(name)))
    };
    let time = |column: Option<&String>| match column {
        Some(name) => utc(&format!("t.{}::timestamptz", quote_identifier(name))),
        None => "null".to_owned(),
    };
    let written = format!("to_timestamp({} / 1000000.0)", table.written_at);
    let written_text = if table.time.is_some() { utc(&written) } else { "null".to_owned() };
    let (key, order) = (table.key.never_null("t"), table.order_by());
    let mut conditions = vec![condition.to_owned()];
    conditions.extend(selected(table, filter, &written));
    let identity = table.identity_texts().into_iter().enumerate();
    let identity = identity.map(|(place, text)| format!("{text} as k{place}"));
    let limit = filter.limit.map_or_else(String::new, |limit| format!(" limit {limit}"));
    format!(
        "{}with l as (select {}, t.xmin as x, {} as id, {} as k, {} as a, {} as e, {} as s, {} as v, \
           {written_text} as w, {key} as g, row_number() over (order by {order}) as n \
           from {quoted} t where {}{} order by {order}{limit}), \
         b as ({}) \
         select {}, l.x, l.id, l.k, l.a, l.e, l.s, l.v, l.w, coalesce(b.n, 0) \
         from l left join b on b.g = l.g order by l.n{COMMIT}",
        begin(Access::ReadOnly, Ways::Any),
        identity.collect::<Vec<_>>().join(", "),
        table.name_of_row(),
        table.key.sql("t"),
        text(marks.attempts.as_ref().map(|attempts| &attempts.column)),
        error(table).unwrap_or_else(|| "null".to_owned()),
        time(marks.abandoned_at.as_ref()),
        available(table, which),
        and(&conditions),
        table.and_filter("t"),
        behind(table, which),
        (0..table.identity.len()).map(|place| format!("l.k{place}")).collect::<Vec<_>>().join(", "),
        quoted = table.quoted(),
    )
}

/// Why a row was not delivered, as far as the table keeps it, or its status says nothing.
fn error(table: &PolledTable) -> Option<String> {
    let marks = &table.marks;
    let kept = marks.last_error.as_ref();
    let kept = kept.map(|error| format!("t.{}", quote_identifier(&error.column)));
    let status = marks.status.as_ref().map(|status| &status.column);
    let status = status.or_else(|| marks.number().map(|flag| &flag.column));
    let Some((status, stranded)) = status.zip(table.conditions().is_stranded("t")) else {
        return kept;
    };
    Some(format!(
        "case when {stranded} then format('{}: its status is %L, of which outbox.mark knows \
         nothing', t.{}) else {} end",
        Code::StatusUnknown,
        quote_identifier(status),
        kept.unwrap_or_else(|| "null".to_owned())
    ))
}

/// From when on a row may be read. That of a row that waits is to come: another one, which its
/// writer has set, says nothing about the next attempt.
fn available(table: &PolledTable, which: Stuck) -> String {
    let Some(name) = &table.marks.available_at else { return "null".to_owned() };
    let time = format!("t.{}::timestamptz", quote_identifier(name));
    match which {
        Stuck::Abandoned => utc(&time),
        Stuck::Waiting => format!("case when {time} > now() then {} end", utc(&time)),
    }
}

/// How many rows of each key in `l` wait, beside those that are in it for themselves.
fn behind(table: &PolledTable, which: Stuck) -> String {
    if table.settings.hold_keys == HoldKeys::No {
        return "select null::text as g, 0 as n where false".to_owned();
    }
    let conditions = table.conditions();
    let mut all = conditions.open("t");
    let tried = match which {
        Stuck::Abandoned => None,
        Stuck::Waiting => conditions.is_tried("t"),
    };
    let others = conditions.is_retried("t").into_iter().chain(tried);
    all.extend(others.map(|other| format!("{other} is not true")));
    let key = table.key.never_null("t");
    all.push(format!("{key} in (select l.g from l)"));
    let (quoted, filter) = (table.quoted(), table.and_filter("t"));
    format!(
        "select {key} as g, count(*) as n from {quoted} t where {}{filter} group by 1",
        and(&all)
    )
}

fn selected(table: &PolledTable, filter: &StuckFilter, written: &str) -> Vec<String> {
    let mut all = Vec::new();
    if !filter.ids.is_empty() {
        all.push(is_one_of(table, &filter.ids));
    }
    if !filter.keys.is_empty() {
        let keys: Vec<String> = filter.keys.iter().map(|key| never_null(Some(key))).collect();
        let keys = list(keys.iter().map(String::as_str));
        all.push(format!("{} in ({keys})", table.key.never_null("t")));
    }
    if let Some(since) = &filter.since {
        let at = match &table.marks.abandoned_at {
            Some(at) => format!("coalesce(t.{}::timestamptz, {written})", quote_identifier(at)),
            None => written.to_owned(),
        };
        all.push(format!("{at} >= {}::timestamptz", literal(since)));
    }
    if !filter.codes.is_empty() {
        let codes = list(filter.codes.iter().map(|code| code.as_str()));
        all.push(match error(table) {
            Some(error) => format!("split_part({error}, ':', 1) in ({codes})"),
            None => "false".to_owned(),
        });
    }
    all
}

fn utc(time: &str) -> String {
    format!("to_char({time} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")
}

fn read(table: &PolledTable, row: &SimpleQueryRow) -> Result<StuckRow, Failure> {
    let wide = table.identity.len() + 1;
    let value = |place| row.try_get(place).map_err(sql_failure);
    let text = |place| value(wide + place).map(|text: Option<&str>| text.map(str::to_owned));
    let mut identity: Vec<Box<str>> = Vec::with_capacity(wide);
    for place in 0..table.identity.len() {
        let text: Option<&str> = value(place)?;
        identity.push(text.ok_or_else(|| malformed("has a row without its identity"))?.into());
    }
    let xmin: Option<&str> = value(table.identity.len())?;
    let xmin = xmin.and_then(|xmin| xmin.parse().ok());
    let xmin = xmin.ok_or_else(|| malformed("has a row without its version"))?;
    let id = RowId(identity.into_boxed_slice());
    Ok(StuckRow {
        row: RowAt { id, version: RowVersion::of_xmin(xmin) },
        id: text(0)?.unwrap_or_default(),
        key: text(1)?,
        attempts: text(2)?.and_then(|attempts| attempts.parse().ok()),
        error: text(3)?,
        abandoned_at: text(4)?,
        available_at: text(5)?,
        written_at: text(6)?,
        behind: text(7)?.and_then(|behind| behind.parse().ok()).unwrap_or(0),
    })
}

/// The columns of a row with their values as texts; `None` where it is gone.
///
/// # Errors
/// As [`stuck`].
pub async fn columns_of(
    client: &Client,
    table: &PolledTable,
    row: &RowId,
) -> Result<Option<Vec<(String, Option<String>)>>, Failure> {
    let columns: Vec<&String> = table.row.columns.iter().map(|column| &column.name).collect();
    let values = columns.iter().map(|name| format!("t.{}", quote_identifier(name)));
    let names: Vec<String> = (0..table.identity.len()).map(|place| format!("k{place}")).collect();
    let sql = format!(
        "{}select {} from {} t join unnest({}) as x ({}) on {}{COMMIT}",
        begin(Access::ReadOnly, Ways::Any),
        values.collect::<Vec<_>>().join(", "),
        table.quoted(),
        identities(table.element_types(), std::iter::once(row)),
        names.join(", "),
        table.same_row("x", |place| format!("k{place}")),
    );
    let answers = run(client, &sql).await.map_err(|error| of_table(error, table.name()))?;
    let Some(found) = answers.get(BEGINS).and_then(|answer| answer.rows.first()) else {
        return Ok(None);
    };
    let value = |(place, name): (usize, &&String)| {
        let value: Option<&str> = found.try_get(place).map_err(sql_failure)?;
        Ok(((*name).clone(), value.map(str::to_owned)))
    };
    columns.iter().enumerate().map(value).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use tokio_postgres::types::Type;

    use super::{
        super::{facts::samples::column, table::samples},
        *,
    };

    fn of(more: &[(&str, Type)], which: Stuck) -> Option<String> {
        let more = more.iter().map(|(name, of)| column(name, of, &[]));
        let table = samples::table(samples::time().into_iter().chain(more).collect());
        let condition = listed(&table, which, "t")?;
        Some(statement(&table, which, &condition, &StuckFilter::default()))
    }

    #[test]
    fn a_row_that_waits_is_listed_by_its_attempts_where_the_table_has_no_time_of_the_next() {
        let attempts = ("attempts", Type::INT4);
        let tried = "(t.\"published_at\" is null and t.\"attempts\" > 0)";
        let sql = of(std::slice::from_ref(&attempts), Stuck::Waiting).unwrap();
        assert!(sql.contains(&format!("from \"public\".\"outbox\" t where {tried} order by")));
        assert!(
            sql.contains(&format!("and {tried} is not true")),
            "it is not behind itself: {sql}"
        );
        assert_eq!(of(&[], Stuck::Waiting), None, "nothing says that a row was tried");
        assert_eq!(of(std::slice::from_ref(&attempts), Stuck::Abandoned), None);
        let both = of(&[attempts, ("available_at", Type::TIMESTAMPTZ)], Stuck::Waiting).unwrap();
        assert!(!both.contains(tried), "a row whose time has come does not wait: {both}");
    }

    /// An index has this condition, and rows of other keys would wait by it.
    #[test]
    fn a_row_that_was_tried_holds_no_key_by_its_attempts_alone() {
        let mut more = samples::time();
        more.push(column("attempts", &Type::INT4, &[]));
        assert_eq!(condition(&samples::table(more), Stuck::Waiting, "h"), None);
    }
}
