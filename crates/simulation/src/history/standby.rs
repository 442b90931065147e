//! The standby that `synchronized_standby_slots` names.

/// What the standby has of the history. A walsender sends no more, so a promotion of this standby
/// takes back nothing that was sent.
#[derive(Debug, Clone, Copy)]
pub struct NamedStandby {
    /// The end of what it has received.
    pub received: u64,
    /// Whether it is away, and receives nothing.
    pub is_away: bool,
}

impl NamedStandby {
    /// A standby that has everything.
    pub const fn at(end_of_wal: u64) -> Self {
        Self { received: end_of_wal, is_away: false }
    }
}
