//! When a row was written, by a column of its table.

use relay::{ColumnName, Mapping, Role};

/// Names of that column in outbox tables that we have seen; the name that `setup` uses is first.
pub(crate) const CREATED_AT: [&str; 7] =
    ["created_at", "occurred_at", "inserted_at", "createdat", "occurredat", "created", "timestamp"];

/// Names that it may have in a table, the likeliest first: the configured ones, the preset's, and
/// those that we have seen.
pub(crate) fn names(mapping: Mapping<'_>) -> impl Iterator<Item = &str> {
    // Routing reads the column only where a record's time is taken from it.
    let configured = mapping.table().columns.get(Role::Timestamp).into_iter().flatten();
    let configured = configured.filter_map(|name| match name {
        ColumnName::Column(name) => Some(name.as_str()),
        ColumnName::Template(_) => None,
    });
    let of_preset = mapping.preset().alternatives(Role::Timestamp).iter().copied();
    configured.chain(of_preset).chain(CREATED_AT)
}
