//! A server without defects, for tests that need only a stream.

use pgoutput::{Lsn, Oid};

use super::{held_table::HeldTable, samples};
use crate::{
    Action, Input, TableName,
    delivered::AgeColumn,
    held::HeldAnswer,
    source::{
        Catalog, CatalogRelation, FilterLabels, History, Inserts, Partitions, Publication,
        PublishedTable, Server, ServerEncoding, SlotHealth, SlotReading, Storage, TableKind,
    },
};

/// A server with one slot, one publication, and one table or several alike.
#[derive(Debug, Clone)]
pub struct Source {
    /// The table.
    pub table: TableName,
    /// Its OID.
    pub oid: u32,
    /// Further tables, with their OIDs.
    pub others: Vec<(TableName, u32)>,
    /// The columns of all tables.
    pub columns: Vec<String>,
    /// Where the slot stands.
    pub slot_at: u64,
    /// Where its WAL ends.
    pub wal_end: u64,
    /// The labels of enums that it reports.
    pub labels: FilterLabels,
    /// Whether the connection that asks streams from the slot.
    pub is_streaming: bool,
    /// The table of held events, if there is one.
    pub held: Option<HeldTable>,
    /// Its clock, which advances with every action that is answered.
    pub clock_micros: i64,
}

/// The walsender's pid.
const WALSENDER: i32 = 4711;

impl Source {
    /// A table of the schema `public`.
    pub fn of(table: &str, oid: u32, columns: &[(&str, u32)]) -> Self {
        Self {
            table: TableName { schema: "public".to_owned(), name: table.to_owned() },
            oid,
            others: Vec::new(),
            columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            slot_at: 0,
            wal_end: u64::MAX,
            labels: FilterLabels::default(),
            is_streaming: false,
            held: None,
            clock_micros: 0,
        }
    }

    /// The answer to an action of a connection attempt; `None` for every other action.
    pub fn answer(&mut self, action: &Action) -> Option<Input<'static>> {
        self.clock_micros += 1;
        if matches!(action, Action::Connect | Action::StartReplication(_)) {
            self.is_streaming = matches!(action, Action::StartReplication(_));
        }
        match action {
            Action::Held(number, request) => {
                let answer = match &mut self.held {
                    Some(table) => table.answer(request.clone()),
                    None => HeldAnswer::Absent,
                };
                Some(Input::Held(*number, Ok(answer)))
            }
            Action::Connect => Some(Input::Connected(self.server())),
            Action::ReadSlot => Some(Input::Slot(self.slot_reading())),
            Action::ReadCatalog(_) => Some(Input::Catalog(self.catalog())),
            Action::StartReplication(_) => Some(Input::ReplicationStarted(Some(WALSENDER))),
            Action::ReadStateTopic(_)
            | Action::CheckStateTopic(_)
            | Action::WriteStateTopic(_)
            | Action::ReadTimelines(_)
            | Action::WatchSlot
            | Action::Disconnect
            | Action::Status(_)
            | Action::CopyDone
            | Action::ReplaceSink { .. }
            | Action::LookUpTopic(..)
            | Action::Exit(_) => None,
        }
    }

    /// What the server answers about itself.
    pub fn server(&self) -> Server {
        Server {
            version: 18_00_01,
            encoding: ServerEncoding::Known("UTF8".to_owned()),
            history: History { system_id: "1".to_owned(), timeline: 1 },
            wal_end: Lsn::from_u64(self.wal_end),
            note_writes: None,
        }
    }

    /// What a reading of its slot shows.
    pub fn slot_reading(&self) -> SlotReading {
        let current_wal_lsn = Lsn::from_u64(self.wal_end);
        let slot = SlotHealth {
            current_wal_lsn,
            confirmed_flush_lsn: Some(Lsn::from_u64(self.slot_at)),
            restart_lsn: Some(Lsn::from_u64(self.slot_at)),
            active_pid: self.is_streaming.then_some(WALSENDER),
            ..samples::slot()
        };
        SlotReading {
            current_wal_lsn,
            at: String::new(),
            clock_micros: self.clock_micros,
            next_xid: None,
            database: "shop".to_owned(),
            slot: Some(slot),
        }
    }

    /// What a reading of its catalog shows.
    pub fn catalog(&self) -> Catalog {
        let tables = [(self.table.clone(), self.oid)].into_iter().chain(self.others.clone());
        let (published, relations) = tables.map(|(name, oid)| self.table(name, oid)).unzip();
        let publication = Publication {
            oid: Oid::from_u32(1),
            written_by: 1,
            owner: Oid::from_u32(10),
            options: String::new(),
            inserts: Inserts::Published,
            partitions: Partitions::ViaRoot,
            tables: published,
        };
        Catalog {
            publication: Some(publication),
            relations,
            next: None,
            altering: None,
            labels: self.labels.clone(),
        }
    }

    fn table(&self, name: TableName, oid: u32) -> (PublishedTable, CatalogRelation) {
        let published = PublishedTable {
            oid: Oid::from_u32(oid),
            name: name.clone(),
            kind: TableKind::Plain,
            entry: Some(Oid::from_u32(oid + 1)),
            schema_entry: None,
            row_filter: None,
            columns: self.columns.clone(),
        };
        let relation = CatalogRelation {
            oid: Oid::from_u32(oid),
            name,
            named_by: None,
            formerly: Vec::new(),
            kind: TableKind::Plain,
            columns: self.columns.clone(),
            age: AgeColumn::Unknown,
            generated: Vec::new(),
            children: Vec::new(),
            partitions: Vec::new(),
            storage: Storage::default(),
        };
        (published, relation)
    }
}
