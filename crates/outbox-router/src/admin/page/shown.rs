//! What every block of the page is made from.

use std::time::SystemTime;

use super::judged::Judged;
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

    /// What the blocks that every source has are made from.
    pub(super) fn judged(&self) -> Judged<'_> {
        let Self { status, word, blame, now, .. } = self;
        Judged {
            name: &status.name,
            verdict: &status.verdict,
            history: &status.history,
            word: *word,
            blame: *blame,
            now: *now,
        }
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
        self.judged().time_ago(seconds)
    }

    /// How long ago that was, in seconds.
    pub(super) fn seconds_since(&self, epoch_seconds: f64) -> f64 {
        self.judged().seconds_since(epoch_seconds)
    }
}
