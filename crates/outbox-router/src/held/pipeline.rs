//! Whose rows of the table of held events a store reads and writes.

/// Whose rows of the table they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// `name` of the configuration.
    pub name: String,
    /// The slot.
    pub slot: String,
}
