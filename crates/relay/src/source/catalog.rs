//! The publication and the outbox tables at one moment, by OID, as plain data. The shell reads
//! them; [`super::publication`] checks them.

use std::collections::BTreeSet;

use pgoutput::{Oid, PgTimestamp, Xid};

use super::{
    labels::FilterLabels,
    storage::{Partition, Storage},
};
use crate::{
    delivered::{AgeColumn, EventsSince, FullXid, OlderRows, Place},
    routing::table::{Outboxes, TableName},
};

/// What one reading of the catalog shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The publication, if it exists.
    pub publication: Option<Publication>,
    /// The outbox tables: those that have a configured name, and those whose OID the witness names.
    pub relations: Vec<CatalogRelation>,
    /// The rows that come after this reading; `None` in a record.
    pub next: Option<NextRows>,
    /// A transaction that has altered publication or tables, and whose work the reading does not
    /// show. Its commit may be in the WAL all the same: a snapshot shows it once it has ended, also
    /// its wait for a synchronous standby, and pgoutput follows it at once. `None` in a record.
    pub altering: Option<Xid>,
    /// The labels of enums, where a `where` reads one; none in a record, and none where nobody
    /// asked for them.
    pub labels: FilterLabels,
}

/// What sets the rows that are written after a reading of the catalog apart from older ones. It is
/// read behind the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextRows {
    /// An id that no transaction had yet.
    pub xid: FullXid,
    /// The server's clock.
    pub at: PgTimestamp,
    /// Tables and partitions that an earlier reading did not show, and that had no rows.
    pub empty: BTreeSet<Oid>,
}

impl NextRows {
    /// From where on the rows of a place are events that this reading was the first to show, in a
    /// table whose rows have their age by this column.
    pub fn since(&self, place: Oid, by: AgeColumn) -> EventsSince {
        if self.empty.contains(&place) {
            return EventsSince::FIRST_ROW;
        }
        EventsSince { xid: self.xid, older: Some(OlderRows { at: self.at, by }) }
    }
}

impl Catalog {
    /// The part that a record keeps.
    #[must_use]
    pub(crate) fn recorded(&self) -> Self {
        Self { next: None, altering: None, labels: FilterLabels::default(), ..self.clone() }
    }

    /// Whether publication and tables have been as it shows them up to the moment before it was
    /// read.
    pub const fn is_settled(&self) -> bool {
        self.altering.is_none()
    }

    /// The table that has this name now.
    pub fn named(&self, name: &TableName) -> Option<&CatalogRelation> {
        self.relations.iter().find(|relation| relation.name == *name)
    }

    /// The table that has this name, or else the one that had it before it was renamed.
    pub fn named_now_or_before(&self, name: &TableName) -> Option<&CatalogRelation> {
        let had = |relation: &&CatalogRelation| relation.formerly.contains(name);
        self.named(name).or_else(|| self.relations.iter().find(had))
    }

    /// Adds the tables of `before` that are gone. A dropped table does no harm until another table
    /// takes its name. A renamed table belongs to the configured name that it had until another
    /// table has that name. At most `GONE_MAX` dropped tables are kept, the latest: where tables
    /// come and go every day, the witness would grow without limit.
    #[must_use]
    pub fn remember(mut self, outboxes: &Outboxes, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        let mut gone = 0;
        for relation in &before.relations {
            let names = relation.formerly.iter().chain([&relation.name]);
            let is_asked_for = |name: &&TableName| outboxes.tables.iter().any(|t| t.name == **name);
            let is_free = |name: &&TableName| self.named(name).is_none();
            let formerly: Vec<TableName> =
                names.filter(is_asked_for).filter(is_free).cloned().collect();
            match self.relations.iter_mut().find(|now| now.oid == relation.oid) {
                Some(now) => now.formerly = formerly,
                // Tables that existed at the last reading stand before those that were gone by
                // then.
                None if gone < GONE_MAX => {
                    gone += 1;
                    self.relations.push(relation.clone());
                }
                None => {}
            }
        }
        if let (Some(now), Some(before)) = (&mut self.publication, &before.publication) {
            now.tables.iter_mut().for_each(|table| table.keep_entry(before.table(table.oid)));
            let is_gone = |table: &&PublishedTable| now.table(table.oid).is_none();
            let gone: Vec<PublishedTable> =
                before.tables.iter().filter(is_gone).take(GONE_MAX).cloned().collect();
            now.tables.extend(gone);
        }
        self
    }

    /// The table with this OID, whatever its name.
    pub fn with_oid(&self, oid: Oid) -> Option<&CatalogRelation> {
        self.relations.iter().find(|relation| relation.oid == oid)
    }
}

/// How many dropped tables are remembered: more than a person replaces between two readings, and
/// few enough for a record that is written often.
const GONE_MAX: usize = 100;

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Another OID after the publication was dropped and re-created.
    pub oid: Oid,
    /// The transaction that wrote its row (`xmin`). It changes with every change of options or
    /// owner, harmful or not, and not with a change of the publication's tables.
    pub written_by: u32,
    /// The role that owns it.
    pub owner: Oid,
    /// The other columns of its row (which changes are published, and how), as the server's JSON.
    /// All that ALTER PUBLICATION writes to that row is here, in `owner`, or in the name.
    pub options: String,
    /// Whether INSERTs are published.
    pub inserts: Inserts,
    /// How partitioned tables are published.
    pub partitions: Partitions,
    /// The tables that it publishes, as the server lists them: FOR ALL TABLES and FOR TABLES IN
    /// SCHEMA are resolved.
    pub tables: Vec<PublishedTable>,
}

impl Publication {
    /// The published table with this OID.
    pub fn table(&self, oid: Oid) -> Option<&PublishedTable> {
        self.tables.iter().find(|table| table.oid == oid)
    }
}

/// Whether the option `publish` of a publication contains `insert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserts {
    /// It contains `insert`.
    Published,
    /// It does not.
    Withheld,
}

/// `publish_via_partition_root`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitions {
    /// Under the name of the partitioned table.
    ViaRoot,
    /// Each leaf under its own name.
    ByLeaf,
}

/// A table of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedTable {
    /// The table.
    pub oid: Oid,
    /// Its name at the time.
    pub name: TableName,
    /// What it is.
    pub kind: TableKind,
    /// The OID of its entry in the publication (`pg_publication_rel`). It changes when the table is
    /// taken out and put back, or is given another filter or column list. None where the table has
    /// no entry: FOR ALL TABLES, FOR TABLES IN SCHEMA, and partitions that are published with their
    /// parent.
    pub entry: Option<Oid>,
    /// Its schema's entry, where the publication is FOR TABLES IN SCHEMA.
    pub schema_entry: Option<SchemaEntry>,
    /// The row filter, as SQL.
    pub row_filter: Option<String>,
    /// The columns that are published.
    pub columns: Vec<String>,
}

impl PublishedTable {
    /// Whether it has an entry, of its own or by its schema.
    pub fn has_entry(&self) -> bool {
        self.entry.is_some() || self.schema_entry.is_some()
    }

    /// Takes over the former entries where no entry was seen now. Without them there would be
    /// nothing to compare the next entry with, and a table that was taken out and put back would
    /// pass. A partition is left as it is: it may be published with its parent, without an entry.
    fn keep_entry(&mut self, before: Option<&Self>) {
        if let Some(before) = before.filter(|_| !self.has_entry() && self.kind != TableKind::Leaf) {
            (self.entry, self.schema_entry) = (before.entry, before.schema_entry);
        }
    }
}

/// What shows that a table is published because its schema is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaEntry {
    /// The OID of the schema's entry in the publication (`pg_publication_namespace`). It changes
    /// when the schema is taken out and put back.
    pub entry: Oid,
    /// The transaction that wrote that the table is in the schema (`pg_depend`, `xmin`). It changes
    /// with SET SCHEMA, and with nothing else that is done to a table (seen on 15 and 18).
    pub placed_by: u32,
}

/// A table of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogRelation {
    /// The table.
    pub oid: Oid,
    /// Its name at the time.
    pub name: TableName,
    /// The transaction that gave it its name, its schema or its owner (`pg_type`, `xmin` of its row
    /// type). Of all else only a GRANT on the type writes that row (seen on 15 and 18). None in
    /// records of earlier versions.
    pub named_by: Option<u32>,
    /// Configured names that it had before, and that no other table has now.
    /// [`Catalog::remember`] adds them; the server does not know them.
    pub formerly: Vec<TableName>,
    /// What it is.
    pub kind: TableKind,
    /// All its columns.
    pub columns: Vec<String>,
    /// The column that gives its rows their age; not known in a record.
    pub age: AgeColumn,
    /// Its generated columns (`GENERATED ALWAYS AS`). PostgreSQL before 18 does not publish them;
    /// later versions do if the publication says so.
    pub generated: Vec<String>,
    /// Tables that inherit from it (`INHERITS`), directly or not, without partitions.
    pub children: Vec<Child>,
    /// Its partitions, of all levels, the newest first.
    pub partitions: Vec<Partition>,
    /// How its own rows are stored; of a partitioned table this says nothing.
    pub storage: Storage,
}

impl CatalogRelation {
    /// Where its rows are: in the table itself, and in its partitions.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let partition = |one: &Partition| Place::partition(one.oid, one.attached_by);
        self.partitions.iter().map(partition).chain([Place::table(self.oid)])
    }
}

/// A table that inherits from another. PostgreSQL publishes its rows under the child's own name, if
/// at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The table.
    pub oid: Oid,
    /// Its name at the time.
    pub name: TableName,
}

/// Whether a table is partitioned, a partition or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Neither.
    Plain,
    /// It is partitioned.
    Partitioned,
    /// It is a partition.
    Leaf,
}
