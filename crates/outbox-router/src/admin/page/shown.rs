//! What every block of the page is made from.

use std::time::SystemTime;

use super::format;
use crate::{
    admin::{status::StatusDocument, view::View},
    monitor::Blame,
    status::Word,
};

/// One moment of the router: the document of `/status.json`, and what that one leaves out (topics,
/// latencies, the last hour).
pub(super) struct Shown<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) status: StatusDocument,
    pub(super) word: Word,
    pub(super) blame: Blame,
    /// When the page was made.
    pub(super) now: SystemTime,
}

impl<'a> Shown<'a> {
    pub(super) fn of(view: &'a View<'a>) -> Self {
        let status = StatusDocument::of(view);
        // The document is made of these words.
        let word = Word::parse(status.verdict.word).unwrap_or(Word::Failed);
        let blame = view.facts().blame;
        Self { view, status, word, blame, now: SystemTime::now() }
    }

    /// Whether it does not go on before a person has acted.
    pub(super) fn needs_person(&self) -> bool {
        self.status.verdict.acts == "person"
    }

    /// Whether PostgreSQL has answered that there is no such slot.
    pub(super) fn has_no_slot(&self) -> bool {
        self.view.monitor.watch.last.as_ref().is_some_and(|last| last.slot.is_none())
    }

    /// Why PostgreSQL does not answer, if it does not, and for how long it has not.
    pub(super) fn silence(&self) -> Option<f64> {
        self.status.monitor.trouble.as_ref()?;
        self.status.monitor.polled_seconds_ago.or(Some(0.0))
    }

    /// The time of day of a moment so many seconds ago.
    pub(super) fn time_ago(&self, seconds: f64) -> String {
        let ago = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
        format::time(self.now.checked_sub(ago).unwrap_or(self.now), self.now)
    }

    /// The time of day in seconds of the epoch.
    pub(super) fn time_of(&self, epoch_seconds: f64) -> String {
        format::time_of(epoch_seconds, self.now)
    }

    /// How long ago that was, in seconds.
    pub(super) fn seconds_since(&self, epoch_seconds: f64) -> f64 {
        (crate::admin::epoch::epoch(self.now).as_secs_f64() - epoch_seconds).max(0.0)
    }
}
