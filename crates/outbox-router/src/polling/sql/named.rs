//! Rows by what a person types for one: the value of the event's id column, or the primary key, its
//! values joined by commas, as `dead-letters` and `tap` show it. A text that is the one of a row
//! and the other of another row names both.
//!
//! Rows that are abandoned or wait are few, and are compared by these texts ([`is_one_of`]). In a
//! whole table a row is soon found by an index alone: there each text is compared as a value of its
//! column's type ([`RowNames`]).

use relay::{Failure, TableName};
use tokio_postgres::{Client, error::SqlState};

use super::{
    connection::run,
    facts::Facts,
    failure::of_table,
    literals::{list, literal},
    table::{IdentityColumn, PolledTable, identity},
};
use crate::postgres::{is_data_exception, quote_identifier, quote_table, sql_failure};

/// How many ways to divide a text into the values of a key are tried. Texts with more commas than
/// that are no keys that somebody types.
const DIVISIONS_MAX: usize = 64;

/// What to type instead.
const AS_SHOWN: &str = "type one as outbox-router tap or outbox-router dead-letters list shows it";

/// That a row `t` is named by one of these texts.
pub(super) fn is_one_of(table: &PolledTable, names: &[String]) -> String {
    let names = list(names.iter().map(String::as_str));
    let (name, primary) = (table.name_of_row(), table.identity_texts().join(", "));
    format!("({name} in ({names}) or concat_ws(',', {primary}) in ({names}))")
}

/// By which columns the rows of a table are named.
#[derive(Debug, Clone)]
pub struct RowNames {
    table: TableName,
    /// The event's id; `None` where a text stands for it.
    id: Option<Column>,
    /// The primary key; empty where it is the event's id, or the table has none.
    key: Vec<Column>,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    /// The type as a cast names it.
    sql_type: String,
    operator: String,
}

/// The rows that a text names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRows {
    /// The text as the event's id column writes it; `None` where it is no value of that column.
    pub id: Option<String>,
    /// That a row is one of them, by the table's own name.
    pub condition: String,
    /// That it is so by the event's id; `None` where no row can be named otherwise.
    pub by_id: Option<String>,
}

impl RowNames {
    /// Reads the columns' types and the primary key. `id`: the column of the event's id, if it is
    /// one. It needs no right to mark rows, and no table that can be polled.
    ///
    /// # Errors
    /// The table does not exist, or the connection breaks.
    pub async fn read(
        client: &Client,
        table: &TableName,
        id: Option<&str>,
    ) -> Result<Self, Failure> {
        let facts = Facts::read_anywhere(client, table).await?;
        let typed = |name: &str| facts.column(name).map(|column| column.sql_type.clone());
        let id = id.and_then(|name| {
            let (name, sql_type) = (name.to_owned(), typed(name)?);
            Some(Column { name, sql_type, operator: "=".to_owned() })
        });
        // A table that has none has its ids.
        let key = identity(table, &facts, &facts.row(table)).unwrap_or_default();
        let key: Vec<Column> = key.into_iter().map(Column::from).collect();
        let is_id = matches!((key.as_slice(), &id), ([only], Some(id)) if only.name == id.name);
        let key = if is_id { Vec::new() } else { key };
        Ok(Self { table: table.clone(), id, key })
    }

    /// The columns, as people are told what a text is compared with.
    pub fn words(&self) -> String {
        let key: Vec<&str> = self.key.iter().map(|column| column.name.as_str()).collect();
        let key = (!key.is_empty()).then(|| format!("primary key ({})", key.join(",")));
        let id = self.id.as_ref().map(|id| id.name.clone());
        let words: Vec<String> = id.into_iter().chain(key).collect();
        words.join(" or ")
    }

    /// What people call a row whose values `value` gives.
    pub fn name_of<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> Option<String> {
        if let Some(id) = self.id.as_ref().and_then(|id| value(&id.name)) {
            return Some(id.to_owned());
        }
        let key: Option<Vec<&str>> = self.key.iter().map(|column| value(&column.name)).collect();
        key.filter(|key| !key.is_empty()).map(|key| key.join(","))
    }

    /// The rows that a text names; `Err` within says why it names none, whatever the rows are. Not
    /// for an open transaction: a text that is no value of a type would end it.
    ///
    /// # Errors
    /// The connection breaks.
    pub async fn find(
        &self,
        client: &Client,
        text: &str,
    ) -> Result<Result<NamedRows, String>, Failure> {
        let (mut id, mut by_id) = (None, None);
        if let Some(column) = &self.id
            && let Some(written) = self.written(client, &[(column, text)]).await?
        {
            (id, by_id) = (Some(written), Some(self.is(&[(column, text)])));
        }
        let mut conditions: Vec<String> = by_id.iter().cloned().collect();
        for values in divisions(text, self.key.len()) {
            let values: Vec<(&Column, &str)> = self.key.iter().zip(values).collect();
            if self.written(client, &values).await?.is_some() {
                conditions.push(self.is(&values));
            }
        }
        if conditions.is_empty() {
            return Ok(Err(self.none()));
        }
        let by_id = by_id.filter(|_| conditions.len() > 1);
        Ok(Ok(NamedRows { id, condition: conditions.join(" or "), by_id }))
    }

    fn none(&self) -> String {
        let column = |column: &Column| format!("{} {}", column.name, column.sql_type);
        let key: Vec<String> = self.key.iter().map(column).collect();
        let (table, key) = (&self.table, key.join(", "));
        match (&self.id, key.is_empty()) {
            (Some(id), true) => {
                format!(
                    "column {} of {table} is {}, and that is none: {AS_SHOWN}",
                    id.name, id.sql_type
                )
            }
            (Some(id), false) => format!(
                "column {} of {table} is {}, and that is none, nor a value of the primary key \
                 ({key}), which is written with a comma between its columns: {AS_SHOWN}",
                id.name, id.sql_type
            ),
            (None, false) => format!(
                "the primary key of {table} is ({key}), and that is no value of it, which is \
                 written with a comma between its columns: {AS_SHOWN}"
            ),
            (None, true) => format!("{table} has no column of an id, and no primary key"),
        }
    }

    /// Values as their columns write them, joined; `None`: one is no value of its type.
    async fn written(
        &self,
        client: &Client,
        values: &[(&Column, &str)],
    ) -> Result<Option<String>, Failure> {
        let cast =
            |(column, text): &(&Column, &str)| format!("{}::{}", literal(text), column.sql_type);
        let casts: Vec<String> = values.iter().map(cast).collect();
        let answers =
            match run(client, &format!("select concat_ws(',', {})", casts.join(", "))).await {
                Ok(answers) => answers,
                Err(error) if error.code().is_some_and(is_of_no_type) => return Ok(None),
                Err(error) => return Err(of_table(error, &self.table)),
            };
        let row = answers.first().and_then(|answer| answer.rows.first());
        let text = row.map(|row| row.try_get(0)).transpose().map_err(sql_failure)?;
        Ok(text.flatten().map(str::to_owned))
    }

    fn is(&self, values: &[(&Column, &str)]) -> String {
        let table = quote_table(&self.table);
        let equal = |(column, text): &(&Column, &str)| {
            let Column { name, operator, .. } = column;
            format!("{table}.{} {operator} {}", quote_identifier(name), literal(text))
        };
        let equal: Vec<String> = values.iter().map(equal).collect();
        format!("({})", equal.join(" and "))
    }
}

impl From<IdentityColumn> for Column {
    fn from(column: IdentityColumn) -> Self {
        let IdentityColumn { name, sql_type, operator, .. } = column;
        Self { name, sql_type, operator }
    }
}

/// A domain refuses what its base type has by its own condition.
fn is_of_no_type(state: &SqlState) -> bool {
    is_data_exception(state) || *state == SqlState::CHECK_VIOLATION
}

/// The ways to divide a text at its commas into so many values: a value may have commas itself.
fn divisions(text: &str, values: usize) -> Vec<Vec<&str>> {
    match values {
        0 => return Vec::new(),
        1 => return vec![vec![text]],
        _ => {}
    }
    let mut all = Vec::new();
    for (at, _) in text.match_indices(',') {
        let (first, rest) = text.split_at(at);
        for rest in divisions(rest.strip_prefix(',').unwrap_or(rest), values.saturating_sub(1)) {
            if all.len() == DIVISIONS_MAX {
                return all;
            }
            all.push([&[first], rest.as_slice()].concat());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, sql_type: &str) -> Column {
        let operator = "operator(pg_catalog.=)".to_owned();
        Column { name: name.to_owned(), sql_type: sql_type.to_owned(), operator }
    }

    fn names(id: Option<Column>, key: Vec<Column>) -> RowNames {
        let table = TableName { schema: "public".into(), name: "outbox".into() };
        RowNames { table, id, key }
    }

    #[test]
    fn a_text_is_divided_in_every_way_that_gives_so_many_values() {
        assert_eq!(divisions("7,b", 1), [["7,b"]]);
        assert_eq!(divisions("7,b", 2), [["7", "b"]]);
        assert_eq!(divisions("7,b,", 2), [["7", "b,"], ["7,b", ""]]);
        assert_eq!(divisions("7,b,c", 3), [["7", "b", "c"]]);
        assert!(divisions("7", 2).is_empty() && divisions("7", 0).is_empty());
        assert_eq!(divisions(&",".repeat(10_000), 4).len(), DIVISIONS_MAX);
    }

    #[test]
    fn a_row_is_called_by_its_id_else_by_its_primary_key() {
        let names =
            names(Some(column("id", "uuid")), vec![column("n", "bigint"), column("tag", "text")]);
        let name = |id: Option<&'static str>| {
            names.name_of(|column| match column {
                "id" => id,
                "n" => Some("7"),
                _ => Some("b"),
            })
        };
        assert_eq!(name(Some("e-1")).as_deref(), Some("e-1"));
        assert_eq!(name(None).as_deref(), Some("7,b"));
        assert_eq!(names.words(), "id or primary key (n,tag)");
    }

    #[test]
    fn values_cannot_leave_their_quotes() {
        let names = names(None, vec![column("n", "text")]);
        let is = names.is(&[(&names.key[0], "it's")]);
        let expected = "(\"public\".\"outbox\".\"n\" operator(pg_catalog.=) 'it''s')";
        assert_eq!(is, expected);
    }

    #[test]
    fn what_names_no_row_is_told_what_would() {
        let id = || Some(column("id", "uuid"));
        let key = || vec![column("n", "bigint"), column("tag", "text")];
        let both = names(id(), key()).none();
        let expected = "column id of public.outbox is uuid, and that is none, nor a value of the \
                        primary key (n bigint, tag text), which is written with a comma between \
                        its columns: type one as outbox-router tap or outbox-router dead-letters \
                        list shows it";
        assert_eq!(both, expected);
        let alone = names(id(), Vec::new()).none();
        let expected = "column id of public.outbox is uuid, and that is none: type one as \
                        outbox-router tap or outbox-router dead-letters list shows it";
        assert_eq!(alone, expected);
        assert!(names(None, key()).none().starts_with("the primary key of public.outbox is (n "));
    }
}
