//! The publication and the outbox tables at one moment, by OID, as plain data. Reading them from a
//! server is somebody else's; what is wrong with them is judged in [`super::publication`].

use pgoutput::Oid;

use super::storage::{Partition, Storage};
use crate::routing::table::{Outboxes, TableName};

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

    /// The table that bears this name, or else the one that bore it before it was renamed.
    pub fn bearing(&self, name: &TableName) -> Option<&Relation> {
        let bore = |relation: &&Relation| relation.formerly.contains(name);
        self.named(name).or_else(|| self.relations.iter().find(bore))
    }

    /// Keeps what was there before and is gone: a table that was dropped is harmless until another
    /// takes its name; one that was renamed goes on belonging to the configured name that it bore,
    /// until another bears that. Of those that are gone only the latest are kept: where tables come
    /// and go every day, the record would grow for ever.
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
                // Those that were there at the last look come before those that were gone by then.
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
    pub fn with_oid(&self, oid: Oid) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.oid == oid)
    }
}

/// Tables that are gone, and are remembered: more than a person exchanges between two looks, and
/// few in a record that is written often.
const GONE_MAX: usize = 100;

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Another after it was dropped and made again.
    pub oid: Oid,
    /// The transaction that wrote its row (`xmin`): another after every change of its options or
    /// its owner, harmful or not, but not after one of its tables.
    pub written_by: u32,
    /// Who owns it.
    pub owner: Oid,
    /// What its row holds beside (which changes are published, and how), as the server writes it in
    /// JSON. All that ALTER PUBLICATION writes is here, in `owner`, or in the name.
    pub options: String,
    /// Whether INSERTs are published.
    pub inserts: Inserts,
    /// How partitioned tables are published.
    pub partitions: Partitions,
    /// What it publishes, as the server works it out: FOR ALL TABLES and FOR TABLES IN SCHEMA are
    /// resolved.
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
    /// Its entry in the publication (`pg_publication_rel`): another after it was taken out and put
    /// back, or was given another filter or column list. None where it has none of its own: FOR ALL
    /// TABLES, FOR TABLES IN SCHEMA, and partitions that are published with their parent.
    pub entry: Option<Oid>,
    /// Its schema's, where the publication is FOR TABLES IN SCHEMA.
    pub schema_entry: Option<SchemaEntry>,
    /// The row filter, as SQL.
    pub row_filter: Option<String>,
    /// The columns that are published.
    pub columns: Vec<String>,
}

impl PublishedTable {
    /// Whether it is known what it is published by: an entry of its own, or its schema's.
    pub fn has_entry(&self) -> bool {
        self.entry.is_some() || self.schema_entry.is_some()
    }

    /// What it was published by, where that could not be seen: with nothing to compare, the next
    /// entry would look well. A partition may be there by what it is a partition of, and has none
    /// then.
    fn keep_entry(&mut self, before: Option<&Self>) {
        if let Some(before) = before.filter(|_| !self.has_entry() && self.kind != Kind::Leaf) {
            (self.entry, self.schema_entry) = (before.entry, before.schema_entry);
        }
    }
}

/// What shows that a table is published because its schema is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaEntry {
    /// The schema's entry in the publication (`pg_publication_namespace`): another after it was
    /// taken out and put back.
    pub entry: Oid,
    /// The transaction that wrote that the table is in the schema (`pg_depend`, `xmin`): another
    /// after SET SCHEMA, and after nothing else that befalls a table (seen on 15 and 18).
    pub placed_by: u32,
}

/// A table of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// The table.
    pub oid: Oid,
    /// Its name at the time.
    pub name: TableName,
    /// The transaction that gave it its name, its schema or its owner (`pg_type`, `xmin` of its row
    /// type): nothing else that befalls a table writes that row, but a GRANT on the type (seen on
    /// 15 and 18). None: an earlier router did not write it down.
    pub named_by: Option<u32>,
    /// Configured names that it bore before, and that no other table bears. A look at the server
    /// alone does not know.
    pub formerly: Vec<TableName>,
    /// What it is.
    pub kind: Kind,
    /// All its columns.
    pub columns: Vec<String>,
    /// Those of them that PostgreSQL computes (`GENERATED ALWAYS AS`), which it publishes only when
    /// it is told to.
    pub generated: Vec<String>,
    /// Tables that inherit from it (`INHERITS`), directly or not. Partitions are none of them.
    pub children: Vec<Child>,
    /// Its partitions, of all levels, the newest first.
    pub partitions: Vec<Partition>,
    /// Its own rows, where it is not partitioned.
    pub storage: Storage,
}

/// A table that inherits from another. It is a table of its own: PostgreSQL publishes its rows
/// under its name, if at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The table.
    pub oid: Oid,
    /// Its name at the time.
    pub name: TableName,
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
