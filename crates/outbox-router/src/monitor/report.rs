//! What the two tasks tell of themselves, each through a `tokio::sync::watch` that it alone writes.

use std::time::SystemTime;

use relay::{
    Failure, Snapshot,
    source::{Gap, SlotHealth},
};
use tokio::time::Instant;

use super::{pace::Rates, pins::WalPin};

/// The relay's side: its snapshot, and when it was taken. The relay's task renews it at least every
/// few seconds, whatever state it is in: a number that is not renewed means that the task no longer
/// runs.
#[derive(Debug, Clone)]
pub struct RelayReport {
    /// The core at that moment.
    pub snapshot: Snapshot,
    /// That moment.
    pub published_at: Instant,
}

/// The monitor's side.
#[derive(Debug, Clone)]
pub struct MonitorReport {
    /// When the monitor's loop last came round, whether or not PostgreSQL answered.
    pub ticked_at: Instant,
    /// When PostgreSQL last answered.
    pub polled_at: Option<Polled>,
    /// The slot, by the last round.
    pub slot: SlotView,
    /// Why PostgreSQL did not answer in the last round.
    pub trouble: Option<Failure>,
    /// What is wrong with slot, publication and tables now, the gravest first.
    pub findings: Vec<Failure>,
    /// What was altered, since this process began or before that while no router ran, and explains
    /// itself: rows may have been left out before it, of which nothing is left.
    pub alterations: Vec<Failure>,
    /// The first gap that was found since the relay's latest session began. It stays when its cause
    /// is gone, because what was missed is missed: until a person has accepted it, or another
    /// router has begun a session since.
    pub gap: Option<Gap>,
    /// Who keeps WAL from being removed, when it is not the router.
    pub pin: Option<WalPin>,
    /// How fast WAL grows.
    pub rates: Option<Rates>,
    /// How long until the slot is in danger.
    pub seconds_to_limit: Option<f64>,
}

/// One moment on two clocks: for ages, and for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polled {
    /// Monotonic.
    pub at: Instant,
    /// Wall clock.
    pub wall: SystemTime,
}

/// The slot as it was last seen, and whether it was seen at all: a number from before PostgreSQL
/// went away must not pass for a present one.
#[derive(Debug, Clone, PartialEq)]
pub enum SlotView {
    /// PostgreSQL did not answer.
    Unknown,
    /// It answered that there is no such slot.
    Missing,
    /// The slot.
    Seen(SlotHealth),
}

impl SlotView {
    /// The slot, if it was seen.
    pub fn seen(&self) -> Option<&SlotHealth> {
        match self {
            Self::Seen(slot) => Some(slot),
            Self::Unknown | Self::Missing => None,
        }
    }
}

impl MonitorReport {
    /// Before the first look.
    pub fn initial(now: Instant) -> Self {
        Self {
            ticked_at: now,
            polled_at: None,
            slot: SlotView::Unknown,
            trouble: None,
            findings: Vec::new(),
            alterations: Vec::new(),
            gap: None,
            pin: None,
            rates: None,
            seconds_to_limit: None,
        }
    }
}
