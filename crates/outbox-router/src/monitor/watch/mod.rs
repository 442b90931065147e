//! What a person on call asks about the slot, besides the slot itself: how long until PostgreSQL
//! takes it away, who holds it back, what else fills the disk, and which standbys it waits for.
//!
//! All of it is kept while PostgreSQL does not answer, with the moment at which it was read: that
//! is when the questions are asked, and when no SQL can answer them.
//!
//! It is read in one statement of its own after each reading of slot and catalog. That statement
//! has a time limit, and its failure is only noted ([`SlotWatch::trouble`]): none of the figures
//! decides anything.

pub mod denied;
pub mod figures;
pub mod limit;
pub(super) mod reading;
pub(crate) mod statement;

use relay::{Failure, source::SlotHealth};

use self::{figures::SlotFigures, limit::TimeToLimit};
use super::{polled::Polled, rates::Rates};

/// Everything that was read of the slot and around it, as it was read last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlotWatch {
    /// The slot when PostgreSQL last answered; `None` before the first answer. It stays while
    /// PostgreSQL does not answer, or another server answers in its place (P033).
    pub last: Option<LastSlot>,
    /// What was read around the slot; `None` before the first answer. It stays, too.
    pub figures: Option<SlotFigures>,
    /// Why the last attempt to read [`Self::figures`] failed, while the slot itself was read;
    /// `None` when it succeeded. Whether PostgreSQL answers at all is in
    /// [`MonitorReport::trouble`](super::MonitorReport::trouble).
    pub trouble: Option<Failure>,
}

/// The slot when PostgreSQL last answered.
#[derive(Debug, Clone, PartialEq)]
pub struct LastSlot {
    /// When that was.
    pub read: Polled,
    /// The server's clock then, in seconds since 1970: with it, `inactive_since` of the slot gives
    /// a duration.
    pub server_clock: f64,
    /// The slot; `None`: PostgreSQL answered that there is none.
    pub slot: Option<SlotHealth>,
    /// How fast WAL was written and how fast the slot fell behind then; `None` until the slot was
    /// read twice.
    pub rates: Option<Rates>,
    /// How long, from then, until PostgreSQL invalidates the slot; `None` where nothing limits it,
    /// it is lost already, or there are no rates yet.
    pub to_limit: Option<TimeToLimit>,
}
