//! The fields of a pipeline's record, how two records compare, and how a gap enters a record.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use pgoutput::{Lsn, Oid, Xid};

use super::{KnownTopic, LostTopic};
use crate::{
    delivered::{AgeColumn, EventsSince, Horizon, Place},
    held::TableMark,
    progress::LastTransaction,
    routing::table::TableName,
    source::{
        Catalog, CatalogRelation, Gap, History, Mark, ServerMoment, publication::altered_tables,
    },
    wording,
};

/// One record of a pipeline, or the witness that its records make together; see [`super`] for what
/// it shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Witness {
    /// Incremented when a gap opens, when a person accepts a gap, and when a session is on a server
    /// that stands before the last holder's moment. A promotion increments nothing: several may
    /// come before a record is in Kafka, and a late write must not outrank what follows them.
    pub generation: u64,
    /// When this witness's writer last checked who holds the slot: a session, that its own
    /// walsender does; a command, that nobody does. A slot has one holder at a time.
    pub held: Option<ServerMoment>,
    /// The server's history; `None` when a gap was found before any server was identified.
    pub history: Option<History>,
    /// Kafka's cluster id.
    pub cluster: String,
    /// Every event whose commit record begins before this position is acknowledged.
    pub position: Lsn,
    /// The last transaction with events before that position. `None` when none was seen since the
    /// pipeline began, or since an acceptance after which it no longer holds.
    pub last: Option<LastTransaction>,
    /// The transactions that had ended before a position of the slot, as of `checked`.
    pub horizon: Option<Horizon>,
    /// When slot and publication were last found free of defects: the server's clock, and the end
    /// of WAL then.
    pub checked: Option<Mark>,
    /// Partition counts of the topics in use, by topic.
    pub partitions: BTreeMap<String, i32>,
    /// The topics that the pipeline has produced to, by name; as many as [`Self::partitions`].
    pub topics: BTreeMap<String, KnownTopic>,
    /// Topics that were deleted after the pipeline had produced to them, until a person accepts
    /// that.
    pub lost_topics: Vec<LostTopic>,
    /// Publication and outbox tables as they were at the moment of `checked`.
    pub catalog: Catalog,
    /// The tables whose rows are events.
    pub tables: Vec<Oid>,
    /// By OID, tables that became outboxes after the pipeline began, with the position from which
    /// on their rows are events.
    pub added: BTreeMap<u32, Lsn>,
    /// From where on the rows of outboxes and of their partitions are events: slot and publication
    /// were as they must be, and the partition was one.
    pub since: Arc<BTreeMap<Place, EventsSince>>,
    /// By OID, tables that were outboxes until a person accepted that other tables have taken their
    /// names.
    pub former: BTreeMap<u32, Former>,
    /// By OID, partitions of outboxes that were detached or dropped since, until their rows are
    /// acknowledged.
    pub detached: BTreeMap<u32, Detached>,
    /// Gaps that no person has accepted yet.
    pub gaps: Vec<Gap>,
    /// What persons have accepted, the latest last; at most [`ACCEPTED_MAX`].
    pub accepted: Vec<Acceptance>,
    /// The table of held events that the position relies on; without a version if nothing was
    /// written to it, or since an acceptance after which the next session's table is the measure.
    pub held_table: TableMark,
    /// The database's notes of rows that are in no topic, on which this position relies.
    pub notes: Notes,
    /// Where the pipeline began without a witness, until a person accepts that: nothing says
    /// whether earlier rows were produced.
    pub began_without: Option<Mark>,
}

/// The database's notes of rows that are in no topic: rows that were left out of what was sent, or
/// skipped. Which rows they are, tables of the database alone say. A server that was taken back
/// without a note would let such a row count as sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notes {
    /// Whether rows were left out (`outbox_router.left_out`): that table is there then.
    pub any_left_out: bool,
    /// A position that WAL was flushed to when the database had the notes: a server that was
    /// promoted without that WAL may lack some. Zero where this is not known.
    pub by: Lsn,
    /// How often notes had been written (`outbox_router.note_version`). Zero where this is not
    /// known: an earlier version did not count.
    pub writes: u64,
}

impl Notes {
    /// These and those of another record of the same generation. Notes are added, never taken back.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            any_left_out: self.any_left_out || other.any_left_out,
            by: self.by.max(other.by),
            writes: self.writes.max(other.writes),
        }
    }

    /// The same on a server of another history, where positions and numbers are others.
    pub(super) fn elsewhere(self) -> Self {
        Self { any_left_out: self.any_left_out, ..Self::default() }
    }
}

/// A table whose name another table has taken. It may have been renamed long before, and its rows
/// were still produced; so the slot may have many of its rows under another name than the
/// configured one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Former {
    /// The configured name under which its rows were events.
    pub table: TableName,
    /// The table that took the name. Rows of the former table are routed by this table's
    /// configuration, even if it was renamed since.
    pub successor: Oid,
    /// The end of WAL when that was accepted: the former table's rows before it are events.
    pub until: Lsn,
}

/// A partition that a reading of the catalog had, and a later one has not. The slot may still have
/// its rows, which no comparison of the table with records finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detached {
    /// The table whose partition it was.
    pub root: Oid,
    /// The end of WAL after it was gone: rows that it had as a partition come before. `None`: the
    /// next reading shows it, since the end of WAL is read before the catalog.
    pub until: Option<Lsn>,
}

/// A gap that a person has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// The gap's code, or the code of what was accepted besides gaps.
    pub code: String,
    /// Where the gap begins.
    pub lsn: Lsn,
    /// Who accepted it.
    pub by: String,
    /// When, by the server's clock, in UTC, ISO 8601.
    pub at: String,
    /// The generation that the acceptance began, or, of an accepted beginning, the one it belongs
    /// to.
    pub generation: u64,
    /// What was sent before; `None` where a person gave the rows up, or sent them by other means.
    pub recovered: Option<Recovered>,
}

/// What was sent of the rows of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Rows that were in no topic.
    pub rows: u64,
    /// Records that were sent for them.
    pub records: u64,
}

/// What decides which of a pipeline's records counts: generation, timeline, the moment at which its
/// writer held the slot, and position.
pub(super) type Rank = (u64, Option<u32>, Option<ServerMoment>, Lsn);

/// How many acceptances a record keeps.
pub const ACCEPTED_MAX: usize = 20;
/// How many topics' partition counts a record keeps. The record is written often, so it stays
/// small.
pub(super) const PARTITIONS_MAX: usize = 500;

impl Witness {
    /// A record that has a position and nothing else.
    #[must_use]
    pub fn at(position: Lsn) -> Self {
        Self {
            generation: 1,
            held: None,
            history: None,
            cluster: String::new(),
            position,
            last: None,
            horizon: None,
            checked: None,
            partitions: BTreeMap::new(),
            topics: BTreeMap::new(),
            lost_topics: Vec::new(),
            catalog: Catalog::default(),
            tables: Vec::new(),
            added: BTreeMap::new(),
            since: Arc::default(),
            former: BTreeMap::new(),
            detached: BTreeMap::new(),
            gaps: Vec::new(),
            accepted: Vec::new(),
            held_table: TableMark::default(),
            notes: Notes::default(),
            began_without: None,
        }
    }

    /// The position, with a time by the server's clock up to which everything is acknowledged.
    pub fn mark(&self) -> Mark {
        Mark { lsn: self.position, at: self.acknowledged_at() }
    }

    /// The time of the last reading of the source, if everything up to then is acknowledged. In a
    /// backlog it is not; then the commit time of the last transaction.
    fn acknowledged_at(&self) -> Option<String> {
        let checked = self.checked.as_ref().filter(|checked| checked.lsn <= self.position);
        let looked_at = checked.and_then(|checked| checked.at.clone());
        looked_at.or_else(|| wording::utc(self.last?.committed_at))
    }

    /// The tables whose rows behind the position are events, whatever a configuration names. Of a
    /// table whose name another one has taken, the slot may have passed the last.
    pub(crate) fn outboxes(&self) -> impl Iterator<Item = Oid> {
        let is_passed = |oid: &Oid| {
            let former = self.former.get(&oid.as_u32());
            former.is_some_and(|former| former.until <= self.position)
        };
        self.tables.iter().copied().filter(move |oid| !is_passed(oid))
    }

    /// The order of a pipeline's records: the greatest counts.
    pub(super) fn rank(&self) -> Rank {
        let (timeline, held) = self.holder();
        (self.generation, timeline, held, self.position)
    }

    /// The order of holders within a generation. The timeline ranks first: a standby that was
    /// promoted may stand before the last holder's moment.
    pub(super) fn holder(&self) -> (Option<u32>, Option<ServerMoment>) {
        (self.history.as_ref().map(|history| history.timeline), self.held)
    }

    /// Partitions that were detached or dropped, and of which rows may not be acknowledged yet.
    pub(crate) fn unsent_detached(&self) -> impl Iterator<Item = (Oid, Detached)> {
        let is_passed = |detached: &Detached| detached.until.is_some_and(|at| at <= self.position);
        let all = self.detached.iter().filter(move |(_, detached)| !is_passed(detached));
        all.map(|(oid, detached)| (Oid::from_u32(*oid), *detached))
    }

    /// Partitions of this record's catalog that a later reading lacks, beside those that were gone
    /// before.
    pub(super) fn detached_in(
        &self,
        now: &Catalog,
        read_at: Option<Lsn>,
    ) -> BTreeMap<u32, Detached> {
        let before = self.unsent_detached().map(|(oid, Detached { root, until })| {
            (oid.as_u32(), Detached { root, until: until.or(read_at) })
        });
        let mut detached: BTreeMap<u32, Detached> = before.collect();
        for then in &self.catalog.relations {
            let present = now.with_oid(then.oid).into_iter().flat_map(|table| &table.partitions);
            let present: BTreeSet<u32> = present.map(|partition| partition.oid.as_u32()).collect();
            let oids = then.partitions.iter().map(|partition| partition.oid.as_u32());
            let gone = oids.filter(|oid| !present.contains(oid));
            detached.extend(gone.map(|oid| (oid, Detached { root: then.oid, until: None })));
        }
        detached
    }

    /// From the present position on, the rows of these tables of a catalog are events, and those of
    /// the former tables. [`Self::checked`] is of the same reading where that is settled, and
    /// [`Self::catalog`] of the one before.
    pub fn set_tables(&mut self, mut tables: Vec<Oid>, now: &Catalog) {
        // Else it is of an earlier one.
        let read_at = self.checked.as_ref().filter(|_| now.is_settled());
        self.detached = self.detached_in(now, read_at.map(|checked| checked.lsn));
        let former = self.former.keys().map(|oid| Oid::from_u32(*oid));
        let former: Vec<Oid> = former.filter(|oid| !tables.contains(oid)).collect();
        tables.extend(former);
        self.added.retain(|oid, _| tables.iter().any(|table| table.as_u32() == *oid));
        let is_new = |table: &&Oid| !self.tables.is_empty() && !self.tables.contains(table);
        let new: Vec<u32> = tables.iter().filter(is_new).map(|table| table.as_u32()).collect();
        self.added.extend(new.into_iter().map(|oid| (oid, self.position)));
        self.tables = tables;
        self.know_since(now);
    }

    /// From where on rows are events: of tables that were altered since the reading of
    /// [`Self::catalog`], or whose rows have their age by another column now, from this later
    /// reading on.
    pub fn since_by(&self, now: &Catalog) -> Arc<BTreeMap<Place, EventsSince>> {
        let mut since = Arc::clone(&self.since);
        let altered = altered_tables(&self.catalog, now);
        for (place, age) in altered.iter().flat_map(|table| places(*table, now)) {
            let Entry::Occupied(mut known) = Arc::make_mut(&mut since).entry(place) else {
                continue;
            };
            match &now.next {
                Some(next) => *known.get_mut() = next.since(place.oid, age),
                None => drop(known.remove()),
            }
        }
        let Some(next) = &now.next else { return since };
        for table in &now.relations {
            for place in table.places() {
                let Some(known) = since.get(&place) else { continue };
                let read = known.aged_by(table.age, next.since(place.oid, table.age));
                if read != *known {
                    Arc::make_mut(&mut since).insert(place, read);
                }
            }
        }
        since
    }

    /// The rows of places that are new, or were altered, are events from this reading of the
    /// catalog on; places that are gone lose what they had.
    pub(super) fn know_since(&mut self, now: &Catalog) {
        let places: BTreeMap<Place, AgeColumn> =
            self.tables.iter().flat_map(|table| places(*table, now)).collect();
        self.since = self.since_by(now);
        let since = Arc::make_mut(&mut self.since);
        since.retain(|place, _| places.contains_key(place));
        let Some(next) = &now.next else { return };
        for (place, age) in places {
            since.entry(place).or_insert_with(|| next.since(place.oid, age));
        }
    }

    /// This record where every row of these tables that is older than the slot was sent from its
    /// table, and the slot stands where it was made. A partition that may have been attached since
    /// then was not read.
    #[must_use]
    pub fn with_older_rows_sent(mut self, sent: &[TableName], now: &Catalog) -> Self {
        let (Some(horizon), Some(next)) = (self.horizon, &now.next) else { return self };
        let was_read = |place: &Place| {
            let before = |xid| horizon.xmin.follows(Xid::from_u32(xid), next.xid);
            place.attached_by.is_none_or(before)
        };
        let sent = sent.iter().filter_map(|name| now.named(name)).flat_map(CatalogRelation::places);
        let since = Arc::make_mut(&mut self.since);
        for place in sent.filter(was_read) {
            since.entry(place).and_modify(|since| *since = EventsSince::FIRST_ROW);
        }
        self
    }

    /// This record as a session writes it that was seen to hold the slot at `held`. If an earlier
    /// session held the slot at a later moment, the server was restored to an earlier state, and
    /// nothing that this session writes would count; so a new generation begins.
    #[must_use]
    pub(crate) fn held_by(self, held: Option<ServerMoment>) -> Self {
        let is_later = held > self.held;
        Self { generation: self.generation + u64::from(!is_later), held, ..self }
    }

    /// This record as a session writes it after an earlier session of its process, whose record may
    /// be stored only now. If that session held the slot at a later moment, or on a later timeline,
    /// the server was taken back, and a new generation begins as in [`Self::held_by`].
    #[must_use]
    pub(super) fn ranked_after(self, earlier: &Self) -> Self {
        let standing = |one: &Self| (one.generation, one.holder());
        let is_later = standing(&self) > standing(earlier);
        let generation = if is_later { self.generation } else { earlier.generation + 1 };
        Self { generation, ..self }
    }

    /// The next generation of this record, in which these gaps are open, too.
    #[must_use]
    pub fn with_gaps(&self, gaps: &[Gap]) -> Self {
        let mut next = self.clone();
        next.generation += 1;
        next.gaps.extend(gaps.iter().filter(|gap| !self.has_open(gap)).cloned());
        next
    }

    /// The same; `None` where all of them are open in this record.
    #[must_use]
    pub fn with_open(&self, gaps: &[Gap]) -> Option<Self> {
        gaps.iter().any(|gap| !self.has_open(gap)).then(|| self.with_gaps(gaps))
    }

    /// Whether the same gap is open in this record.
    pub(crate) fn has_open(&self, gap: &Gap) -> bool {
        self.gaps.iter().any(|open| open.is_same(gap))
    }

    /// Whether a person has accepted the gap in `generation` or later.
    pub(crate) fn has_accepted(&self, gap: &Gap, generation: u64) -> bool {
        let is_this = |one: &Acceptance| one.generation >= generation && one.name() == gap.name();
        self.accepted.iter().any(is_this)
    }
}

/// A table, and its partitions by this reading of the catalog, with the column that gives their
/// rows an age.
fn places(table: Oid, now: &Catalog) -> impl Iterator<Item = (Place, AgeColumn)> {
    let relation = now.with_oid(table);
    let age = relation.map_or(AgeColumn::Unknown, |relation| relation.age);
    let partitions = relation.into_iter().flat_map(CatalogRelation::places);
    partitions.chain([Place::table(table)]).map(move |place| (place, age))
}
