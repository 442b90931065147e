//! What a pipeline's record says.

use std::collections::BTreeMap;

use pgoutput::{Lsn, Oid};

use crate::{
    progress::LastTransaction,
    routing::table::TableName,
    source::{Catalog, Gap, Held, History, Mark, wording},
};

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Witness {
    /// Grows when a new history begins, when a gap opens, and when a person accepts one.
    pub generation: u64,
    /// When its writer saw the slot last: a session as its own, a command as nobody's.
    pub held: Option<Held>,
    /// The server; `None` when a gap was found before any server was identified.
    pub history: Option<History>,
    /// Kafka's cluster id.
    pub cluster: String,
    /// Every event whose commit record begins before this position is acknowledged.
    pub position: Lsn,
    /// The last transaction with events before it; `None` when none was seen since the pipeline's
    /// baseline.
    pub last: Option<LastTransaction>,
    /// When the source was last found as it must be: by the server's clock, with the end of WAL
    /// then.
    pub checked: Option<Mark>,
    /// Partition counts of the topics in use.
    pub partitions: BTreeMap<String, i32>,
    /// Publication and outbox tables as they were at that moment.
    pub catalog: Catalog,
    /// The tables whose rows counted as events.
    pub tables: Vec<Oid>,
    /// Those of them that were none before, with the position since which their rows count.
    pub added: BTreeMap<u32, Lsn>,
    /// Tables that counted until a person accepted that others have taken their names, by OID.
    pub former: BTreeMap<u32, Former>,
    /// What nobody has accepted yet.
    pub gaps: Vec<Gap>,
    /// What somebody has accepted, the latest last.
    pub accepted: Vec<Acceptance>,
    /// The pipeline began here without a record, and nobody has accepted that yet: what was before
    /// is not vouched for.
    pub began_without: Option<Mark>,
}

/// A table whose place another has taken. It may have been renamed long before, with its rows
/// produced as before, so the slot may have many rows that bear another name than the configured
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Former {
    /// The configured name that its rows counted under.
    pub table: TableName,
    /// The table that has that name since: what it is configured as, the former one is, too.
    pub heir: Oid,
    /// The end of WAL when that was accepted: rows before it count as events.
    pub until: Lsn,
}

/// A gap that a person has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// The gap's code, or the code of what was accepted besides gaps.
    pub code: String,
    /// Where it began.
    pub lsn: Lsn,
    /// Who accepted it.
    pub by: String,
    /// When, in UTC, ISO 8601.
    pub at: String,
    /// The generation that it began, or belongs to.
    pub generation: u64,
}

/// How many acceptances a record keeps.
pub const ACCEPTED_MAX: usize = 20;
/// How many topics' partition counts a record keeps: it is written often.
pub(super) const PARTITIONS_MAX: usize = 500;

impl Witness {
    /// A record with nothing in it but where it stands.
    #[must_use]
    pub fn at(position: Lsn) -> Self {
        Self {
            generation: 1,
            held: None,
            history: None,
            cluster: String::new(),
            position,
            last: None,
            checked: None,
            partitions: BTreeMap::new(),
            catalog: Catalog::default(),
            tables: Vec::new(),
            added: BTreeMap::new(),
            former: BTreeMap::new(),
            gaps: Vec::new(),
            accepted: Vec::new(),
            began_without: None,
        }
    }

    /// The position, with a time up to which everything is acknowledged, by the server's clock.
    pub fn mark(&self) -> Mark {
        Mark { lsn: self.position, at: self.acknowledged_at() }
    }

    /// The last look at the source, if what was written until then is acknowledged; behind a
    /// backlog it is not, and the last transaction tells.
    fn acknowledged_at(&self) -> Option<String> {
        let checked = self.checked.as_ref().filter(|checked| checked.lsn <= self.position);
        let looked_at = checked.and_then(|checked| checked.at.clone());
        looked_at.or_else(|| wording::utc(self.last?.committed_at))
    }

    /// How records of one pipeline compare.
    pub(super) fn rank(&self) -> (u64, Option<u32>, Option<Held>, Lsn) {
        let (timeline, held) = self.holder();
        (self.generation, timeline, held, self.position)
    }

    /// Who held the slot later, of one generation: a promotion begins one, and the next may be met
    /// before its record is there.
    pub(super) fn holder(&self) -> (Option<u32>, Option<Held>) {
        (self.history.as_ref().map(|history| history.timeline), self.held)
    }

    /// From here on the rows of these tables count as events, and those of tables whose place was
    /// taken.
    pub(crate) fn count(&mut self, mut tables: Vec<Oid>) {
        let former = self.former.keys().map(|oid| Oid::from_u32(*oid));
        let former: Vec<Oid> = former.filter(|oid| !tables.contains(oid)).collect();
        tables.extend(former);
        self.added.retain(|oid, _| tables.iter().any(|table| table.as_u32() == *oid));
        let is_new = |table: &&Oid| !self.tables.is_empty() && !self.tables.contains(table);
        let new: Vec<u32> = tables.iter().filter(is_new).map(|table| table.as_u32()).collect();
        self.added.extend(new.into_iter().map(|oid| (oid, self.position)));
        self.tables = tables;
    }

    /// This record in the words of a session that held the slot then. On a server whose WAL ends
    /// before what an earlier session saw, nothing that this one writes would count: it was taken
    /// back to an earlier state, and a new history begins.
    #[must_use]
    pub(crate) fn held_by(self, held: Option<Held>) -> Self {
        let is_later = held > self.held;
        Self { generation: self.generation + u64::from(!is_later), held, ..self }
    }

    /// The next generation of this record, in which these gaps are open, too.
    #[must_use]
    pub fn with_gaps(&self, gaps: &[Gap]) -> Self {
        let mut next = self.clone();
        next.generation += 1;
        next.gaps.extend(gaps.iter().filter(|gap| !self.has_open(gap)).cloned());
        next
    }

    /// Whether somebody has found the same.
    pub(crate) fn has_open(&self, gap: &Gap) -> bool {
        self.gaps.iter().any(|open| open.is_same(gap))
    }

    /// Whether a person has accepted it, in this generation or a later one.
    pub(crate) fn has_accepted(&self, gap: &Gap, generation: u64) -> bool {
        let is_this = |one: &Acceptance| one.generation >= generation && one.name() == gap.name();
        self.accepted.iter().any(is_this)
    }
}
