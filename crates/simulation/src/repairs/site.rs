//! Server, Kafka and configuration, as routers and commands see them.

use relay::{
    Lsn, Oid, OutboxTable, Outboxes, PgTimestamp, TableName,
    delivered::{FullXid, compared::TimeColumn},
    source::{
        Catalog, Expectations, Gap, Partition, PositionCheck, Present, Server, SlotHealth,
        SlotReading, Storage, TimelineHistory, WalStatus, gaps_since,
    },
    testing::{Source, samples},
    witness::Witness,
    wording,
};

use super::{
    database::{Database, PARTITIONED, TABLES},
    pipeline::Pipeline,
    slot::Holder,
};
use crate::random::Random;

/// The slot's name.
pub const SLOT: &str = "s";
const PUBLICATION: &str = "p";
/// When a run begins, in seconds since 1970: 2026-01-05.
pub const BEGIN: i64 = 1_767_571_200;

/// What the ids of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// Random, and a unique index is on them.
    Uuids,
    /// Of requests, of which one may cause several events: uuids without a unique index.
    Requests,
    /// Those of a sequence, which each table has.
    Numbers,
}

/// A table.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Its ids.
    pub ids: Ids,
    /// The column that says when a row was made.
    pub time: Option<TimeColumn>,
    /// The first of the two topics to which its rows go.
    pub first_topic: u8,
}

/// The configuration.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The tables.
    pub shapes: [Shape; TABLES],
    /// Their names.
    pub names: Vec<TableName>,
    /// As the core has it.
    pub outboxes: Outboxes,
    /// Rows that cannot become a record are held; else the router stops at the first.
    pub has_dead_letters: bool,
}

/// What was read of the server.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The server.
    pub server: Server,
    /// Its timelines.
    pub timelines: TimelineHistory,
    /// The slot.
    pub slot: SlotReading,
    /// Publication and tables.
    pub catalog: Catalog,
}

/// Everything but the actors.
#[derive(Debug)]
pub struct Site {
    /// The server.
    pub database: Database,
    /// Router and topics.
    pub pipeline: Pipeline,
    /// The configuration.
    pub setup: Setup,
    /// The clock of all of them, in seconds since 1970.
    pub clock: i64,
}

/// A moment as PostgreSQL prints it.
pub fn printed(seconds: i64) -> String {
    wording::utc(PgTimestamp::from_unix_micros(seconds * 1_000_000)).expect("a time of 2026")
}

/// The moment that [`printed`] has printed. A run lasts less than January.
pub fn seconds(printed: &str) -> i64 {
    let field = |at: usize| -> i64 { printed[at..at + 2].parse().expect("two digits") };
    BEGIN + (field(8) - 5) * 86_400 + field(11) * 3_600 + field(14) * 60 + field(17)
}

impl Setup {
    /// One of the configurations.
    pub fn chosen(random: &mut Random) -> Self {
        let names: Vec<TableName> = ["a", "b"]
            .map(|name| TableName { schema: "public".to_owned(), name: name.to_owned() })
            .into();
        let shares_a_topic = random.one_in(2);
        let ids = [Ids::Uuids, Ids::Requests, Ids::Numbers];
        let same = ids[random.index(3)];
        let mut shape = |first_topic| {
            let times = [
                None,
                Some(TimeColumn::Zoned),
                Some(TimeColumn::Unzoned),
                Some(TimeColumn::Unzoned),
                Some(TimeColumn::Day),
            ];
            let ids = if random.one_in(3) { Ids::Uuids } else { same };
            Shape { ids, time: times[random.index(5)], first_topic }
        };
        let shapes = [shape(0), shape(if shares_a_topic { 1 } else { 2 })];
        let tables = names.iter().cloned().map(OutboxTable::with_defaults).collect();
        let outboxes = Outboxes { tables, ..Outboxes::default() };
        Self { shapes, names, outboxes, has_dead_letters: random.one_in(2) }
    }

    /// Whether rows of two tables may be in one topic.
    pub const fn shares_a_topic(&self) -> bool {
        self.shapes[1].first_topic < 2
    }

    /// What a stream expects.
    pub const fn expected<'a>(&'a self, witness: Option<&'a Witness>) -> Expectations<'a> {
        Expectations {
            slot: SLOT,
            publication: PUBLICATION,
            outboxes: &self.outboxes,
            witness,
            position_check: PositionCheck::Compared,
        }
    }
}

impl Site {
    /// Reads the server. A slot that `ignored` holds counts as free.
    pub fn read(&self, ignored: Option<Holder>) -> Reading {
        let Database { history, timelines, wal, .. } = &self.database;
        let columns = [("id", 1), ("payload", 2)];
        let source = Source {
            others: vec![(self.setup.names[1].clone(), 11)],
            wal_end: *wal,
            ..Source::of("a", 10, &columns)
        };
        let mut catalog = source.catalog();
        catalog.relations[PARTITIONED].partitions = partitions(&self.database);
        if let Some(publication) = &mut catalog.publication {
            let tables = std::mem::take(&mut publication.tables);
            for (number, mut table) in tables.into_iter().enumerate() {
                if let Some(entry) = self.database.entries.get(&number) {
                    table.entry = Some(Oid::from_u32(*entry));
                    publication.tables.push(table);
                }
            }
        }
        let at = |(timeline, at): &(u32, u64)| format!("{timeline}\t{}\tx\n", Lsn::from_u64(*at));
        let timelines: String = timelines.iter().map(at).collect();
        Reading {
            server: Server {
                history: history.clone(),
                note_writes: Some(self.database.note_writes),
                ..source.server()
            },
            timelines: TimelineHistory::parse(&timelines).expect("a history file"),
            slot: SlotReading {
                current_wal_lsn: Lsn::from_u64(*wal),
                at: printed(self.clock),
                clock_micros: self.clock * 1_000_000,
                next_xid: Some(FullXid::from_u64(self.database.next_xid)),
                database: "shop".to_owned(),
                slot: self.slot(ignored),
            },
            catalog,
        }
    }

    fn slot(&self, ignored: Option<Holder>) -> Option<SlotHealth> {
        let slot = self.database.slot?;
        let holder = slot.holder.filter(|holder| Some(*holder) != ignored);
        Some(SlotHealth {
            current_wal_lsn: Lsn::from_u64(self.database.wal),
            confirmed_flush_lsn: Some(Lsn::from_u64(slot.confirmed)),
            restart_lsn: (!slot.is_lost).then_some(Lsn::from_u64(slot.confirmed)),
            catalog_xmin: Some(FullXid::from_u64(slot.catalog_xmin)),
            wal_status: if slot.is_lost { WalStatus::Lost } else { WalStatus::Reserved },
            active_pid: holder.map(|_| 7),
            ..samples::slot()
        })
    }

    /// Whether the publication has every table.
    pub fn is_published(&self) -> bool {
        (0..TABLES).all(|table| self.database.entries.contains_key(&table))
    }

    /// Every gap that a router would find if it continued from this witness now.
    pub fn gaps(&self, witness: &Witness, reading: &Reading) -> Vec<Gap> {
        let present = Present {
            cluster: "k",
            server: reading.server.clone(),
            timelines: &reading.timelines,
            reading: &reading.slot,
            catalog: reading.catalog.clone(),
            held: None,
        };
        gaps_since(witness, self.setup.expected(Some(witness)), present)
    }
}

/// The same reading, and the partitions that a snapshot shows:
/// `monitor::catalog::with_partitions_of_snapshot`.
pub fn with_partitions_of(snapshot: &Database, mut catalog: Catalog) -> Catalog {
    let known = &mut catalog.relations[PARTITIONED].partitions;
    let shown = partitions(snapshot).into_iter().filter(|shown| !known.contains(shown));
    let shown: Vec<Partition> = shown.collect();
    known.extend(shown);
    catalog
}

fn partitions(database: &Database) -> Vec<Partition> {
    let partition = |(oid, by): (&u32, &u32)| {
        let (oid, storage) = (Oid::from_u32(*oid), Storage::default());
        Partition { oid, name: None, attached_by: *by, storage }
    };
    database.parts.iter().map(partition).collect()
}
