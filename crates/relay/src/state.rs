//! What the router reports as its state: one word and one reason.

use crate::failure::Failure;

/// The states, as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Not yet streaming: connecting, or waiting to connect again.
    Starting,
    /// Another process streams from the slot.
    Standby,
    /// A session streams: rows are produced as they arrive.
    Streaming,
    /// Nothing is acknowledged: Kafka cannot be reached, or refuses a record.
    Blocked,
    /// Stopping: what was read is being delivered and confirmed.
    Draining,
    /// A person is needed; the process stays up.
    Failed,
}

impl State {
    /// Every state there is.
    pub const ALL: [Self; 6] = [
        Self::Starting,
        Self::Standby,
        Self::Streaming,
        Self::Blocked,
        Self::Draining,
        Self::Failed,
    ];

    /// The word that metrics, `/status.json` and logs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Standby => "standby",
            Self::Streaming => "streaming",
            Self::Blocked => "blocked",
            Self::Draining => "draining",
            Self::Failed => "failed",
        }
    }
}

/// A state with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What metrics and logs name.
    pub state: State,
    /// The failure behind the state; `None` where the state needs no reason.
    pub reason: Option<Failure>,
}
