//! What the blocks that every source's page has are made from: which router it is, and the verdict
//! on it.

use std::time::SystemTime;

use super::format;
use crate::{
    admin::{
        epoch::epoch,
        verdict::{ChangeView, VerdictView},
    },
    monitor::Blame,
    status::Word,
};

/// See the module's header.
#[derive(Clone, Copy)]
pub(crate) struct Judged<'s> {
    /// `name` of the configuration.
    pub(crate) name: &'s str,
    pub(crate) verdict: &'s VerdictView,
    /// The latest verdicts, the oldest first.
    pub(crate) history: &'s [ChangeView],
    pub(crate) word: Word,
    pub(crate) blame: Blame,
    /// When the page was made.
    pub(crate) now: SystemTime,
}

impl Judged<'_> {
    /// Whether it does not go on before a person has acted.
    pub(crate) fn needs_person(&self) -> bool {
        self.verdict.acts == "person"
    }

    /// The time of day of a moment so many seconds ago.
    pub(crate) fn time_ago(&self, seconds: f64) -> String {
        let ago = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
        format::time(self.now.checked_sub(ago).unwrap_or(self.now), self.now)
    }

    /// The time of day in seconds of the epoch.
    pub(crate) fn time_of(&self, epoch_seconds: f64) -> String {
        format::time_of(epoch_seconds, self.now)
    }

    /// How long ago that was, in seconds.
    pub(crate) fn seconds_since(&self, epoch_seconds: f64) -> f64 {
        (epoch(self.now).as_secs_f64() - epoch_seconds).max(0.0)
    }
}
