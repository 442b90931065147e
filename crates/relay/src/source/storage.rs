//! Where rows are kept, as far as it shows whether they were in the WAL all the time.
//!
//! PostgreSQL refuses SET UNLOGGED only of a table that a publication names
//! (`ATPrepChangePersistence` in tablecmds.c). One that is published with its schema, with all
//! tables or as a partition may be unlogged for a while, and what is written to it then is in
//! nobody's WAL.

use pgoutput::Oid;

use crate::routing::table::TableName;

/// How a table's rows are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Storage {
    /// Whether they are in the WAL now.
    pub place: Place,
    /// The table's TOAST table: another after a statement that wrote all rows anew. VACUUM FULL,
    /// CLUSTER and TRUNCATE keep it (seen on 15 and 18). None where no column is large enough for
    /// one.
    pub toast: Option<Oid>,
    /// Who made that TOAST table.
    pub made: Made,
}

/// Whether rows are in the WAL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Place {
    /// They are.
    #[default]
    Logged,
    /// They are not: the table is unlogged.
    Unlogged,
    /// They are in another server.
    Foreign,
}

/// What the catalog shows of the statement that a TOAST table comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Made {
    /// A tool that exchanges the storage below a table: it made the TOAST table in one transaction
    /// and put it in place in another (seen of `pg_repack` 1.4.8). Or it may have been one, of
    /// those that need one transaction.
    #[default]
    ByTool,
    /// CREATE TABLE, or an ALTER TABLE; columns were changed by it or later, which is reason enough
    /// to write rows anew.
    WithColumns,
    /// An ALTER TABLE, and no column has changed since: SET LOGGED or SET UNLOGGED. (SET ACCESS
    /// METHOD is counted here only where the table has the ordinary one again.)
    WithoutColumns,
}

/// A partition of a table, of whatever level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The partition.
    pub oid: Oid,
    /// Its name at the time; the witness does not keep it.
    pub name: Option<TableName>,
    /// The transaction that attached it (`pg_inherits`, `xmin`). Nothing else writes that row, but
    /// for DETACH CONCURRENTLY, after which it is none any more.
    pub attached_by: u32,
    /// Its rows.
    pub storage: Storage,
}
