//! How rows are stored: what the catalog shows of whether they were in the WAL all the time.
//!
//! PostgreSQL refuses SET UNLOGGED only of a table that a publication names
//! (`ATPrepChangePersistence` in tablecmds.c). A table that is published with its schema, with all
//! tables or as a partition may be unlogged for a while, and what is written to it then is not in
//! the WAL.

use pgoutput::Oid;

use crate::routing::table::TableName;

/// How a table's rows are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Storage {
    /// Whether they are in the WAL now.
    pub persistence: Persistence,
    /// The OID of the table's TOAST table. It changes when ALTER TABLE rewrites the rows; VACUUM
    /// FULL, CLUSTER and TRUNCATE keep it (seen on 15 and 18). None where no column is large enough
    /// to need one.
    pub toast: Option<Oid>,
    /// What kind of statement created that TOAST table.
    pub toast_origin: ToastOrigin,
}

/// Whether rows are in the WAL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Persistence {
    /// They are.
    #[default]
    Logged,
    /// They are not: the table is unlogged.
    Unlogged,
    /// They are not: it is a foreign table, whose rows are on another server.
    Foreign,
}

/// What the catalog shows of the statement that created a TOAST table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToastOrigin {
    /// A tool that exchanges a table's storage: it created the TOAST table in one transaction and
    /// put it in place in another (seen with `pg_repack` 1.4.8). Also where a tool that needs only
    /// one transaction cannot be ruled out.
    #[default]
    ByTool,
    /// CREATE TABLE, or an ALTER TABLE that changed columns or was followed by a change of columns:
    /// a change of columns explains that rows were rewritten.
    WithColumns,
    /// An ALTER TABLE, and no column has changed since: SET LOGGED or SET UNLOGGED. (SET ACCESS
    /// METHOD is counted here only where the table has the ordinary one again.)
    WithoutColumns,
}

/// A partition of a table, of any level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The partition.
    pub oid: Oid,
    /// Its name at the time; the witness does not keep it.
    pub name: Option<TableName>,
    /// The transaction that attached it (`pg_inherits`, `xmin`). Of all else only DETACH
    /// CONCURRENTLY writes that row, and after it the table is no partition any more.
    pub attached_by: u32,
    /// How its rows are stored.
    pub storage: Storage,
}
