//! Outboxes that the configuration no longer names: an older configuration came back with a
//! rollback, or with the instance that took over. A person chose that, so it is no gap; but nothing
//! else reports the rows that are skipped.

use super::{catalog::Catalog, tables::TableOids};
use crate::{
    failure::{Code, Failure},
    routing::table::Outboxes,
    witness::Witness,
};

/// Tables that were outboxes when the witness was written, and are not any more. It does not matter
/// whether they still exist: the slot has their rows from the time when they did.
pub(super) fn unconfigured(
    witness: &Witness,
    outboxes: &Outboxes,
    now: &Catalog,
    tables: &TableOids,
) -> Vec<Failure> {
    if outboxes.tables.is_empty() {
        return Vec::new();
    }
    let uncounted = witness.outboxes().filter(|oid| tables.table(*oid).is_none());
    uncounted
        .filter_map(|oid| {
            let name = &now.with_oid(oid).or_else(|| witness.catalog.with_oid(oid))?.name;
            let from = witness.mark();
            Some(Failure::new(
                Code::TableUnconfigured,
                format!(
                    "table {name} was an outbox, and is not configured any more: its rows committed \
                     after {from} are not produced"
                ),
            ))
        })
        .collect()
}
