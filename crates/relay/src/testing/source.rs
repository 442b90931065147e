//! A server that is as it must be, for tests that want a stream and nothing else.

use pgoutput::{Lsn, Oid};

use crate::{
    Action, Input, TableName,
    source::{
        Catalog, Encoding, Inserts, Kind, Partitions, Publication, PublishedTable, Relation,
        Server, SlotHealth, SlotKind, SlotLook, WalStatus,
    },
    witness::History,
};

/// One slot, one publication, one table.
#[derive(Debug, Clone)]
pub struct Source {
    /// The table.
    pub table: TableName,
    /// Its OID.
    pub oid: u32,
    /// Its columns.
    pub columns: Vec<String>,
    /// Where the slot stands.
    pub slot_at: u64,
    /// Where its WAL ends.
    pub wal_end: u64,
}

impl Source {
    /// A table of the schema `public`.
    pub fn of(table: &str, oid: u32, columns: &[(&str, u32)]) -> Self {
        Self {
            table: TableName { schema: "public".to_owned(), name: table.to_owned() },
            oid,
            columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            slot_at: 0,
            wal_end: u64::MAX,
        }
    }

    /// The answer to what a connection attempt asks for; `None` for every other action.
    pub fn answer(&self, action: &Action) -> Option<Input<'static>> {
        match action {
            Action::Connect => Some(Input::Opened(self.server())),
            Action::ReadSlot => Some(Input::Slot(self.look())),
            Action::ReadCatalog(_) => Some(Input::Catalog(self.catalog())),
            Action::StartReplication => Some(Input::Connected),
            Action::ReadState
            | Action::WriteState(_)
            | Action::ReadTimelines(_)
            | Action::WatchSlot
            | Action::Disconnect
            | Action::Status(_)
            | Action::CopyDone
            | Action::ReplaceSink
            | Action::LookUpTopic(..)
            | Action::Exit(_) => None,
        }
    }

    /// Who it is.
    pub fn server(&self) -> Server {
        Server {
            version: 18_00_01,
            encoding: Encoding::Known("UTF8".to_owned()),
            history: History { system_id: "1".to_owned(), timeline: 1 },
            wal_end: Lsn::from_u64(self.wal_end),
        }
    }

    /// Its slot.
    pub fn look(&self) -> SlotLook {
        let current_wal_lsn = Lsn::from_u64(self.wal_end);
        let slot = SlotHealth {
            current_wal_lsn,
            confirmed_flush_lsn: Some(Lsn::from_u64(self.slot_at)),
            restart_lsn: Some(Lsn::from_u64(self.slot_at)),
            safe_wal_bytes: None,
            wal_status: WalStatus::Reserved,
            active_pid: None,
            plugin: Some("pgoutput".to_owned()),
            database: Some("shop".to_owned()),
            kind: SlotKind::Logical,
            peculiarity: None,
            failover: None,
            synced: None,
            invalidation_reason: None,
            inactive_since: None,
        };
        let (at, database) = (String::new(), "shop".to_owned());
        SlotLook { current_wal_lsn, at, database, slot: Some(slot) }
    }

    /// Its publication.
    pub fn catalog(&self) -> Catalog {
        let (oid, name) = (Oid::from_u32(self.oid), self.table.clone());
        let published = PublishedTable {
            oid,
            name: name.clone(),
            kind: Kind::Plain,
            entry: Some(Oid::from_u32(self.oid + 1)),
            row_filter: None,
            columns: self.columns.clone(),
        };
        let publication = Publication {
            oid: Oid::from_u32(1),
            written_by: 1,
            inserts: Inserts::Published,
            partitions: Partitions::ViaRoot,
            tables: vec![published],
        };
        let (columns, generated) = (self.columns.clone(), Vec::new());
        let relation = Relation { oid, name, kind: Kind::Plain, columns, generated };
        Catalog { publication: Some(publication), relations: vec![relation] }
    }
}
