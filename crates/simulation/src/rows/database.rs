//! A server: transactions with savepoints, partitions, a publication, a slot, WAL.

use std::collections::{BTreeMap, BTreeSet};

use relay::{
    Lsn, Oid, PgTimestamp, TableName,
    delivered::{AgeColumn, EventPart, EventsSince, FullXid, PartitionLink, Place},
    source::{
        Catalog, CatalogRelation, FilterLabels, History, Inserts, NextRows, Partition, Partitions,
        Publication, PublishedTable, Storage, TableKind,
    },
};

use crate::xid;

/// A row, committed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Unique over all servers and histories.
    pub id: u64,
    /// The table that it was written for.
    pub table: usize,
    /// The table or partition that has it.
    pub part: u32,
    /// The transaction that wrote this version of it.
    pub xid: FullXid,
    /// The time that its first writer gave it, or the default of a column that was added later.
    pub time: u64,
    /// When that was.
    pub written: u64,
    /// Whether pgoutput sends it.
    pub is_published: bool,
}

/// Which snapshot the statements of a transaction see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// A new one for each statement.
    ReadCommitted,
    /// The one of its beginning, with these partitions, also after one was half detached.
    RepeatableRead(BTreeSet<u32>),
}

/// A transaction that runs.
#[derive(Debug, Clone)]
pub struct Running {
    /// Its own id, then those of its savepoints; none before it writes.
    pub ids: Vec<u64>,
    /// Its snapshot.
    pub isolation: Isolation,
    /// What it has written.
    pub rows: Vec<Row>,
    /// The tables that it has locked, until it ends.
    pub locks: BTreeSet<usize>,
    /// Partitions that it has made or attached: others see them when it commits.
    pub attaches: Vec<Part>,
    /// It survives its session.
    pub is_prepared: bool,
}

/// How a table belongs to an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// The outbox itself, or a partition of it.
    Attached,
    /// DETACH CONCURRENTLY has begun.
    Pending,
    /// A table of its own.
    Detached,
}

/// A place of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its OID.
    pub oid: u32,
    /// The outbox.
    pub table: usize,
    /// How it belongs to it.
    pub attachment: Attachment,
    /// What made it a partition; `None` for an outbox that has none.
    pub link: Option<PartitionLink>,
    /// A session keeps writers out.
    pub is_locked: bool,
}

impl Part {
    /// The same, attached by a transaction.
    #[must_use]
    pub fn attached(self, xid: u64) -> Self {
        let attached_by = FullXid::from_u64(xid).of_row();
        let link = PartitionLink { part: Oid::from_u32(self.oid), attached_by };
        Self { link: Some(link), attachment: Attachment::Attached, ..self }
    }

    /// As the witness names it.
    pub fn place(&self) -> Option<Place> {
        self.link.map(|link| Place::partition(link.part, link.attached_by.as_u32()))
    }
}

/// A transaction with events, in WAL.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Where its commit record begins.
    pub at: u64,
    /// Where it ends.
    pub end: u64,
    /// Its id.
    pub xid: u64,
    /// When it was, by a clock that no restored server turns back.
    pub clock: u64,
    /// What pgoutput sends of it.
    pub sent: Vec<Row>,
}

/// See [`Database::altering`].
#[derive(Debug, Clone)]
pub struct Altering {
    /// Its id.
    pub xid: u64,
    /// The entries that snapshots show meanwhile.
    pub shown: BTreeMap<usize, u64>,
}

/// A server.
#[derive(Debug, Clone)]
pub struct Database {
    /// Which one.
    pub history: History,
    /// The next transaction id.
    pub next_xid: u64,
    /// The end of WAL.
    pub wal: u64,
    /// The transactions that run.
    pub running: Vec<Running>,
    /// Committed rows.
    pub rows: Vec<Row>,
    /// What was committed since the server began, in order.
    pub log: Vec<Commit>,
    /// All places of rows.
    pub parts: Vec<Part>,
    /// The entries of the publication, by table: another one each time it is added.
    pub published: BTreeMap<usize, u64>,
    /// A transaction that alters the entries: its commit is in WAL, and no snapshot shows it, since
    /// it waits for a synchronous standby.
    pub altering: Option<Altering>,
    /// Its own row.
    pub publication: Publication,
    /// The slot's `confirmed_flush_lsn`.
    pub slot: Option<u64>,
    /// The time.
    pub clock: u64,
    /// The column with the times of the rows, by table: at every second step the same one, which
    /// may have no NULL any more.
    pub times: [i16; 2],
    next_oid: u32,
}

/// The partitioned outbox, and one that is not.
pub const PARTITIONED: usize = 0;
/// The one that joins and leaves.
pub const PLAIN: usize = 1;

/// The OID by which the witness names an outbox.
pub fn oid_of(table: usize) -> Oid {
    Oid::from_u32(u32::try_from(table).expect("few tables") + 10)
}

/// Its name.
pub fn name_of(table: usize) -> TableName {
    TableName { schema: "public".into(), name: format!("outbox_{table}") }
}

/// A time of the simulated clock.
pub fn time(clock: u64) -> PgTimestamp {
    PgTimestamp::from_micros(i64::try_from(clock).expect("a short run"))
}

impl Database {
    /// A server with two outboxes, of which one is published.
    pub fn new(first_xid: u64) -> Self {
        let mut database = Self {
            history: History { system_id: "1".to_owned(), timeline: 1 },
            next_xid: first_xid,
            wal: 100,
            running: Vec::new(),
            rows: Vec::new(),
            log: Vec::new(),
            parts: Vec::new(),
            published: BTreeMap::new(),
            altering: None,
            publication: Publication {
                oid: Oid::from_u32(9),
                written_by: 1,
                owner: Oid::from_u32(8),
                options: "insert".to_owned(),
                inserts: Inserts::Published,
                partitions: Partitions::ViaRoot,
                tables: Vec::new(),
            },
            slot: None,
            clock: 0,
            times: [5; 2],
            next_oid: 100,
        };
        database.assign();
        let plain = database.new_part(PLAIN);
        database.parts.push(plain);
        for _ in 0..3 {
            let xid = database.assign();
            let part = database.new_partition(xid);
            database.parts.push(part);
        }
        database.published.insert(PARTITIONED, 1);
        database
    }

    /// The column that gives the rows of a table their age.
    pub fn age(&self, table: usize) -> AgeColumn {
        let column = |step: &i16| AgeColumn::Column {
            number: step / 2,
            type_oid: 1_184,
            is_never_null: step % 2 == 1,
        };
        self.times.get(table).map_or(AgeColumn::Unknown, column)
    }

    /// A new id.
    pub fn assign(&mut self) -> u64 {
        xid::assign(&mut self.next_xid)
    }

    /// A place that nobody sees yet.
    pub fn new_part(&mut self, table: usize) -> Part {
        self.next_oid += 1;
        let attachment = Attachment::Attached;
        Part { oid: self.next_oid, table, attachment, link: None, is_locked: false }
    }

    /// A partition that this transaction makes.
    pub fn new_partition(&mut self, xid: u64) -> Part {
        let part = self.new_part(PARTITIONED);
        part.attached(xid)
    }

    /// Takes no OID that another server has given: the OIDs that are taken next are in WAL ahead of
    /// their use.
    pub fn pass_oids(&mut self, other: &Self) {
        self.next_oid = self.next_oid.max(other.next_oid);
    }

    /// The place with this OID.
    pub fn with_oid(&mut self, oid: u32) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.oid == oid)
    }

    /// Places of an outbox that statements reach through it.
    pub fn reached(&self, table: usize) -> impl Iterator<Item = &Part> {
        self.parts
            .iter()
            .filter(move |part| part.table == table && part.attachment == Attachment::Attached)
    }

    /// Whether rows get there by the outbox's name in this transaction.
    pub fn routes(&self, running: &Running, part: &Part) -> bool {
        match (&running.isolation, part.attachment) {
            (_, Attachment::Detached) => false,
            (_, Attachment::Attached) => true,
            (Isolation::ReadCommitted, Attachment::Pending) => false,
            // Its snapshot has the partition, and PostgreSQL does not leave it out there.
            (Isolation::RepeatableRead(seen), Attachment::Pending) => seen.contains(&part.oid),
        }
    }

    /// Whether pgoutput finds the outbox of a row that is written there now.
    pub fn publishes(&self, part: &Part) -> bool {
        self.slot.is_some()
            && self.publication.inserts == Inserts::Published
            && self.published.contains_key(&part.table)
            && part.attachment == Attachment::Attached
    }

    /// Ends a transaction: its rows are there, and its commit in WAL.
    pub fn commit(&mut self, index: usize) {
        let Running { ids, rows, attaches, .. } = self.running.remove(index);
        self.parts.extend(attaches);
        let Some(xid) = ids.first().copied() else { return };
        let at = self.wal;
        self.wal += 10;
        let sent: Vec<Row> = rows.iter().copied().filter(|row| row.is_published).collect();
        if !sent.is_empty() {
            let (end, clock) = (self.wal, self.clock);
            self.log.push(Commit { at, end, xid, clock, sent });
        }
        self.rows.extend(rows);
    }

    /// `pg_snapshot_xmin(pg_current_snapshot())`.
    pub fn snapshot_xmin(&self) -> u64 {
        let tops = self.running.iter().filter_map(|running| running.ids.first());
        let altering = self.altering.as_ref().map(|altering| &altering.xid);
        tops.chain(altering).copied().min().unwrap_or(self.next_xid)
    }

    /// Where the events of an outbox are, as `retention/events.rs` reads it.
    pub fn event_parts(
        &self,
        table: usize,
        known: &BTreeMap<Place, EventsSince>,
    ) -> Option<Vec<EventPart>> {
        let outbox = EventPart::table(oid_of(table), known)?;
        let part = |part: &Part| match part.link {
            None => Some(EventPart { oid: Oid::from_u32(part.oid), ..outbox.clone() }),
            Some(link) => outbox.partition(link.part, vec![link], known),
        };
        Some(self.reached(table).filter_map(part).collect())
    }

    /// What a reading of the catalog shows.
    pub fn catalog(&self) -> Catalog {
        let has_rows = |part: &Part| {
            let written = self.running.iter().flat_map(|running| &running.rows);
            self.rows.iter().chain(written).any(|row| row.part == part.oid)
        };
        let relation = |table: usize| {
            let partitions = self.reached(table).filter_map(|part| {
                let Place { oid, attached_by } = part.place()?;
                Some(Partition {
                    oid,
                    name: None,
                    attached_by: attached_by?,
                    storage: Storage::default(),
                })
            });
            let partitions = partitions.collect();
            CatalogRelation {
                oid: oid_of(table),
                name: name_of(table),
                named_by: None,
                formerly: Vec::new(),
                kind: TableKind::Plain,
                columns: Vec::new(),
                age: self.age(table),
                generated: Vec::new(),
                children: Vec::new(),
                partitions,
                storage: Storage::default(),
            }
        };
        let tables = [PARTITIONED, PLAIN];
        let empty_parts = self.parts.iter().filter(|part| !has_rows(part));
        let empty_tables = tables.iter().filter(|table| !self.reached(**table).any(has_rows));
        let empty = (empty_parts.map(|part| Oid::from_u32(part.oid)))
            .chain(empty_tables.map(|table| oid_of(*table)))
            .collect();
        let (xid, at) = (FullXid::from_u64(self.next_xid), time(self.clock));
        let next = Some(NextRows { xid, at, empty });
        let altering = self.altering.as_ref();
        let shown = altering.map_or(&self.published, |altering| &altering.shown);
        let published = shown.iter().map(|(table, entry)| PublishedTable {
            oid: oid_of(*table),
            name: name_of(*table),
            kind: TableKind::Plain,
            columns: Vec::new(),
            row_filter: None,
            entry: u32::try_from(*entry).ok().map(Oid::from_u32),
            schema_entry: None,
        });
        let tables_published = published.collect();
        let publication = Publication { tables: tables_published, ..self.publication.clone() };
        let (publication, relations) = (Some(publication), tables.map(relation).into());
        let altering = altering.map(|altering| FullXid::from_u64(altering.xid).of_row());
        Catalog { publication, relations, next, altering, labels: FilterLabels::default() }
    }

    /// The slot's position.
    pub fn slot_at(&self) -> Option<Lsn> {
        self.slot.map(Lsn::from_u64)
    }
}
