//! Which rows of a table, in which order, as SQL.

use relay::{Mapping, Role, TableName, Template, Timestamp};
use tokio_postgres::types::Type;

use super::{
    sql_type::SqlType,
    table_row::{Column, TableRow},
};
use crate::{
    created_at::{self, micros_of_time},
    postgres::{quote_identifier, quote_literal, quote_table},
};

/// A column by which rows are put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OrderColumn {
    pub(crate) name: String,
    /// Its place among the columns of the table.
    pub(crate) place: usize,
    pub(crate) sql_type: SqlType,
}

impl OrderColumn {
    fn of(table: &TableRow, name: &str) -> Option<Self> {
        let is_it = |column: &Column| column.name == name;
        let place = table.columns.iter().position(is_it)?;
        let sql_type = table.columns.get(place)?.sql_type;
        Some(Self { name: name.to_owned(), place, sql_type })
    }

    /// Whether it says when a row was made in a type of time, and not as a number.
    pub(crate) fn is_time(&self) -> bool {
        self.sql_type.is(&created_at::TIMES)
    }
}

/// What the columns of a table mean to a selection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    /// When a row was made.
    pub(crate) time: Option<OrderColumn>,
    /// `Err`: the text of a template that stands for the id.
    pub(crate) id: Result<OrderColumn, String>,
    /// `Err`: the text of a template that stands for the key.
    pub(crate) key: Result<OrderColumn, String>,
}

impl Columns {
    pub(crate) fn of(table: &TableRow, mapping: Mapping<'_>) -> Self {
        let column = |role| {
            let name = mapping.column(role).unwrap_or_default();
            match OrderColumn::of(table, name) {
                Some(column) if !Template::is_one(name) => Ok(column),
                Some(_) | None => Err(name.to_owned()),
            }
        };
        Self {
            time: created_at::names(mapping).find_map(|name| OrderColumn::of(table, name)),
            id: column(Role::Id),
            key: column(Role::AggregateId),
        }
    }

    /// A column of the table.
    pub(crate) fn named(table: &TableRow, name: &str) -> Option<OrderColumn> {
        OrderColumn::of(table, name)
    }

    /// The columns by which rows are put in order.
    pub(crate) fn order(&self) -> Vec<OrderColumn> {
        self.time.iter().chain(self.id.as_ref().ok()).cloned().collect()
    }
}

/// Rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    table: TableName,
    columns: Vec<String>,
    pub(crate) order: Vec<OrderColumn>,
    /// All of them must hold.
    conditions: Vec<String>,
    at: String,
}

/// Whether the server notes when a transaction commits (`track_commit_timestamp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitTimes {
    Kept,
    NotKept,
}

impl Query {
    /// All rows of the table. `timestamp` says which time its records have.
    pub(crate) fn all(
        table: &TableRow,
        columns: &Columns,
        timestamp: Timestamp,
        commit_times: CommitTimes,
    ) -> Self {
        let names = table.columns.iter().map(|column| quote_identifier(&column.name));
        let mut query = Self {
            table: table.table.clone(),
            columns: names.collect(),
            order: columns.order(),
            conditions: Vec::new(),
            at: "null".to_owned(),
        };
        if timestamp == Timestamp::Commit {
            query.at = query.committed_at(columns.time.as_ref(), commit_times);
        }
        query
    }

    /// Leaves out the rows for which this does not hold.
    pub(crate) fn and(&mut self, condition: String) {
        self.conditions.push(condition);
    }

    /// A column, by a name that means no other in a subquery.
    pub(crate) fn column(&self, column: &OrderColumn) -> String {
        self.named(&quote_identifier(&column.name))
    }

    fn named(&self, quoted: &str) -> String {
        format!("{}.{quoted}", quote_table(&self.table))
    }

    /// How many rows there are.
    pub(crate) fn count(&self) -> String {
        format!("select count(*) from {}", self.tail())
    }

    /// Something that is computed of all of them.
    pub(crate) fn aggregate(&self, expression: &str) -> String {
        format!("select {expression} from {}", self.tail())
    }

    /// Each row, without its columns.
    pub(crate) fn any(&self) -> String {
        format!("select from {}", self.tail())
    }

    /// The text of a column of the first row behind so many, in the order of the rows.
    pub(crate) fn text_behind(&self, column: &OrderColumn, rows: u64) -> String {
        let (column, tail, order) = (self.column(column), self.tail(), self.order_by());
        format!("select concat({column}) from {tail}{order} offset {rows} limit 1")
    }

    fn order_by(&self) -> String {
        let order: Vec<String> = self.order.iter().map(|column| self.column(column)).collect();
        if order.is_empty() { String::new() } else { format!(" order by {}", order.join(", ")) }
    }

    /// The statement for [`Rows`](super::rows::Rows).
    pub(crate) fn copy(&self, encoding: &str) -> String {
        let order = self.order_by();
        format!(
            "copy (select {}, {} from {}{order}) to stdout (format text, encoding {})",
            self.at,
            self.columns.join(", "),
            self.tail(),
            quote_literal(encoding)
        )
    }

    /// The same for the rows that a join finds, in any order; `first` is what comes first of each.
    pub(crate) fn copy_joined(&self, first: &str, join: &str, encoding: &str) -> String {
        let columns: Vec<String> = self.columns.iter().map(|column| self.named(column)).collect();
        format!(
            "copy (select {first}, {} from {} {join}{}) to stdout (format text, encoding {})",
            columns.join(", "),
            quote_table(&self.table),
            self.wheres(),
            quote_literal(encoding)
        )
    }

    /// The rows at this place of the order and behind it. NULL is behind everything.
    pub(crate) fn from(&self, position: &[Option<String>]) -> Option<String> {
        let places: Vec<_> = self.order.iter().zip(position).collect();
        if places.len() != self.order.len() || places.len() != position.len() || places.is_empty() {
            return None;
        }
        let mut condition: Option<String> = None;
        for (column, value) in places.into_iter().rev() {
            let column = self.column(column);
            condition = Some(match (value.as_deref().map(quote_literal), condition) {
                (Some(value), None) => format!("({column} >= {value} or {column} is null)"),
                (None, None) => format!("{column} is null"),
                (Some(value), Some(then)) => format!(
                    "({column} > {value} or {column} is null or ({column} = {value} and {then}))"
                ),
                (None, Some(then)) => format!("({column} is null and {then})"),
            });
        }
        condition
    }

    fn tail(&self) -> String {
        format!("{}{}", quote_table(&self.table), self.wheres())
    }

    fn wheres(&self) -> String {
        if self.conditions.is_empty() {
            return String::new();
        }
        // A comment in a condition that a person has typed ends with its line.
        let conditions: Vec<String> =
            self.conditions.iter().map(|condition| format!("({condition}\n)")).collect();
        format!(" where {}", conditions.join(" and "))
    }

    /// What stands in the place of the commit's time: that time where it is known, else when the
    /// row was made.
    fn committed_at(&self, time: Option<&OrderColumn>, commit_times: CommitTimes) -> String {
        let mut times = Vec::new();
        if commit_times == CommitTimes::Kept {
            // Of a row whose transaction is long ago, the server has forgotten it.
            times.push(micros_of_time("pg_xact_commit_timestamp(xmin)"));
        }
        if let Some(time) = time.filter(|time| time.is_time()) {
            times.push(micros_of_time(&self.column(time)));
        }
        if times.is_empty() {
            return "null".to_owned();
        }
        format!("coalesce({})", times.join(", "))
    }
}

/// `column` is one of these texts.
pub(crate) fn is_one_of(column: &str, texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote_literal(text)).collect();
    format!("{column} in ({})", texts.join(", "))
}

/// A time, as a value to compare a column of a time with. Times without a zone are in UTC, as they
/// are for the router.
pub(crate) fn time_literal(column: &OrderColumn, time: &str) -> String {
    let time = format!("{}::timestamptz", quote_literal(time));
    if column.sql_type.is(&[Type::TIMESTAMPTZ]) {
        time
    } else if column.sql_type.is(&[Type::DATE]) {
        // All rows of that day, since a date says no more.
        format!("({time} at time zone 'UTC')::date")
    } else {
        format!("({time} at time zone 'UTC')")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, of: &Type) -> Column {
        let sql_type = SqlType { oid: of.oid(), modifier: -1 };
        Column { name: name.to_owned(), sql_type, value: None }
    }

    fn table() -> TableRow {
        TableRow {
            oid: 7,
            table: TableName { schema: "public".into(), name: "outbox".into() },
            columns: vec![column("id", &Type::UUID), column("made", &Type::TIMESTAMPTZ)],
            types: Vec::new(),
        }
    }

    fn columns() -> Columns {
        let table = table();
        Columns {
            time: OrderColumn::of(&table, "made"),
            id: Ok(OrderColumn::of(&table, "id").unwrap()),
            key: Err("${a}".to_owned()),
        }
    }

    fn query(timestamp: Timestamp, commit_times: CommitTimes) -> Query {
        Query::all(&table(), &columns(), timestamp, commit_times)
    }

    const ID: &str = "\"public\".\"outbox\".\"id\"";
    const MADE: &str = "\"public\".\"outbox\".\"made\"";

    #[test]
    fn rows_are_read_in_the_order_of_time_and_id() {
        let mut query = query(Timestamp::Now, CommitTimes::Kept);
        assert_eq!(query.count(), "select count(*) from \"public\".\"outbox\"");
        query.and("id > '1' -- it's".to_owned());
        assert_eq!(
            query.copy("UTF8"),
            format!(
                "copy (select null, \"id\", \"made\" from \"public\".\"outbox\" \
                 where (id > '1' -- it's\n) order by {MADE}, {ID}) \
                 to stdout (format text, encoding 'UTF8')"
            )
        );
    }

    #[test]
    fn the_time_of_the_commit_is_read_where_records_have_it() {
        let of = |commit_times| query(Timestamp::Commit, commit_times).at;
        let made = micros_of_time(MADE);
        assert_eq!(of(CommitTimes::NotKept), format!("coalesce({made})"));
        let kept = micros_of_time("pg_xact_commit_timestamp(xmin)");
        assert_eq!(of(CommitTimes::Kept), format!("coalesce({kept}, {made})"));
        assert_eq!(query(Timestamp::Column, CommitTimes::Kept).at, "null");
    }

    #[test]
    fn a_run_goes_on_at_its_last_row_and_null_comes_last() {
        let query = query(Timestamp::Now, CommitTimes::NotKept);
        let from = |made: Option<&str>, id: Option<&str>| {
            query.from(&[made.map(str::to_owned), id.map(str::to_owned)]).unwrap()
        };
        assert_eq!(
            from(Some("t"), Some("i")),
            format!(
                "({MADE} > 't' or {MADE} is null or ({MADE} = 't' and ({ID} >= 'i' or {ID} is null)))"
            )
        );
        assert_eq!(
            from(None, Some("i")),
            format!("({MADE} is null and ({ID} >= 'i' or {ID} is null))")
        );
        assert_eq!(from(None, None), format!("({MADE} is null and {ID} is null)"));
        assert_eq!(query.from(&[None]), None, "of another order");
    }

    #[test]
    fn values_cannot_leave_their_quotes() {
        let texts = ["a".to_owned(), "b') or true --".to_owned()];
        assert_eq!(is_one_of("\"id\"", &texts), "\"id\" in ('a', 'b'') or true --')");
    }

    #[test]
    fn a_time_is_compared_in_the_columns_own_type() {
        let of = |of: &Type| {
            let sql_type = SqlType { oid: of.oid(), modifier: -1 };
            time_literal(&OrderColumn { name: "t".into(), place: 0, sql_type }, "2026-01-01")
        };
        assert_eq!(of(&Type::TIMESTAMPTZ), "'2026-01-01'::timestamptz");
        assert_eq!(of(&Type::TIMESTAMP), "('2026-01-01'::timestamptz at time zone 'UTC')");
        assert_eq!(of(&Type::DATE), "('2026-01-01'::timestamptz at time zone 'UTC')::date");
    }
}
