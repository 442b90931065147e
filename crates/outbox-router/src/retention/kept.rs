//! How many rows of a table stay, by the reason.

/// The rows of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Younger than `retention.keep`, or without a time.
    pub(crate) young: u64,
    /// Their events are open in `outbox_router.held`.
    pub(crate) held: u64,
    /// Not confirmed yet.
    pub(crate) undelivered: u64,
    /// Written before their table, or partition, was part of the outbox: they were never sent.
    pub(crate) older: u64,
    /// They can be removed.
    pub(crate) removable: u64,
}
