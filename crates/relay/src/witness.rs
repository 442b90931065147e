//! The witness: one small record per pipeline, kept in Kafka, which says how far everything is acknowledged, on which
//! server and in which cluster.
//!
//! The slot is the only position that anything resumes from. What the slot does not say is who moved it, whether the
//! server is still the one that it was, and whether somebody noticed that rows may be missing. The witness says it, and it
//! outlives every router. Two rules make it evidence:
//!
//! * A position is told to the server only after the witness with that position is acknowledged. So a slot that stands
//!   past the witness was moved by somebody else.
//! * What the witness covers is believed only after its last transaction has come by again (`session/covered.rs`). So a
//!   server that was taken back to an earlier state, and has written other rows since, is recognised.
//!
//! A router that was stopped (SIGSTOP) or cut off may write late. Such a write must not count, and it cannot be prevented:
//! Kafka compares nothing before it stores a record. So a late write is made harmless instead. Each session writes under
//! a key of its own, and of all records of a pipeline the one with the greatest (generation, position) counts
//! ([`combine`]). Within a generation the history is one and the same, so a late write can only say less; what starts a
//! new history (a promotion, an acceptance by a person) or opens a gap starts a new generation. The next session deletes
//! the keys of those before it. A transactional producer was rejected: it fences by the order of `initTransactions`,
//! which is not the order in which sessions hold the slot, so a router that wakes up late would fence the holder.

use std::collections::BTreeMap;

use pgoutput::{Lsn, PgTimestamp, Xid};

use crate::source::{Catalog, Gap, Mark, Oid};

mod acceptance;
mod combine;
mod format;
mod keeper;
mod key;

pub use acceptance::Open;
pub use combine::{StateRecord, combine};
pub use format::Unreadable;
pub use keeper::Write;
pub(crate) use keeper::{Keeper, Seen, Since, Want};
pub use key::Pipeline;

/// What a pipeline's record says.
#[derive(Debug, Clone, PartialEq)]
pub struct Witness {
    /// Grows when a new history begins, when a gap opens, and when a person accepts one.
    pub generation: u64,
    /// The server; `None` when a gap was found before any server was identified.
    pub history: Option<History>,
    /// Kafka's cluster id.
    pub cluster: String,
    /// Every event whose commit record begins before this position is acknowledged.
    pub position: Lsn,
    /// The last transaction with events before it; `None` when none was seen since the pipeline's baseline.
    pub last: Option<LastTransaction>,
    /// When the source was last found as it must be: by the server's clock, with the end of WAL then.
    pub checked: Option<Mark>,
    /// Partition counts of the topics in use.
    pub partitions: BTreeMap<String, i32>,
    /// Publication and outbox tables as they were at that moment.
    pub catalog: Catalog,
    /// The tables whose rows counted as events.
    pub tables: Vec<Oid>,
    /// What nobody has accepted yet.
    pub gaps: Vec<Gap>,
    /// What somebody has accepted, the latest last.
    pub accepted: Vec<Acceptance>,
    /// The pipeline began here without a record, and nobody has accepted that yet: what was before is not vouched for.
    pub began_without: Option<Mark>,
}

/// Names one history of WAL: LSNs mean something only within one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// `system_identifier` of the cluster.
    pub system_id: String,
    /// The timeline.
    pub timeline: u32,
}

/// What tells a transaction from every other, on a server whose past may have been exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastTransaction {
    /// Where its commit record begins.
    pub commit_lsn: Lsn,
    /// The first byte after it.
    pub end_lsn: Lsn,
    /// Its number.
    pub xid: Xid,
    /// The server's clock at the commit.
    pub committed_at: PgTimestamp,
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
}

/// How many acceptances a record keeps.
pub const ACCEPTED_MAX: usize = 20;
/// How many topics' partition counts a record keeps: it is written up to ten times a second.
const PARTITIONS_MAX: usize = 500;

impl Witness {
    /// A record with nothing in it but where it stands.
    #[must_use]
    pub fn at(position: Lsn) -> Self {
        Self {
            generation: 1,
            history: None,
            cluster: String::new(),
            position,
            last: None,
            checked: None,
            partitions: BTreeMap::new(),
            catalog: Catalog::default(),
            tables: Vec::new(),
            gaps: Vec::new(),
            accepted: Vec::new(),
            began_without: None,
        }
    }

    /// When the source was last found as it must be, by the server's clock: no later than the position.
    pub fn checked_at(&self) -> Option<String> {
        self.checked.as_ref().and_then(|checked| checked.at.clone())
    }

    /// How records of one pipeline compare.
    fn rank(&self) -> (u64, Lsn) {
        (self.generation, self.position)
    }

    /// The next generation of this record, in which one more gap is open.
    #[must_use]
    pub fn with_gap(&self, gap: &Gap) -> Self {
        let mut next = self.clone();
        next.generation += 1;
        if !next.gaps.iter().any(|open| open.is_same(gap)) {
            next.gaps.push(gap.clone());
        }
        next
    }
}
