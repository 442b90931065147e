//! The publication.

/// The publication's name.
pub const PUBLICATION: &str = "outbox";
