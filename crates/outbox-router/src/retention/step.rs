//! What one step of a sweep has done.

/// What a statement has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// How many rows are gone.
    pub(crate) removed: u64,
    /// Whether there may be more.
    pub(crate) rest: Rest,
}

/// Whether there is more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// There may be.
    Some,
    /// The sweep is over.
    None,
}
