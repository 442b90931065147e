//! The publication and the outbox tables at one moment, by OID, as plain data. Reading them from a server is somebody
//! else's; what is wrong with them is judged in [`super::publication`].

use pgoutput::Oid;

use crate::table::{Outboxes, TableName};

/// What one look shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The publication, if it exists.
    pub publication: Option<Publication>,
    /// The outbox tables: those that bear a name we look for, and those that we remember by OID.
    pub relations: Vec<Relation>,
}

impl Catalog {
    /// The table that bears this name now.
    pub fn named(&self, name: &TableName) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.name == *name)
    }

    /// Keeps what was there before and is gone: a table that was dropped is harmless until another takes its name.
    #[must_use]
    pub fn remember(mut self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        for relation in &before.relations {
            if self.with_oid(relation.oid).is_none() {
                self.relations.push(relation.clone());
            }
        }
        if let (Some(now), Some(before)) = (&mut self.publication, &before.publication) {
            for table in &before.tables {
                if now.table(table.oid).is_none() {
                    now.tables.push(table.clone());
                }
            }
        }
        self
    }

    /// The tables whose rows count as events.
    pub fn outbox_tables(&self, outboxes: &Outboxes) -> Vec<Oid> {
        if outboxes.tables.is_empty() {
            let published = self.publication.iter().flat_map(|publication| &publication.tables);
            return published.map(|table| table.oid).collect();
        }
        let named = outboxes.tables.iter().filter_map(|outbox| self.named(&outbox.name));
        named.map(|relation| relation.oid).collect()
    }

    /// The table with this OID, whatever its name.
    pub fn with_oid(&self, oid: Oid) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.oid == oid)
    }
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Another after it was dropped and made again.
    pub oid: Oid,
    /// The transaction that wrote its row (`xmin`): another after every change of its options or its owner, harmful or
    /// not, but not after one of its tables.
    pub written_by: u32,
    /// Whether INSERTs are published.
    pub inserts: Inserts,
    /// How partitioned tables are published.
    pub partitions: Partitions,
    /// What it publishes, as the server works it out: FOR ALL TABLES and FOR TABLES IN SCHEMA are resolved.
    pub tables: Vec<PublishedTable>,
}

impl Publication {
    /// The published table with this OID.
    pub fn table(&self, oid: Oid) -> Option<&PublishedTable> {
        self.tables.iter().find(|table| table.oid == oid)
    }
}

/// `publish` of a publication, as far as it matters.
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
    pub kind: Kind,
    /// Its entry in the publication (`pg_publication_rel`): another after it was taken out and put back, or was given
    /// another filter or column list. None where it has none of its own: FOR ALL TABLES, FOR TABLES IN SCHEMA, and
    /// partitions that are published with their parent.
    pub entry: Option<Oid>,
    /// The row filter, as SQL.
    pub row_filter: Option<String>,
    /// The columns that are published.
    pub columns: Vec<String>,
}

/// A table of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// The table.
    pub oid: Oid,
    /// Its name at the time.
    pub name: TableName,
    /// What it is.
    pub kind: Kind,
    /// All its columns.
    pub columns: Vec<String>,
    /// Those of them that PostgreSQL computes (`GENERATED ALWAYS AS`), which it publishes only when it is told to.
    pub generated: Vec<String>,
}

/// What partitioning has to do with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Plain,
    /// It is partitioned.
    Partitioned,
    /// It is a partition.
    Leaf,
}
