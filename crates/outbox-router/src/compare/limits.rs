//! What a comparison may keep in memory, and what it keeps.

/// What a comparison may keep in memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Events that wait for their records, and records that wait for their events, each.
    pub waiting: usize,
    /// The bytes of each.
    pub waiting_bytes: usize,
    /// The ids and keys that are remembered. A duplicate that comes after more than so many others
    /// counts as additional.
    pub remembered: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waiting: 50_000, waiting_bytes: 64 << 20, remembered: 1_000_000 }
    }
}

/// What waits on each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Events whose record was not found yet.
    pub events: usize,
    /// Records whose event is not known yet.
    pub records: usize,
}

/// What waits on one side.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Size {
    pub(super) count: usize,
    bytes: usize,
}

impl Size {
    pub(super) fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
    }

    pub(super) fn remove(&mut self, bytes: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) fn exceeds(self, limits: &Limits) -> bool {
        self.count >= limits.waiting || self.bytes >= limits.waiting_bytes
    }
}
