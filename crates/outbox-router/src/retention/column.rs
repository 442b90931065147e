//! The columns of a table.

use relay::Failure;

use super::session::{Session, number, text};

/// A column of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    /// Its type, as SQL writes it.
    pub(super) sql_type: String,
    /// The type, or of a domain its base type.
    pub(super) type_oid: u32,
    pub(super) number: i16,
    pub(super) kind: ColumnKind,
}

/// Whether a value can be written into a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Ordinary,
    /// `GENERATED ALWAYS AS (…) STORED`.
    Generated,
}

/// All columns that a stream may have: all but virtual ones, which no publication has.
pub(super) async fn columns(session: Session<'_>, oid: u32) -> Result<Vec<Column>, Failure> {
    let rows = session
        .rows(&format!(
            "select a.attname, format_type(a.atttypid, a.atttypmod), \
               case when t.typtype = 'd' then t.typbasetype else t.oid end, a.attnum, a.attgenerated \
             from pg_attribute a join pg_type t on t.oid = a.atttypid \
             where a.attrelid = {oid} and a.attnum > 0 and not a.attisdropped \
               and a.attgenerated in ('', 's') order by a.attnum"
        ))
        .await?;
    let column = |row| {
        Ok(Column {
            name: text(row, 0)?.to_owned(),
            sql_type: text(row, 1)?.to_owned(),
            type_oid: number(row, 2)?,
            number: number(row, 3)?,
            kind: match text(row, 4)? {
                "" => ColumnKind::Ordinary,
                _ => ColumnKind::Generated,
            },
        })
    };
    rows.iter().map(column).collect()
}
