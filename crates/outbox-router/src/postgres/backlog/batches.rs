//! The batches of a backlog, and the statement that reads one.

use pgoutput::Lsn;

use crate::postgres::quote::{publication_names_literal, quote_literal};

/// How much WAL a batch has. The server keeps the rows of a batch, which are about as large as
/// their WAL, before it sends the first; and it decodes each batch from the copy's `restart_lsn`
/// on, which moves with the records of running transactions (every 15 s where the server writes).
/// So a batch has as much WAL as is decoded again for it, within these limits. It ends with a
/// transaction, so a large one exceeds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// In bytes, where little is decoded again.
    pub least: u64,
    /// In bytes, where much is.
    pub most: u64,
}

/// A temporary copy of the slot, of the session that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedSlot {
    /// Its name.
    pub name: String,
    /// Its `confirmed_flush_lsn`: transactions that were committed before it do not come.
    pub begins_at: Lsn,
}

/// Reads the next batch of `copy`, and says where the copy stands then. It is the server that
/// counts from there, so the end of a batch does not have to be known when the next is asked for.
/// A copy that stands at the end is not read: the server evaluates the condition first, which is
/// about no row.
///
/// Where the batch before was read of another copy, `from`, this one is made anew of that first;
/// then the answer begins with the position at which it does.
pub(super) fn statement(
    copy: &str,
    from: Option<&str>,
    publications: &[&str],
    until: Lsn,
    limits: BatchLimits,
) -> String {
    let BatchLimits { least, most } = limits;
    let copy = quote_literal(copy);
    let until = quote_literal(&until.to_string());
    let publications = publication_names_literal(publications);
    let of_copy = format!("from pg_catalog.pg_replication_slots where slot_name = {copy}");
    let made = from.map_or_else(String::new, |from| {
        let from = quote_literal(from);
        format!(
            "select pg_catalog.pg_drop_replication_slot(slot_name) {of_copy}; \
             select lsn from pg_catalog.pg_copy_logical_replication_slot({from}, {copy}, true); "
        )
    });
    format!(
        "{made}\
         copy (select lsn, xid, data from pg_catalog.pg_logical_slot_get_binary_changes({copy}, \
           (select least({until}::pg_catalog.pg_lsn, confirmed_flush_lsn \
              + least({most}, greatest({least}, confirmed_flush_lsn - restart_lsn))) {of_copy}), \
           null, 'proto_version', '1', 'publication_names', {publications}) \
           where (select confirmed_flush_lsn {of_copy}) < {until}::pg_catalog.pg_lsn) \
         to stdout (format binary); \
         select confirmed_flush_lsn {of_copy}"
    )
}
