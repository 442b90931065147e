//! A row with its table's columns: as PostgreSQL has it now, or as `--row` gives it.

use relay::{Code, Failure, TableName};
use tokio_postgres::Client;

use super::sql_type::SqlType;
use crate::postgres::{
    TextQuery, TextRow, VALUE_FORMS, quote_identifier, quote_literal, quote_table, sql_failure,
};

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableRow {
    pub(crate) oid: u32,
    pub(crate) table: TableName,
    pub(crate) columns: Vec<Column>,
    /// The columns' types that are not built in.
    pub(crate) types: Vec<NamedType>,
}

/// A type that is not built in: its name, or that of a domain's base type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedType {
    pub(crate) oid: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
}

/// A column and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) sql_type: SqlType,
    /// The value's text; `None` is NULL.
    pub(crate) value: Option<String>,
}

/// How many rows with one id are looked for: one, and a second to see that the first is not alone.
const ROWS: usize = 2;

impl TableRow {
    /// The table's columns without a row: every value is NULL. Virtual columns are left out, as
    /// they are not published.
    ///
    /// # Errors
    /// The table does not exist, or the catalog cannot be read.
    pub(crate) async fn describe(mut client: &Client, table: &TableName) -> Result<Self, Failure> {
        // So values have the texts that they have in a stream.
        let forms =
            VALUE_FORMS.map(|(name, value)| format!("set {name} = {}", quote_literal(value)));
        client.batch_execute(&forms.join("; ")).await.map_err(sql_failure)?;
        let statement = format!(
            "select c.oid, a.attname, a.atttypid, a.atttypmod from pg_class c \
             join pg_namespace n on n.oid = c.relnamespace \
             join pg_attribute a on a.attrelid = c.oid \
             where n.nspname = {} and c.relname = {} and c.relkind in ('r', 'p') \
             and a.attnum > 0 and not a.attisdropped and a.attgenerated in ('', 's') order by a.attnum",
            quote_literal(&table.schema),
            quote_literal(&table.name)
        );
        let (mut oid, mut columns) = (0, Vec::new());
        for mut row in client.rows("the columns of the table", &statement).await? {
            oid = row.parsed()?;
            let name = row.text()?;
            let sql_type = SqlType { oid: row.parsed()?, modifier: row.parsed()? };
            columns.push(Column { name, sql_type, value: None });
        }
        if columns.is_empty() {
            let what = format!("table {table} does not exist");
            return Err(Failure::new(Code::TableMissing, what));
        }
        let types = named_types(client, oid).await?;
        Ok(Self { oid, table: table.clone(), columns, types })
    }

    /// Fills in the row whose column `id_column` is `id`. Returns how many there are.
    ///
    /// # Errors
    /// The table may not be read, or the column's type has no such value.
    pub(crate) async fn read(
        &mut self,
        mut client: &Client,
        id_column: &str,
        id: &str,
    ) -> Result<Found, Failure> {
        let statement = format!(
            "select {} from {} where {} = {} limit {ROWS}",
            self.select_list(),
            quote_table(&self.table),
            quote_identifier(id_column),
            quote_literal(id)
        );
        let rows = client.rows("the row of the table", &statement).await?;
        let found = match rows.len() {
            0 => return Ok(Found::None),
            1 => Found::One,
            _ => Found::Several,
        };
        if let Some(mut row) = rows.into_iter().next() {
            self.fill(&mut row)?;
        }
        Ok(found)
    }

    /// The columns, as a statement names them.
    pub(crate) fn select_list(&self) -> String {
        let columns = self.columns.iter().map(|column| quote_identifier(&column.name));
        columns.collect::<Vec<_>>().join(", ")
    }

    /// Takes the values of [`Self::select_list`], which come first in the answer.
    pub(crate) fn fill(&mut self, row: &mut TextRow) -> Result<(), Failure> {
        for column in &mut self.columns {
            column.value = row.nullable()?;
        }
        Ok(())
    }

    /// Whether the table has a column of this name.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|known| known.name == column)
    }

    /// The value of a column.
    pub(crate) fn value(&self, column: &str) -> Option<&str> {
        let found = self.columns.iter().find(|known| known.name == column);
        found.and_then(|column| column.value.as_deref())
    }
}

/// The types of a table's columns that a walsender names: from `FirstGenbkiObjectId` on.
async fn named_types(mut client: &Client, table: u32) -> Result<Vec<NamedType>, Failure> {
    let statement = format!(
        "with recursive base (named, oid) as ( \
           select distinct atttypid, atttypid from pg_attribute \
           where attrelid = {table} and attnum > 0 and not attisdropped and atttypid >= 10000 \
           union all \
           select base.named, t.typbasetype from base join pg_type t on t.oid = base.oid \
           where t.typtype = 'd') \
         select base.named, n.nspname, t.typname from base join pg_type t on t.oid = base.oid \
         join pg_namespace n on n.oid = t.typnamespace where t.typtype <> 'd'"
    );
    let mut types = Vec::new();
    for mut row in client.rows("the types of the columns", &statement).await? {
        types.push(NamedType { oid: row.parsed()?, schema: row.text()?, name: row.text()? });
    }
    Ok(types)
}

/// How many rows have an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    None,
    One,
    /// The first of them was read.
    Several,
}
