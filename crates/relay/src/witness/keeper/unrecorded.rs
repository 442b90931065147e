//! Gaps that this process has found.

use crate::{clock::Moment, source::Gap, witness::Witness};

/// A record with open gaps that Kafka does not have yet.
pub(super) struct Unrecorded {
    pub(super) key: Vec<u8>,
    pub(super) witness: Witness,
    pub(super) tried_at: Option<Moment>,
}

/// What this process has found and nobody has accepted, as far as it knows.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) gaps: Vec<Gap>,
    /// That in which they are written down.
    pub(super) generation: u64,
}
