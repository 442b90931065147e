//! What streaming task and monitor publish, each through a `tokio::sync::watch` that it alone
//! writes.

use std::time::Duration;

use relay::{
    Failure, Lsn, Snapshot,
    source::{Gap, SlotHealth},
};
use tokio::time::Instant;

use super::{pins::WalPin, polled::Polled, rates::Rates, tables::TableSize, watch::SlotWatch};

/// What the streaming task publishes: the core's snapshot, and when it was taken. The task renews
/// the report every half second, in every state: a report that is not renewed means that the task
/// no longer runs.
#[derive(Debug, Clone)]
pub struct RelayReport {
    /// The core's state at that moment.
    pub snapshot: Snapshot,
    /// Up to where the backlog is read by SQL; `None` where the walsender's frames are read.
    pub backlog_until: Option<Lsn>,
    /// How a backlog is read from the walsender; `None` while none is.
    pub reading: Option<BacklogReading>,
    /// When the snapshot was taken.
    pub published_at: Instant,
}

impl RelayReport {
    /// The report of a task without a stream.
    #[must_use]
    pub fn initial(snapshot: Snapshot, now: Instant) -> Self {
        Self { snapshot, backlog_until: None, reading: None, published_at: now }
    }
}

/// How a backlog is read from the walsender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogReading {
    /// The pause between two reads.
    pub pause: Duration,
    /// Bytes of a TCP segment, on average; `None` where that is not known.
    pub segment_bytes: Option<u64>,
}

/// What the monitor publishes.
#[derive(Debug, Clone)]
pub struct MonitorReport {
    /// When the monitor's loop last completed a round, whether or not PostgreSQL answered.
    pub ticked_at: Instant,
    /// When the slot was last read; `None` before the first answer. An answer of another server
    /// than the stream's (P033) is none.
    pub polled_at: Option<Polled>,
    /// The slot, as the last round read it.
    pub slot: ObservedSlot,
    /// Why PostgreSQL did not answer in the last round; `None` when it did.
    pub trouble: Option<Failure>,
    /// What is wrong with slot, publication and tables now, the most severe first.
    pub findings: Vec<Failure>,
    /// On a standby: that a program reads the slot which is no router of this pipeline.
    pub foreign_reader: Option<Failure>,
    /// Alterations that the catalog explains, seen by this process, or by a session that compared
    /// with the witness. The catalog does not show whether rows were left out meanwhile.
    pub alterations: Vec<Failure>,
    /// The first gap that was found since the streaming task's latest session began. It stays when
    /// its cause is gone, because what was missed is still missing. It ends when a person accepts
    /// it, or when another router has begun a session since.
    pub gap: Option<Gap>,
    /// What keeps WAL from being removed, when it is not the router; by what was read last.
    pub pin: Option<WalPin>,
    /// Decided dead letters that only the router keeps from leaving, as they were counted last;
    /// `None` before they could be counted.
    pub decided: Option<u64>,
    /// The sizes of the outbox tables, as they were read last; empty before that.
    pub tables: Vec<TableSize>,
    /// How fast WAL is written and how fast the slot falls behind; `None` until the slot was read
    /// twice.
    pub rates: Option<Rates>,
    /// How long until PostgreSQL invalidates the slot, in seconds, by the limit that is reached
    /// first; infinite while it does not fall behind. Which limit that is, is in
    /// [`LastSlot::to_limit`](super::watch::LastSlot::to_limit).
    pub seconds_to_limit: Option<f64>,
    /// What a person on call asks about the slot. It is kept while PostgreSQL does not answer.
    pub watch: SlotWatch,
}

/// The slot as the last round read it. It is [`ObservedSlot::Unknown`] while PostgreSQL does not
/// answer, or another server than the stream's does: figures from before must not pass for present
/// ones.
#[derive(Debug, Clone, PartialEq)]
pub enum ObservedSlot {
    /// The server from which the stream comes did not answer.
    Unknown,
    /// PostgreSQL answered that there is no such slot.
    Missing,
    /// The slot as PostgreSQL showed it.
    Seen(SlotHealth),
}

impl ObservedSlot {
    /// The slot, if the last round read it.
    pub fn health(&self) -> Option<&SlotHealth> {
        match self {
            Self::Seen(slot) => Some(slot),
            Self::Unknown | Self::Missing => None,
        }
    }
}

impl MonitorReport {
    /// The report before the first round.
    pub fn initial(now: Instant) -> Self {
        Self {
            ticked_at: now,
            polled_at: None,
            slot: ObservedSlot::Unknown,
            trouble: None,
            findings: Vec::new(),
            foreign_reader: None,
            alterations: Vec::new(),
            gap: None,
            pin: None,
            decided: None,
            tables: Vec::new(),
            rates: None,
            seconds_to_limit: None,
            watch: SlotWatch::default(),
        }
    }
}
