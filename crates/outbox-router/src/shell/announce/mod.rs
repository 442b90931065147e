//! Log lines about the router's state, written only when it changes, so that the log stays short
//! enough to be read.

mod letters;
mod witness;

use relay::{Class, Condition, Failure, Snapshot, State};
use tokio::time::Instant;

pub(super) use letters::{dead_letter, refused_again, skipped};

use crate::{
    codes::hint,
    condition_log::{ConditionLog, subject},
    warning::warn,
};

/// Remembers what was logged last.
#[derive(Debug, Default)]
pub(super) struct Announcer {
    condition: ConditionLog,
    witness: witness::LoggedWitness,
    /// The cautions about the state topic that were logged last.
    cautions: Vec<Failure>,
    /// Why the last write to the state topic failed; `None` once a write is acknowledged.
    refusal: Option<String>,
    /// How many reads of the state topic have failed since the last that succeeded, while
    /// streaming.
    unread: u32,
}

impl Announcer {
    /// Logs what changed. ERROR: somebody has to act. WARN: unusual, but handled. INFO: a change of
    /// state.
    pub(super) fn announce(&mut self, snapshot: &Snapshot, now: Instant) {
        let condition = &snapshot.condition;
        self.condition.announce(condition.state.as_str(), condition.reason.as_ref());
        for change in self.witness.changes(&snapshot.witness, now) {
            change.log();
        }
    }

    /// Logs the cautions about the state topic that were not logged last time.
    pub(super) fn cautions(&mut self, cautions: &[Failure]) {
        for caution in cautions.iter().filter(|caution| !self.cautions.contains(caution)) {
            warn(caution);
        }
        self.cautions = cautions.to_vec();
    }

    /// Logs why a write to the state topic has failed, where the condition does not: a router that
    /// halts because of a gap retries to write the gap to the state topic, and its condition names
    /// only the gap.
    pub(super) fn refused(&mut self, failure: &Failure, condition: &Condition) {
        if self.is_news(failure, condition) {
            let hint = hint(failure);
            tracing::warn!(code = %failure.code, hint, "a gap is not in the witness: {failure:#}");
        }
    }

    fn is_news(&mut self, failure: &Failure, condition: &Condition) -> bool {
        let is_about_a_gap =
            condition.reason.as_ref().is_some_and(|reason| reason.class() == Class::Gap);
        if condition.state != State::Failed || !is_about_a_gap {
            return false;
        }
        let subject = subject(failure);
        self.refusal.replace(subject.clone()) != Some(subject)
    }

    /// Logs once that the state topic cannot be read while a session streams. The condition does
    /// not show it, because rows flow.
    pub(super) fn state_topic_read(&mut self, read: Result<(), &Failure>, condition: &Condition) {
        if let Err(failure) = read
            && self.is_unread(condition)
        {
            let hint = hint(failure);
            tracing::warn!(
                code = %failure.code, hint,
                "the state topic cannot be read, so a gap that another router finds is not noticed: {failure:#}"
            );
        }
        if read.is_ok() {
            self.unread = 0;
        }
    }

    /// Counts a failed read; true at the second. A single failure may be a leader election.
    fn is_unread(&mut self, condition: &Condition) -> bool {
        let streams = matches!(condition.state, State::Streaming | State::Blocked);
        self.unread = self.unread.saturating_add(u32::from(streams));
        streams && self.unread == 2
    }

    /// A write to the state topic was acknowledged.
    pub(super) fn write_acknowledged(&mut self) {
        self.refusal = None;
    }
}

#[cfg(test)]
mod tests {
    use relay::Code;

    use super::*;

    fn failed(code: Code) -> Condition {
        let reason = Some(Failure::new(code, "it failed"));
        Condition { state: State::Failed, reason }
    }

    #[test]
    fn the_reason_why_a_gap_is_not_recorded_is_logged_once_until_it_is() {
        let mut announcer = Announcer::default();
        let (too_large, gap) = (Failure::new(Code::RecordTooLarge, "x"), failed(Code::SlotMissing));
        let forbidden = Failure::new(Code::TopicForbidden, "y");
        assert!(announcer.is_news(&too_large, &gap));
        assert!(!announcer.is_news(&too_large, &gap));
        assert!(announcer.is_news(&forbidden, &gap));
        announcer.write_acknowledged();
        assert!(announcer.is_news(&forbidden, &gap));
    }

    #[test]
    fn a_state_topic_that_cannot_be_checked_is_logged_once_until_it_can() {
        let mut announcer = Announcer::default();
        let streaming = Condition { state: State::Streaming, reason: None };
        let is_logged = |announcer: &mut Announcer| announcer.is_unread(&streaming);
        assert_eq!([(); 4].map(|()| is_logged(&mut announcer)), [false, true, false, false]);
        announcer.state_topic_read(Ok(()), &streaming);
        assert_eq!([(); 2].map(|()| is_logged(&mut announcer)), [false, true]);
        let mut announcer = Announcer::default();
        let starting = Condition { state: State::Starting, reason: None };
        assert_eq!([(); 3].map(|()| announcer.is_unread(&starting)), [false; 3], "it says so");
    }

    #[test]
    fn what_the_condition_reports_is_not_logged_twice() {
        let mut announcer = Announcer::default();
        let too_large = Failure::new(Code::RecordTooLarge, "x");
        assert!(!announcer.is_news(&too_large, &failed(Code::RecordTooLarge)));
        let streaming = Condition { state: State::Streaming, reason: None };
        assert!(!announcer.is_news(&too_large, &streaming), "its session ends, and says why");
    }
}
