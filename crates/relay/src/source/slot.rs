//! A slot at one moment, as plain data. The shell reads it; [`super::slot_checks`] checks it.

use pgoutput::Lsn;

use super::gap::Mark;
use crate::delivered::{FullXid, Horizon};

/// Whether the WAL that the slot needs is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalStatus {
    /// Within `max_wal_size`.
    Reserved,
    /// Beyond `max_wal_size`, still kept.
    Extended,
    /// No longer kept: the next checkpoint may remove it.
    Unreserved,
    /// The slot was invalidated, and can never be used again.
    Lost,
    /// A value of `wal_status` that this version does not know.
    Unknown,
}

impl WalStatus {
    /// All but [`Self::Unknown`].
    pub const KNOWN: [Self; 4] = [Self::Reserved, Self::Extended, Self::Unreserved, Self::Lost];

    /// The value of `wal_status` in `pg_replication_slots`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Extended => "extended",
            Self::Unreserved => "unreserved",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }

    /// The status with this value of `wal_status`.
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
pub enum SlotFeature {
    /// Dropped at the end of the session that made it.
    Temporary,
    /// Sends prepared transactions before they are committed.
    TwoPhase,
}

/// The slot at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotHealth {
    /// The end of WAL at that moment.
    pub current_wal_lsn: Lsn,
    /// The slot's position. A lost slot keeps it.
    pub confirmed_flush_lsn: Option<Lsn>,
    /// The oldest WAL that the slot retains. None when that WAL was removed.
    pub restart_lsn: Option<Lsn>,
    /// `catalog_xmin`: every transaction with an id before it had ended before the slot's position,
    /// because PostgreSQL moves it to the oldest transaction that ran at a position only when that
    /// position is confirmed.
    pub catalog_xmin: Option<FullXid>,
    /// `safe_wal_size`: how much WAL may still be written before the slot may be lost. None: no
    /// limit is set, or the slot is lost.
    pub safe_wal_bytes: Option<u64>,
    /// Whether the WAL that it needs is retained.
    pub wal_status: WalStatus,
    /// The process id of the walsender that streams from it; `None` when there is none.
    pub active_pid: Option<i32>,
    /// The output plug-in.
    pub plugin: Option<String>,
    /// The database it decodes.
    pub database: Option<String>,
    /// Physical or logical.
    pub kind: SlotKind,
    /// What makes it unsuitable for a router.
    pub unsupported_feature: Option<SlotFeature>,
    /// Kept on standby servers too (17+).
    pub failover: Option<bool>,
    /// Copied from a primary (17+).
    pub synced: Option<bool>,
    /// Why it can never be used again (17+; on 16 only that it conflicted with recovery).
    pub invalidation_reason: Option<String>,
    /// Since when no process streams from it, in seconds since 1970 (17+).
    pub inactive_since: Option<f64>,
}

impl SlotHealth {
    /// Bytes of WAL past the slot's position: what is not confirmed.
    pub fn bytes_behind(&self) -> u64 {
        self.confirmed_flush_lsn.map_or(0, |lsn| bytes_between(lsn, self.current_wal_lsn))
    }

    /// Bytes of WAL that the slot retains on disk. None when they were removed.
    pub fn retained_bytes(&self) -> Option<u64> {
        self.restart_lsn.map(|lsn| bytes_between(lsn, self.current_wal_lsn))
    }

    /// The transactions that had ended before its position.
    pub fn horizon(&self) -> Option<Horizon> {
        Some(Horizon { xmin: self.catalog_xmin?, lsn: self.confirmed_flush_lsn? })
    }

    /// Whether a process streams from it.
    pub fn is_active(&self) -> bool {
        self.active_pid.is_some()
    }

    /// Whether it can never be used again: its WAL is removed, or PostgreSQL invalidated it.
    pub fn is_lost(&self) -> bool {
        self.wal_status == WalStatus::Lost || self.invalidation_reason.is_some()
    }
}

/// Bytes of WAL from one position to a later one; zero when it is not later.
pub fn bytes_between(from: Lsn, to: Lsn) -> u64 {
    to.as_u64().saturating_sub(from.as_u64())
}

/// A moment of a server that can be ordered with others of the same history. WAL grows, so the
/// later of two moments has the greater `wal_end`; the clock decides where nothing was written in
/// between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerMoment {
    /// The end of WAL.
    pub wal_end: Lsn,
    /// The server's clock, in microseconds.
    pub clock_micros: i64,
}

/// What one reading of the server shows of the slot.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotReading {
    /// The end of WAL.
    pub current_wal_lsn: Lsn,
    /// The server's clock, UTC, ISO 8601.
    pub at: String,
    /// The same clock in microseconds, to order two readings.
    pub clock_micros: i64,
    /// An id that no transaction has yet, on a primary.
    pub next_xid: Option<FullXid>,
    /// The database that the reading connection is in.
    pub database: String,
    /// The slot; `None` when it does not exist.
    pub slot: Option<SlotHealth>,
}

impl SlotReading {
    /// The moment of the reading, in the form that can be ordered.
    pub fn moment(&self) -> ServerMoment {
        ServerMoment { wal_end: self.current_wal_lsn, clock_micros: self.clock_micros }
    }

    /// The moment of the reading, in the form that messages show.
    pub fn mark(&self) -> Mark {
        Mark { lsn: self.current_wal_lsn, at: Some(self.at.clone()) }
    }
}
