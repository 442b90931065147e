//! Gaps that this process has found: those that Kafka does not have yet, and those that are open.

use crate::{clock::Moment, source::Gap, witness::Witness};

/// A record with open gaps that Kafka does not have yet.
pub(super) struct UnwrittenGaps {
    pub(super) key: Vec<u8>,
    pub(super) witness: Witness,
    pub(super) tried_at: Option<Moment>,
}

/// The gaps that this process has found and that, as far as it knows, no person has accepted.
#[derive(Default)]
pub(super) struct OwnGaps {
    pub(super) gaps: Vec<Gap>,
    /// The generation in which they are written to the state topic.
    pub(super) generation: u64,
}
