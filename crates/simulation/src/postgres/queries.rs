//! The server as SQL queries show it.

use relay::{
    DEFAULT, FilterKind, Lsn, OutboxTable, Outboxes, RowFilter, TableName,
    delivered::AgeColumn,
    source::{
        Catalog, CatalogRelation, FilterLabels, Inserts, Oid, Partition, Partitions, Publication,
        PublishedTable, SchemaEntry, Server, ServerEncoding, SlotHealth, SlotReading, Storage,
        TableKind, WalStatus,
    },
    testing::samples,
};

use super::{SimulatedPostgres, rows};
use crate::{history::PublicationState, plan::VersionGroup};

/// The slot's name.
pub const SLOT: &str = "outbox";
pub use super::publication::PUBLICATION;
const OWNER_OID: u32 = 10;
const SCHEMA_ENTRY_OID: u32 = 16_399;
/// The database.
pub const DATABASE: &str = "shop";

/// The outbox table's name.
pub fn table() -> TableName {
    TableName { schema: "public".to_owned(), name: "outbox".to_owned() }
}

/// The outbox tables that the routers are configured with. With servers of one group the
/// configuration leaves out some rows, which are mapped then; with the others no row is.
pub fn outboxes(version: VersionGroup) -> Outboxes {
    let filter = RowFilter {
        column: "event_type".to_owned(),
        values: vec![rows::SKIPPED.to_owned()],
        kind: FilterKind::NotIn,
    };
    let table = OutboxTable {
        preset: Some(&DEFAULT),
        filter: version.has_skipped_rows().then_some(filter),
        ..OutboxTable::with_defaults(table())
    };
    Outboxes { tables: vec![table], ..Outboxes::default() }
}

impl SimulatedPostgres {
    /// The result of reading `pg_replication_slots`.
    pub fn read_slot(&self) -> SlotReading {
        let current_wal_lsn = Lsn::from_u64(self.history.end_of_wal);
        let slot = self.slot.map(|slot| SlotHealth {
            current_wal_lsn,
            confirmed_flush_lsn: Some(Lsn::from_u64(slot.confirmed)),
            restart_lsn: (!slot.is_lost).then(|| Lsn::from_u64(slot.saved)),
            wal_status: if slot.is_lost { WalStatus::Lost } else { WalStatus::Reserved },
            active_pid: self.holder().and_then(|holder| i32::try_from(holder.id).ok()),
            database: Some(DATABASE.to_owned()),
            ..samples::slot()
        });
        SlotReading {
            current_wal_lsn,
            at: String::new(),
            clock_micros: self.history.clock,
            next_xid: None,
            database: DATABASE.to_owned(),
            slot,
        }
    }

    /// The result of reading publication and tables.
    pub fn read_catalog(&self) -> Catalog {
        let columns = rows::names(self.catalog.shape);
        let oid = Oid::from_u32(rows::OUTBOX);
        let name = rows::table_name(self.catalog.name).to_owned();
        let name = TableName { schema: "public".to_owned(), name };
        // FOR TABLES IN SCHEMA: what leaves the publication and comes back is the table, not its
        // entry.
        let is_by_schema = self.version == VersionGroup::V18;
        let published = PublishedTable {
            oid,
            name: name.clone(),
            kind: TableKind::Plain,
            entry: (!is_by_schema).then(|| Oid::from_u32(self.entry_oid)),
            schema_entry: is_by_schema.then(|| SchemaEntry {
                entry: Oid::from_u32(SCHEMA_ENTRY_OID),
                placed_by: self.entry_oid,
            }),
            row_filter: None,
            columns: columns.clone(),
        };
        let publication =
            (self.catalog.publication != PublicationState::Missing).then(|| Publication {
                oid: Oid::from_u32(self.publication_oid),
                written_by: self.altered_by,
                owner: Oid::from_u32(OWNER_OID),
                options: String::new(),
                inserts: match self.catalog.publication {
                    PublicationState::WithoutInserts => Inserts::Withheld,
                    PublicationState::Complete
                    | PublicationState::WithoutTable
                    | PublicationState::Missing => Inserts::Published,
                },
                partitions: Partitions::ViaRoot,
                tables: (self.catalog.publication != PublicationState::WithoutTable)
                    .then_some(published)
                    .into_iter()
                    .collect(),
            });
        let relation = CatalogRelation {
            oid,
            name,
            named_by: None,
            formerly: Vec::new(),
            kind: TableKind::Plain,
            columns,
            age: AgeColumn::Unknown,
            generated: Vec::new(),
            children: Vec::new(),
            partitions: vec![Partition {
                oid: Oid::from_u32(rows::PARTITION),
                name: None,
                attached_by: 700,
                storage: Storage::default(),
            }],
            storage: Storage::default(),
        };
        Catalog {
            publication,
            relations: vec![relation],
            next: None,
            altering: None,
            labels: FilterLabels::default(),
        }
    }

    /// What identifies the server.
    pub fn server(&self) -> Server {
        let version = match self.version {
            VersionGroup::V13To14 => 14_00_10,
            VersionGroup::V15To17 => 17_00_05,
            VersionGroup::V18 => 18_00_01,
        };
        Server {
            version,
            encoding: ServerEncoding::Known("UTF8".to_owned()),
            history: self.identity.clone(),
            wal_end: Lsn::from_u64(self.history.end_of_wal),
            note_writes: None,
        }
    }
}
