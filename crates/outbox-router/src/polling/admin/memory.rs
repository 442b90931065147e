//! What one look cannot show: since when the verdict holds, which verdicts came before, when
//! something last moved, and how fast pending rows become fewer. `observer` fills it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use super::{halt::Halt, pace::Pace};
use crate::status::Timeline;

/// See the module's header.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    pub(super) timeline: Arc<Timeline>,
    pub(super) pace: Pace,
    /// What a person is needed for.
    pub(super) halt: Option<Halt>,
    /// When the process began to look.
    pub(super) begun: SystemTime,
    /// When something last moved, or nothing was outstanding.
    pub(super) moved_at: Instant,
    /// Rows that this worker has published.
    pub(super) published: u64,
    /// When the oldest pending row was written, by this clock.
    pub(super) oldest: Option<Instant>,
    /// Rows that were pending.
    pub(super) pending: u64,
}

impl Memory {
    /// Before the first look.
    pub(super) fn begin(now: Instant) -> Self {
        Self {
            timeline: Arc::default(),
            pace: Pace::default(),
            halt: None,
            begun: SystemTime::now(),
            moved_at: now,
            published: 0,
            oldest: None,
            pending: 0,
        }
    }

    /// For how long nothing has moved although something is outstanding.
    pub(super) fn without(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.moved_at)
    }
}
