//! The words of `where` where the column is an enum. The stream names no labels, so the database is
//! asked, at the beginning of a session and by commands: a label that is misspelt or was renamed
//! would leave out rows, or let them through, and nothing would say so. A session ends at a value
//! that is none of the labels: it was renamed or added since, or before the row was written.

use relay::{Case, Failure, OutboxTable, Outboxes, RowFilter, TableName, source::FilterLabels};

use crate::postgres::{TextQuery, quote_literal};

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
    let what = format!(
        "where of {table} has the word {word:?}, and column {} is an enum that has no such label, but {}",
        filter.column,
        labels.join(", ")
    );
    Err(Failure::of(Case::FilterWord, what))
}

/// Asks the database for the labels, where a table's `where` has words, and returns them.
///
/// # Errors
/// A word is none of the labels of its column, or the database cannot be asked.
pub(crate) async fn check_filters(
    sql: &mut impl TextQuery,
    outboxes: &Outboxes,
) -> Result<FilterLabels, Failure> {
    let mut found = FilterLabels::default();
    for OutboxTable { name, filter, .. } in &outboxes.tables {
        let Some(filter) = filter else { continue };
        let statement = format!(
            "with recursive base (oid, type) as ( \
               select a.atttypid, a.atttypid from pg_attribute a \
               join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace \
               where n.nspname = {} and c.relname = {} and a.attname = {} and a.attnum > 0 \
               union all \
               select base.oid, t.typbasetype from base join pg_type t on t.oid = base.type \
               where t.typtype = 'd') \
             select e.enumlabel from base join pg_enum e on e.enumtypid = base.type \
             order by e.enumsortorder",
            quote_literal(&name.schema),
            quote_literal(&name.name),
            quote_literal(&filter.column)
        );
        let mut labels = Vec::new();
        for mut row in sql.rows("the labels of an enum", &statement).await? {
            labels.push(row.text()?);
        }
        if !labels.is_empty() {
            check_labels(name, filter, Some(&labels))?;
            found.add(name.clone(), labels);
        }
    }
    Ok(found)
}
