//! What a check is given.

use tokio_postgres::types::PgLsn;
use uuid::Uuid;

use crate::held_table::HeldRow;
use crate::observer::ObservedCommit;

/// Which position the server's slot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotPersistence {
    /// That of the last status update.
    Kept,
    /// That of the last time when the slot was saved: since then the server crashed, or was stopped
    /// in a version that does not save slots then.
    Lost,
}

/// How the router's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// What was not confirmed will be sent again.
    Killed,
    /// It drained and exited with success: no event that it has sent may be sent again.
    Drained,
}

impl Ending {
    /// Sessions that it has cut off.
    pub(super) fn cuts_off(self) -> usize {
        match self {
            Self::Killed => 1,
            Self::Drained => 0,
        }
    }
}

/// What a dead router left behind.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    /// The slot's `confirmed_flush_lsn`.
    pub(crate) confirmed: PgLsn,
    /// The highest position in a status update of this process, read off the wire: the server may
    /// not have processed all of them.
    pub(crate) status_flush: PgLsn,
    /// The witness's position just after the router had died, if there was a witness.
    pub(crate) witness: Option<PgLsn>,
    /// The witness's position before the next process: a write that was in flight may have been
    /// stored since.
    pub(crate) witness_later: Option<PgLsn>,
    /// What was committed since the last check, and at least up to the four positions.
    pub(crate) commits: &'a [ObservedCommit],
    /// New records that were in Kafka just after the router had died.
    pub(crate) records: &'a [Uuid],
    /// New records that came later, from requests that were still on their way.
    pub(crate) late: &'a [Uuid],
    /// The table of held events just after the router had died, or the server has started again.
    pub(crate) held: &'a [HeldRow],
    /// The table when nothing of the router was at work in the server any more.
    pub(crate) held_later: &'a [HeldRow],
    /// The events of new records in the topic of dead letters, just after the router had died.
    pub(crate) letters: &'a [Uuid],
    /// How often the router lost a session since the last check, besides being killed.
    pub(crate) interruptions: usize,
    /// Which position `confirmed` is.
    pub(crate) slot_persistence: SlotPersistence,
    /// How the router came to be dead.
    pub(crate) ending: Ending,
}
