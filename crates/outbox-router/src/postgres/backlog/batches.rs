//! The batches of a backlog, and the statement that reads one.

use pgoutput::Lsn;

use crate::postgres::quote::{publication_names_literal, quote_literal};

/// The first batch has this part of the changes that one may have, so that its first row comes
/// soon; each other has this many times as many as the one before.
const GROWTH: u32 = 4;

/// How large a batch may be: the server keeps the whole of a batch before it sends the first row.
/// It decodes each from the copy's `restart_lsn` on, which moves with the records of running
/// transactions (every 15 s where the server writes): small batches decode the same WAL more often.
/// A batch ends with a transaction, so a large one exceeds both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The number of changes. A transaction of one row has three messages.
    pub changes: u32,
    /// The length in WAL. The rows of a batch are about as large as their WAL.
    pub wal_bytes: u64,
}

/// A temporary copy of the slot, of the session that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedSlot {
    /// Its name.
    pub name: String,
    /// Its `confirmed_flush_lsn`: transactions that were committed before it do not come.
    pub begins_at: Lsn,
}

/// Reads one batch after another of the copy, and says where the copy stands after each: the server
/// counts from there, so the end of a batch does not have to be known when the next is asked for.
#[derive(Debug)]
pub(super) struct Batches {
    /// The statement as far as the number of changes.
    head: String,
    /// The rest.
    tail: String,
    /// How many changes the next batch may have.
    changes: u32,
    limit: u32,
}

impl Batches {
    pub(super) fn new(
        copy: &CopiedSlot,
        publications: &[&str],
        until: Lsn,
        limits: BatchLimits,
    ) -> Self {
        let copy = quote_literal(&copy.name);
        let until = quote_literal(&until.to_string());
        let publications = publication_names_literal(publications);
        let wal_bytes = limits.wal_bytes;
        let position = format!(
            "select confirmed_flush_lsn from pg_catalog.pg_replication_slots \
             where slot_name = {copy}"
        );
        let head = format!(
            "copy (select lsn, xid, data \
               from pg_catalog.pg_logical_slot_get_binary_changes({copy}, \
                 least({until}::pg_catalog.pg_lsn, \
                   ({position}) + {wal_bytes}::pg_catalog.numeric), "
        );
        let tail = format!(
            ", 'proto_version', '1', 'publication_names', {publications})) \
             to stdout (format binary); {position}"
        );
        Self { head, tail, changes: (limits.changes / GROWTH).max(1), limit: limits.changes }
    }

    /// The next batch's statement.
    pub(super) fn next(&mut self) -> String {
        let statement = format!("{}{}{}", self.head, self.changes, self.tail);
        self.changes = self.changes.saturating_mul(GROWTH).min(self.limit);
        statement
    }
}
