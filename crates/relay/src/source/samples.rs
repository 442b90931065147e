//! A server and a publication without defects, of which each test changes one thing.

use pgoutput::{Lsn, Oid};

use super::{
    Catalog, CatalogRelation, FilterLabels, Inserts, Partitions, Publication, PublishedTable,
    Server, ServerEncoding, SlotHealth, SlotReading, Storage, TableKind,
};
use crate::{delivered::AgeColumn, routing::table::TableName, source::History};

/// Cluster 1, on its first timeline, WAL up to 100 MiB.
pub(crate) fn server() -> Server {
    Server {
        version: 18_00_01,
        encoding: ServerEncoding::Known("UTF8".to_owned()),
        history: History { system_id: "1".to_owned(), timeline: 1 },
        wal_end: Lsn::from_u64(100 << 20),
        note_writes: Some(0),
    }
}

/// What is seen when that is the slot.
pub(crate) fn reading(slot: Option<SlotHealth>) -> SlotReading {
    SlotReading {
        current_wal_lsn: Lsn::from_u64(100 << 20),
        at: "2026-01-01T00:00:00Z".to_owned(),
        clock_micros: 0,
        next_xid: None,
        database: "shop".to_owned(),
        slot,
    }
}

pub(crate) fn name(name: &str) -> TableName {
    TableName { schema: "public".to_owned(), name: name.to_owned() }
}

pub(crate) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

const COLUMNS: [&str; 5] = ["id", "aggregate_type", "aggregate_id", "event_type", "payload"];

pub(crate) fn relation(oid: u32, called: &str) -> CatalogRelation {
    CatalogRelation {
        oid: Oid::from_u32(oid),
        name: name(called),
        named_by: Some(700),
        formerly: Vec::new(),
        kind: TableKind::Plain,
        columns: texts(&COLUMNS),
        age: AgeColumn::Unknown,
        generated: Vec::new(),
        children: Vec::new(),
        partitions: Vec::new(),
        storage: Storage::default(),
    }
}

pub(crate) fn published(oid: u32, called: &str) -> PublishedTable {
    PublishedTable {
        oid: Oid::from_u32(oid),
        name: name(called),
        kind: TableKind::Plain,
        entry: Some(Oid::from_u32(100 + oid)),
        schema_entry: None,
        row_filter: None,
        columns: texts(&COLUMNS),
    }
}

/// A publication with one table, as `setup` makes it: publication 1, table 10.
pub(crate) fn healthy() -> Catalog {
    Catalog {
        publication: Some(Publication {
            oid: Oid::from_u32(1),
            written_by: 700,
            owner: Oid::from_u32(16_384),
            options: "publish = 'insert'".to_owned(),
            inserts: Inserts::Published,
            partitions: Partitions::ViaRoot,
            tables: vec![published(10, "outbox")],
        }),
        next: None,
        altering: None,
        labels: FilterLabels::default(),
        relations: vec![relation(10, "outbox")],
    }
}
