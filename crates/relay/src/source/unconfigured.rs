//! Outboxes that the configuration does not name any more: an older one came back with a rollback, or with the instance that
//! took over. That is a person's choice, and no gap; but the rows that it passes over are nowhere else told of.

use pgoutput::Oid;

use super::{catalog::Catalog, tables::TableOids};
use crate::{
    failure::{Code, Failure},
    table::Outboxes,
    witness::Witness,
};

/// Tables that counted when the record was written, are published, and count no more.
pub(super) fn unconfigured(
    witness: &Witness,
    outboxes: &Outboxes,
    now: &Catalog,
    tables: &TableOids,
) -> Vec<Failure> {
    if outboxes.tables.is_empty() {
        return Vec::new();
    }
    let publication = now.publication.as_ref();
    let is_published = |oid: &Oid| publication.is_some_and(|it| it.table(*oid).is_some());
    let counts = |oid: &Oid| tables.table(*oid).is_some();
    // Another table has the name of such a one, and that was accepted.
    let was_replaced = |oid: &Oid| witness.former.contains_key(&oid.as_u32());
    let dropped = witness.tables.iter().filter(|oid| is_published(oid) && !counts(oid));
    dropped
        .filter(|oid| !was_replaced(oid))
        .filter_map(|oid| {
            let name = &now.with_oid(*oid)?.name;
            let from = witness.mark();
            Some(
                Failure::new(
                    Code::TableUnconfigured,
                    format!(
                        "table {name} was an outbox and is in the publication, and [[outbox]] does \
                         not name it any more: its rows committed after {from} are not produced"
                    ),
                )
                .hint(
                    "if it is one: name it in [[outbox]], and publish from the table what was \
                     committed until then; if it is none: take it out of the publication",
                ),
            )
        })
        .collect()
}
