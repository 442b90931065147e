//! Publication and tables in a record. What an earlier version did not write is not known, and is
//! not compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::{Unreadable, lsn};
use crate::{
    delivered::AgeColumn,
    routing::table::TableName,
    source::{
        CatalogRelation, Inserts, Oid, Partition, Partitions, Publication, PublishedTable,
        SchemaEntry, Storage, TableKind,
    },
    witness::Detached,
};

/// How many partitions of outbox tables a record names, the newest of each table first: one for
/// each hour of five months. Each takes less than 120 bytes, and the record less than 480 kB, twice
/// a second while the router follows; a topic takes 1 MiB by default (`max.message.bytes`). Changes
/// to the other partitions while no router runs are not noticed, and after a restart their rows
/// stay in the table; a running router compares all of them.
pub(super) const TABLE_PARTITIONS_MAX: usize = 4_000;

#[derive(Serialize, Deserialize)]
pub(super) struct PublicationText {
    oid: u32,
    written_by: u32,
    owner: u32,
    options: String,
    inserts: InsertsText,
    partitions: PartitionsText,
    tables: Vec<PublishedText>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum InsertsText {
    Published,
    Withheld,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartitionsText {
    ViaRoot,
    ByLeaf,
}

#[derive(Serialize, Deserialize)]
struct PublishedText {
    oid: u32,
    schema: String,
    name: String,
    kind: KindText,
    entry: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema_entry: Option<SchemaEntryText>,
}

#[derive(Serialize, Deserialize)]
struct SchemaEntryText {
    entry: u32,
    placed_by: u32,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RelationText {
    oid: u32,
    schema: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    named_by: Option<u32>,
    formerly: Vec<NameText>,
    kind: KindText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    toast: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<PartitionText>,
}

/// The partition's OID, the transaction that attached it, and its TOAST table or 0. Names are left
/// out: there may be many partitions, and the record is written often.
#[derive(Serialize, Deserialize)]
struct PartitionText(u32, u32, u32);

/// The OID of a partition that is gone, that of its table, and until where its rows come.
#[derive(Serialize, Deserialize)]
pub(super) struct DetachedText(u32, u32, Option<String>);

#[derive(Serialize, Deserialize)]
struct NameText {
    schema: String,
    name: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindText {
    Plain,
    Partitioned,
    Leaf,
}

impl KindText {
    fn of(kind: TableKind) -> Self {
        match kind {
            TableKind::Plain => Self::Plain,
            TableKind::Partitioned => Self::Partitioned,
            TableKind::Leaf => Self::Leaf,
        }
    }

    fn read(self) -> TableKind {
        match self {
            Self::Plain => TableKind::Plain,
            Self::Partitioned => TableKind::Partitioned,
            Self::Leaf => TableKind::Leaf,
        }
    }
}

impl PublicationText {
    pub(super) fn of(publication: &Publication) -> Self {
        Self {
            oid: publication.oid.as_u32(),
            written_by: publication.written_by,
            owner: publication.owner.as_u32(),
            options: publication.options.clone(),
            inserts: match publication.inserts {
                Inserts::Published => InsertsText::Published,
                Inserts::Withheld => InsertsText::Withheld,
            },
            partitions: match publication.partitions {
                Partitions::ViaRoot => PartitionsText::ViaRoot,
                Partitions::ByLeaf => PartitionsText::ByLeaf,
            },
            tables: publication.tables.iter().map(PublishedText::of).collect(),
        }
    }

    pub(super) fn read(self) -> Publication {
        Publication {
            oid: Oid::from_u32(self.oid),
            written_by: self.written_by,
            owner: Oid::from_u32(self.owner),
            options: self.options,
            inserts: match self.inserts {
                InsertsText::Published => Inserts::Published,
                InsertsText::Withheld => Inserts::Withheld,
            },
            partitions: match self.partitions {
                PartitionsText::ViaRoot => Partitions::ViaRoot,
                PartitionsText::ByLeaf => Partitions::ByLeaf,
            },
            tables: self.tables.into_iter().map(PublishedText::read).collect(),
        }
    }
}

impl PublishedText {
    fn of(table: &PublishedTable) -> Self {
        Self {
            oid: table.oid.as_u32(),
            schema: table.name.schema.clone(),
            name: table.name.name.clone(),
            kind: KindText::of(table.kind),
            entry: table.entry.map(|entry| entry.as_u32()),
            schema_entry: table.schema_entry.map(|entry| SchemaEntryText {
                entry: entry.entry.as_u32(),
                placed_by: entry.placed_by,
            }),
        }
    }

    /// Row filter and columns are checked as they are now and not compared, so they are not kept. A
    /// filter may also contain a secret.
    fn read(self) -> PublishedTable {
        PublishedTable {
            oid: Oid::from_u32(self.oid),
            name: TableName { schema: self.schema, name: self.name },
            kind: self.kind.read(),
            entry: self.entry.map(Oid::from_u32),
            schema_entry: self.schema_entry.map(|entry| SchemaEntry {
                entry: Oid::from_u32(entry.entry),
                placed_by: entry.placed_by,
            }),
            row_filter: None,
            columns: Vec::new(),
        }
    }
}

impl NameText {
    fn of(name: &TableName) -> Self {
        Self { schema: name.schema.clone(), name: name.name.clone() }
    }

    fn read(self) -> TableName {
        TableName { schema: self.schema, name: self.name }
    }
}

impl RelationText {
    pub(super) fn all(relations: &[CatalogRelation]) -> Vec<Self> {
        let mut room = TABLE_PARTITIONS_MAX;
        let text = |relation: &CatalogRelation| {
            let text = Self::of(relation, room);
            room -= text.partitions.len();
            text
        };
        relations.iter().map(text).collect()
    }

    fn of(relation: &CatalogRelation, room: usize) -> Self {
        Self {
            oid: relation.oid.as_u32(),
            schema: relation.name.schema.clone(),
            name: relation.name.name.clone(),
            named_by: relation.named_by,
            formerly: relation.formerly.iter().map(NameText::of).collect(),
            kind: KindText::of(relation.kind),
            toast: relation.storage.toast.map(|oid| oid.as_u32()),
            partitions: relation.partitions.iter().take(room).map(PartitionText::of).collect(),
        }
    }

    pub(super) fn read(self) -> CatalogRelation {
        CatalogRelation {
            oid: Oid::from_u32(self.oid),
            name: TableName { schema: self.schema, name: self.name },
            named_by: self.named_by,
            formerly: self.formerly.into_iter().map(NameText::read).collect(),
            kind: self.kind.read(),
            columns: Vec::new(),
            age: AgeColumn::Unknown,
            generated: Vec::new(),
            children: Vec::new(),
            partitions: self.partitions.into_iter().map(PartitionText::read).collect(),
            storage: storage(self.toast),
        }
    }
}

/// Only the TOAST table is compared; whether the rows are in the WAL is checked as it is now.
fn storage(toast: Option<u32>) -> Storage {
    Storage { toast: toast.map(Oid::from_u32), ..Storage::default() }
}

impl PartitionText {
    fn of(partition: &Partition) -> Self {
        let toast = partition.storage.toast.map_or(0, |oid| oid.as_u32());
        Self(partition.oid.as_u32(), partition.attached_by, toast)
    }

    fn read(self) -> Partition {
        let Self(oid, attached_by, toast) = self;
        let toast = (toast != 0).then_some(toast);
        Partition { oid: Oid::from_u32(oid), name: None, attached_by, storage: storage(toast) }
    }
}

impl DetachedText {
    /// The newest of them, as many as of the partitions.
    pub(super) fn all(detached: &BTreeMap<u32, Detached>) -> Vec<Self> {
        let text = |(oid, of): (&u32, &Detached)| {
            Self(*oid, of.root.as_u32(), of.until.map(|until| until.to_string()))
        };
        detached.iter().rev().take(TABLE_PARTITIONS_MAX).map(text).collect()
    }

    pub(super) fn read(self) -> Result<(u32, Detached), Unreadable> {
        let Self(oid, root, until) = self;
        let until = until.as_deref().map(lsn).transpose()?;
        Ok((oid, Detached { root: Oid::from_u32(root), until }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pgoutput::{Lsn, PgTimestamp};

    use super::*;
    use crate::{
        delivered::{EventsSince, FullXid, OlderRows, Place},
        source::samples,
        witness::Witness,
    };

    /// A partitioned outbox in a published schema.
    fn full() -> Witness {
        let mut witness = Witness::at(Lsn::ZERO);
        let mut catalog = samples::healthy();
        for table in &mut catalog.publication.as_mut().unwrap().tables {
            table.columns.clear();
            table.schema_entry = Some(SchemaEntry { entry: Oid::from_u32(200), placed_by: 650 });
        }
        for relation in &mut catalog.relations {
            relation.columns.clear();
            relation.storage = storage(Some(50));
            let attached = |oid| PartitionText(oid, 700, oid % 2).read();
            relation.partitions = vec![attached(31), attached(30)];
        }
        witness.catalog = catalog;
        witness
    }

    #[test]
    fn schemas_and_partitions_are_read_as_they_were_written() {
        assert_eq!(Witness::decode(&full().encode()), Ok(full()));
    }

    #[test]
    fn a_record_without_schemas_and_partitions_is_read() {
        let written = full();
        let mut text: serde_json::Value = serde_json::from_slice(&written.encode()).unwrap();
        let table = text.pointer_mut("/publication/tables/0").unwrap().as_object_mut().unwrap();
        assert!(table.remove("schema_entry").is_some());
        let relation = text.pointer_mut("/relations/0").unwrap().as_object_mut().unwrap();
        assert!(relation.remove("toast").is_some() && relation.remove("partitions").is_some());
        assert!(relation.remove("named_by").is_some());
        let mut expected = written;
        expected.catalog.publication.as_mut().unwrap().tables[0].schema_entry = None;
        expected.catalog.relations[0].storage = storage(None);
        expected.catalog.relations[0].named_by = None;
        expected.catalog.relations[0].partitions.clear();
        assert_eq!(Witness::decode(text.to_string().as_bytes()), Ok(expected));
    }

    #[test]
    fn partitions_of_outboxes_beyond_the_limit_are_left_out_the_oldest_first() {
        let mut witness = full();
        let attached = |oid: u32| PartitionText(oid, u32::MAX, u32::MAX - oid).read();
        let from = u32::MAX - 5_000;
        let aged = EventsSince {
            xid: FullXid::from_u64(u64::MAX / 2),
            older: Some(OlderRows {
                at: PgTimestamp::from_micros(i64::MIN),
                by: AgeColumn::Column { number: 1_000, type_oid: u32::MAX, is_never_null: false },
            }),
        };
        let place = |oid| Place { oid: Oid::from_u32(oid), attached_by: Some(u32::MAX) };
        witness.since = Arc::new((from..u32::MAX).map(|oid| (place(oid), aged)).collect());
        witness.catalog.relations[0].partitions = (from..u32::MAX).rev().map(attached).collect();
        witness.catalog.relations.push(witness.catalog.relations[0].clone());
        let bytes = witness.encode();
        assert!(bytes.len() < 120 * TABLE_PARTITIONS_MAX, "{}", bytes.len());
        let Witness { catalog, since, .. } = Witness::decode(&bytes).unwrap();
        assert_eq!(since.len(), TABLE_PARTITIONS_MAX);
        assert!(since.contains_key(&place(u32::MAX - 1)));
        let read = catalog.relations;
        assert_eq!(read[0].partitions.len(), TABLE_PARTITIONS_MAX);
        assert_eq!(read[0].partitions[0].oid, Oid::from_u32(u32::MAX - 1));
        assert_eq!(read[1].partitions, []);
    }
}
