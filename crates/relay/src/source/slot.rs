//! A slot at one moment, as plain data. Reading it from a server is somebody else's; what is wrong
//! with it is judged in [`super::slot_checks`].

use pgoutput::Lsn;

use super::gap::Mark;

/// Whether the WAL that the slot needs is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalStatus {
    /// Within `max_wal_size`.
    Reserved,
    /// Beyond `max_wal_size`, still kept.
    Extended,
    /// No longer kept: the next checkpoint may remove it.
    Unreserved,
    /// Some of it is gone; the slot is dead.
    Lost,
    /// A word that this version does not know.
    Unknown,
}

impl WalStatus {
    /// Those with a word of PostgreSQL's.
    pub const KNOWN: [Self; 4] = [Self::Reserved, Self::Extended, Self::Unreserved, Self::Lost];

    /// PostgreSQL's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Extended => "extended",
            Self::Unreserved => "unreserved",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }

    /// The status that PostgreSQL has this word for.
    pub fn parse(word: Option<&str>) -> Self {
        Self::KNOWN
            .into_iter()
            .find(|status| word == Some(status.as_str()))
            .unwrap_or(Self::Unknown)
    }
}

/// Physical or logical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// For a standby server.
    Physical,
    /// For decoding.
    Logical,
}

/// How long the slot lives and how it decodes, where that differs from what a router needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peculiarity {
    /// Dropped at the end of the session that made it.
    Temporary,
    /// Sends prepared transactions before they are committed.
    TwoPhase,
}

/// The slot at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotHealth {
    /// The end of WAL then.
    pub current_wal_lsn: Lsn,
    /// What was confirmed. Stays when the slot is lost.
    pub confirmed_flush_lsn: Option<Lsn>,
    /// The oldest WAL that the slot keeps. None when the slot is lost.
    pub restart_lsn: Option<Lsn>,
    /// What may still be written before the slot is in danger; `None`: no limit is set.
    pub safe_wal_bytes: Option<u64>,
    /// Whether its WAL is there.
    pub wal_status: WalStatus,
    /// The walsender that streams from it.
    pub active_pid: Option<i32>,
    /// The output plug-in.
    pub plugin: Option<String>,
    /// The database it decodes.
    pub database: Option<String>,
    /// Physical or logical.
    pub kind: SlotKind,
    /// What makes it unfit for a router.
    pub peculiarity: Option<Peculiarity>,
    /// Kept on standby servers too (17+).
    pub failover: Option<bool>,
    /// Copied from a primary (17+).
    pub synced: Option<bool>,
    /// Why it is dead (16+ in part, 17+ whole).
    pub invalidation_reason: Option<String>,
    /// Since when nobody streams from it, in seconds of the epoch (17+).
    pub inactive_since: Option<f64>,
}

impl SlotHealth {
    /// WAL that is not yet safely in Kafka: the headline.
    pub fn bytes_behind(&self) -> u64 {
        self.confirmed_flush_lsn.map_or(0, |lsn| bytes_between(lsn, self.current_wal_lsn))
    }

    /// WAL that the slot keeps on disk. None when the slot is lost.
    pub fn retained_bytes(&self) -> Option<u64> {
        self.restart_lsn.map(|lsn| bytes_between(lsn, self.current_wal_lsn))
    }

    /// Whether somebody streams from it.
    pub fn is_active(&self) -> bool {
        self.active_pid.is_some()
    }

    /// Whether it is dead: nothing will ever stream from it again.
    pub fn is_lost(&self) -> bool {
        self.wal_status == WalStatus::Lost || self.invalidation_reason.is_some()
    }
}

/// Bytes of WAL from one position to a later one; zero when it is not later.
pub fn bytes_between(from: Lsn, to: Lsn) -> u64 {
    to.as_u64().saturating_sub(from.as_u64())
}

/// A moment at which a session's own walsender was seen to hold the slot, or a command saw that
/// nobody did. PostgreSQL gives a slot to one at a time, and WAL grows, so of two the later has the
/// greater; the clock decides where nothing was written in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// The end of WAL.
    pub wal_end: Lsn,
    /// The server's clock, in microseconds.
    pub clock_micros: i64,
}

/// What one look at the server shows of the slot; `slot` is `None` when it does not exist.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotLook {
    /// The end of WAL.
    pub current_wal_lsn: Lsn,
    /// The server's clock, UTC.
    pub at: String,
    /// The same clock in microseconds, for telling which of two looks was the later.
    pub clock_micros: i64,
    /// The database we are connected to.
    pub database: String,
    /// The slot.
    pub slot: Option<SlotHealth>,
}

impl SlotLook {
    /// The moment of the look, to be compared with others.
    pub fn moment(&self) -> Held {
        Held { wal_end: self.current_wal_lsn, clock_micros: self.clock_micros }
    }

    /// The moment of the look.
    pub fn mark(&self) -> Mark {
        Mark { lsn: self.current_wal_lsn, at: Some(self.at.clone()) }
    }
}
