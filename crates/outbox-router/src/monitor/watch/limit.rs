//! How long until PostgreSQL invalidates the slot, and by which of its two limits.

/// How long until PostgreSQL may invalidate the slot, by the limit that is reached first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeToLimit {
    /// Seconds; infinite while the slot does not fall behind, zero when the limit is passed and the
    /// next checkpoint takes the slot.
    pub seconds: f64,
    /// The limit.
    pub limit: SlotLimit,
}

/// What PostgreSQL invalidates a slot for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotLimit {
    /// `max_slot_wal_keep_size`: it retains too much WAL.
    WalKeepSize,
    /// `idle_replication_slot_timeout` (18+): nobody has streamed from it for too long. It counts
    /// only while the slot is inactive.
    IdleTimeout,
}

impl SlotLimit {
    /// The setting's name, which is also the word in `/status.json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WalKeepSize => "max_slot_wal_keep_size",
            Self::IdleTimeout => "idle_replication_slot_timeout",
        }
    }
}
