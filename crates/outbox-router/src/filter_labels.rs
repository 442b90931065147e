//! The words of `where` where the column is an enum, or of a user's type that has no words: an
//! array, a row, or a range. The stream names no labels, so the database is asked, at the beginning
//! of a session and by commands: a label that is misspelt or was renamed would leave out rows, or
//! let them through, and nothing would say so. A session ends at a value that is none of the
//! labels: it was renamed or added since, or before the row was written.

use std::collections::{BTreeMap, BTreeSet};

use relay::{Case, Failure, Oid, Outboxes, RowFilter, TableName, source::FilterLabels};

use crate::postgres::{TextQuery, quote_literal};

/// SQL: whether a type, of these that `pg_type` calls `y`, has no values but its labels; an array,
/// a row, or a range has no label. Of the built-in ones the core knows which words it reads.
pub(crate) const IS_CLOSED: &str =
    "(y.oid >= 16384 and (y.typtype in ('e', 'c', 'r', 'm') or y.typcategory = 'A'))";

/// # Errors
/// A word is none of the labels.
pub(crate) fn check_labels(
    table: &TableName,
    filter: &RowFilter,
    labels: Option<&[String]>,
) -> Result<(), Failure> {
    let Some(labels) = labels else { return Ok(()) };
    let Some(word) = filter.values.iter().find(|word| !labels.contains(word)) else {
        return Ok(());
    };
    let column = &filter.column;
    let why = if labels.is_empty() {
        "is of a type without labels, such as an array, and no value of it is a word".to_owned()
    } else {
        format!("is an enum that has no such label, but {}", labels.join(", "))
    };
    let what = format!("where of {table} has the word {word:?}, and column {column} {why}");
    Err(Failure::of(Case::FilterWord, what))
}

/// Asks the database for the labels of each column that a `where` may name, in whatever table: one
/// that was renamed is not found by its configured name. Returns them.
///
/// # Errors
/// A word is none of the labels of its column, or the database cannot be asked.
pub(crate) async fn check_filters(
    sql: &mut impl TextQuery,
    outboxes: &Outboxes,
) -> Result<FilterLabels, Failure> {
    let mut found = FilterLabels::default();
    let filters: Vec<(&TableName, &RowFilter)> =
        outboxes.tables.iter().filter_map(|it| Some((&it.name, it.filter.as_ref()?))).collect();
    if filters.is_empty() {
        return Ok(found);
    }
    let columns: BTreeSet<String> =
        filters.iter().map(|(_, filter)| quote_literal(&filter.column)).collect();
    let columns: Vec<String> = columns.into_iter().collect();
    let statement = format!(
        "with recursive base (relation, name, type, declared) as ( \
           select a.attrelid, a.attname, a.atttypid, a.atttypid from pg_attribute a \
           where a.attname in ({}) and a.attnum > 0 \
           union all \
           select base.relation, base.name, t.typbasetype, base.declared from base \
             join pg_type t on t.oid = base.type where t.typtype = 'd') \
         select n.nspname, c.relname, base.relation, base.name, base.declared, {IS_CLOSED}, \
           e.enumlabel \
         from base \
           left join pg_enum e on e.enumtypid = base.type \
           join pg_class c on c.oid = base.relation join pg_namespace n on n.oid = c.relnamespace \
           join pg_type y on y.oid = base.type and y.typtype <> 'd' \
         where c.relkind in ('r', 'p') and c.relnamespace <> 'pg_catalog'::regnamespace \
         order by base.relation, base.name, e.enumsortorder",
        columns.join(", ")
    );
    let mut tables: BTreeMap<TableName, Oid> = BTreeMap::new();
    for mut row in sql.rows("the labels of an enum", &statement).await? {
        let name = TableName { schema: row.text()?, name: row.text()? };
        let (table, column) = (Oid::from_u32(row.parsed()?), row.text()?);
        let of_type = row.parsed()?;
        found.add(table, &column, of_type);
        if row.boolean()? {
            found.close(of_type);
        }
        if let Some(label) = row.nullable()? {
            found.add_label(of_type, label);
        }
        tables.insert(name, table);
    }
    for (name, filter) in filters {
        let labels = tables.get(name).and_then(|table| found.of(*table, &filter.column));
        check_labels(name, filter, labels)?;
    }
    Ok(found)
}
