//! Foreign keys that reference an outbox: a row that one of them references cannot be removed,
//! unless the key says what becomes of the rows that reference it.

use relay::{Case, Failure, Name, TableName};

use crate::postgres::{quote_identifier, quote_table};

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// The table whose rows reference others.
    pub(super) table: TableName,
    pub(super) constraint: String,
}

impl Reference {
    /// Why rows cannot be removed.
    pub(super) fn failure(self, what: String) -> Failure {
        let Self { table, constraint } = self;
        let drop = format!(
            "alter table {} drop constraint {}",
            quote_table(&table),
            quote_identifier(&constraint)
        );
        Failure::of(Case::RetentionReferenced, what)
            .naming(Name::Table, table)
            .naming(Name::Statements, drop)
    }
}

/// The foreign keys that refuse to let a row of this table go, by name. That of a partition is a
/// copy of its root's.
pub(super) fn statement(oid: u32) -> String {
    format!(
        "select n.nspname, c.relname, k.conname \
         from pg_constraint k join pg_class c on c.oid = k.conrelid \
         join pg_namespace n on n.oid = c.relnamespace \
         where k.contype = 'f' and k.conparentid = 0 and k.confdeltype in ('a', 'r') \
           and k.confrelid in (select {oid}::oid union select relid from pg_partition_tree({oid})) \
         order by 1, 2, 3 limit 1"
    )
}
