//! A table that was taken out of a publication and put back: the rows that were written meanwhile
//! are missing, although the publication looks as before.
//!
//! A table is in a publication by an entry of its own or by its schema's entry. Either entry has
//! another OID after it was removed and added again. A table that is published FOR ALL TABLES, or
//! with its partitioned parent, has no entry and cannot be taken out by itself.

use super::{comparison::Comparison, xmin::is_written_again};
use crate::{
    failure::{Case, Failure},
    source::catalog::PublishedTable,
};

/// How a table was taken out.
enum Left {
    /// Its own entry, before and now.
    ByItself(String),
    /// Its schema's entry, before and now.
    WithItsSchema(String),
    /// It was moved to another schema and back.
    ItsSchema,
    /// It has another kind of entry than before.
    Otherwise,
}

fn left(before: &PublishedTable, now: &PublishedTable) -> Option<Left> {
    let (own, by_schema) = (before.entry, before.schema_entry);
    // Without an entry on both sides there is nothing to compare: none was remembered, or the table
    // is published with its parent.
    if !before.has_entry() || !now.has_entry() || (own.is_some() && own == now.entry) {
        return None;
    }
    if let (Some(before), Some(now)) = (by_schema, now.schema_entry) {
        return if before.entry != now.entry {
            Some(Left::WithItsSchema(format!("entry {} is now {}", before.entry, now.entry)))
        } else {
            is_written_again(before.placed_by, now.placed_by).then_some(Left::ItsSchema)
        };
    }
    Some(match (own, now.entry) {
        (Some(before), Some(now)) => Left::ByItself(format!("entry {before} is now {now}")),
        _ => Left::Otherwise,
    })
}

impl Comparison<'_> {
    pub(super) fn put_back(&self, published: &PublishedTable) -> Option<Failure> {
        let before = self.before?.publication.as_ref()?;
        // In a re-created publication every entry differs.
        if before.oid != self.publication.oid {
            return None;
        }
        let left = left(before.table(published.oid)?, published)?;
        let (table, publication) = (&published.name, self.watched.publication);
        let what = match left {
            Left::ByItself(entries) => format!(
                "table {table} was taken out of publication \"{publication}\" and put back, or was \
                 given another filter or column list ({entries})"
            ),
            Left::WithItsSchema(entries) => format!(
                "the schema of table {table} was taken out of publication \"{publication}\" and put \
                 back ({entries})"
            ),
            Left::ItsSchema => format!(
                "table {table} is in publication \"{publication}\" by its schema, and was moved out \
                 of that and back"
            ),
            Left::Otherwise => format!(
                "table {table} is in publication \"{publication}\" in another way than before (by \
                 itself, or by its schema), and may have been out of it in between"
            ),
        };
        Some(Failure::of(Case::PutBack, what))
    }
}
