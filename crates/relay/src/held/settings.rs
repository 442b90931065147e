//! What makes dead letters, and how much may be held.

use super::{ErrorPolicy, HeldLimits};
use crate::routing::topic::TopicName;

/// The settings of dead letters; by default nothing becomes one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldSettings {
    /// What makes an event a dead letter.
    pub policy: ErrorPolicy,
    /// Whether the later events of a dead letter's key are held behind it.
    pub hold_keys: HoldKeys,
    /// The topic that dead letters are also written to.
    pub topic: Option<TopicName>,
    /// How much may be held.
    pub limits: HeldLimits,
}

/// Whether the later events of a dead letter's key are held behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HoldKeys {
    /// They are held, so the order within the key stays.
    #[default]
    Yes,
    /// They are delivered, although an earlier event of the key is not.
    No,
}
