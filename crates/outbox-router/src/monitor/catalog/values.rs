//! Names and OIDs: read from a row, and written into a statement.

use relay::{
    Failure, TableName,
    source::{Oid, TableKind},
};

use crate::postgres::{TextRow, quote_literal};

/// The first version with row filters, column lists and FOR TABLES IN SCHEMA.
pub(super) const FILTERS_SINCE: i32 = 15_00_00;

pub(super) fn oid(row: &mut TextRow) -> Result<Oid, Failure> {
    row.parsed().map(Oid::from_u32)
}

pub(super) fn read_name(row: &mut TextRow) -> Result<TableName, Failure> {
    Ok(TableName { schema: row.text()?, name: row.text()? })
}

pub(super) fn read_kind(row: &mut TextRow) -> Result<TableKind, Failure> {
    let relkind = row.text()?;
    Ok(match (relkind.as_str(), row.boolean()?) {
        ("p", _) => TableKind::Partitioned,
        (_, true) => TableKind::Leaf,
        (_, false) => TableKind::Plain,
    })
}

pub(super) fn numbers(oids: &[Oid]) -> String {
    oids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Names as the rows of a VALUES list, as `in (…)` takes them.
pub(super) fn values(names: &[TableName]) -> String {
    let pair = |name: &TableName| {
        format!("({}, {})", quote_literal(&name.schema), quote_literal(&name.name))
    };
    names.iter().map(pair).collect::<Vec<_>>().join(", ")
}
