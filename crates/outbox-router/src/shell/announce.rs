//! Log lines when the state changes, and only then: a person who reads them at night wants the story, not the noise.

mod witness;

use relay::{Condition, Failure, Snapshot, State};
use tokio::time::Instant;

/// Remembers what was said last.
#[derive(Debug, Default)]
pub(super) struct Announcer {
    said: Option<(State, Option<String>)>,
    witness: witness::Said,
}

impl Announcer {
    /// Says what changed: ERROR wakes somebody, WARN is out of the ordinary but handled, INFO is a change of state.
    pub(super) fn announce(&mut self, snapshot: &Snapshot, now: Instant) {
        self.announce_condition(&snapshot.condition);
        for news in self.witness.news(&snapshot.witness, now) {
            news.say();
        }
    }

    fn announce_condition(&mut self, condition: &Condition) {
        let reason = condition.reason.as_ref();
        let now = (condition.state, reason.map(subject));
        if self.said.as_ref() == Some(&now) {
            return;
        }
        self.said = Some(now);
        let state = condition.state.as_str();
        let Some(reason) = reason else {
            tracing::info!(state, "the router is {state}");
            return;
        };
        let code = reason.code.as_str();
        let hint = reason.hint.as_deref();
        let lsn = reason.lsn.map(tracing::field::display);
        match condition.state {
            State::Failed => {
                tracing::error!(state, code, hint, lsn, "the router stopped: {}", reason.message);
            }
            State::Starting
            | State::Standby
            | State::Streaming
            | State::Blocked
            | State::Draining => {
                tracing::warn!(state, code, hint, lsn, "the router is {state}: {}", reason.message);
            }
        }
    }
}

/// What a reason is about: numbers that only grow, such as seconds waited, make no news.
fn subject(reason: &Failure) -> String {
    let words: String = reason.message.chars().filter(|c| !c.is_ascii_digit()).collect();
    format!("{} {words}", reason.code)
}
