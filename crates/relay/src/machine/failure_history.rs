//! The failures that ended sessions or keep the next from beginning, until they are overcome. It
//! also counts repetitions: the third failure of class replay at one position needs a
//! person.
//!
//! If a person is needed, the state must stay `failed` while the process reconnects, replays, or
//! loses the server for a while. Otherwise it would alternate between `failed` and other states.
//! The same holds for a record that Kafka refuses: each session ends at its position, so the
//! failure stands until the confirmed position is past that position.

use pgoutput::Lsn;

use crate::failure::{Class, Code, Failure};

/// The same failure of class replay this many times at the same position needs a person.
const REPEATS_MAX: u32 = 3;

/// When a failure happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum During {
    /// Before there was a session.
    Connecting,
    /// In a session that had confirmed this position.
    Streaming(Lsn),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct FailureHistory {
    /// Overcome when a session begins.
    until_session: Option<KnownFailure>,
    /// Overcome by a confirmed position past its position.
    until_position: Option<(KnownFailure, Lsn)>,
    repeated: Option<Repeated>,
}

#[derive(Debug)]
struct KnownFailure {
    failure: Failure,
    class: Class,
    during: During,
}

impl KnownFailure {
    fn needs_person(&self) -> bool {
        self.class == Class::Mendable
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Repeated {
    code: Code,
    lsn: Lsn,
    times: u32,
}

impl FailureHistory {
    /// Adds a failure and returns the class that decides what follows.
    pub(super) fn add(&mut self, failure: Failure, during: During) -> Class {
        let lsn = match during {
            During::Connecting => failure.lsn,
            During::Streaming(confirmed) if failure.class() == Class::Replay => {
                Some(failure.lsn.unwrap_or(confirmed))
            }
            During::Streaming(_) => failure.lsn,
        };
        let class = match (failure.class(), lsn) {
            (Class::Replay, Some(lsn)) => self.count(failure.code, lsn),
            // A gap that is added here instead of halting was found before the first session, so a
            // person must finish the set-up; or it is that of a server that is not the witness's.
            (Class::Gap, _) => Class::Mendable,
            (class, _) => class,
        };
        // A failure without an LSN of its own is counted at the confirmed position. The next
        // session overcomes it twice, since an idle slot may never pass that position; when it
        // needs a person, it stands until that position is passed.
        let until_position = failure.lsn.or(lsn.filter(|_| class == Class::Mendable));
        let new = KnownFailure { failure, class, during };
        match until_position {
            Some(lsn) if supersedes(&new, self.until_position.as_ref().map(|(known, _)| known)) => {
                self.until_position = Some((new, lsn));
            }
            None if supersedes(&new, self.until_session.as_ref()) => {
                self.until_session = Some(new);
            }
            Some(_) | None => {}
        }
        class
    }

    /// Counts a failure of class replay at a position; from the third time on it needs a person.
    fn count(&mut self, code: Code, lsn: Lsn) -> Class {
        let times = match &self.repeated {
            Some(known) if known.code == code && known.lsn == lsn => known.times.saturating_add(1),
            Some(_) | None => 1,
        };
        self.repeated = Some(Repeated { code, lsn, times });
        if times >= REPEATS_MAX { Class::Mendable } else { Class::Replay }
    }

    /// A session began: what had kept it from beginning is overcome.
    pub(super) fn session_began(&mut self) {
        self.until_session = None;
    }

    /// This position is confirmed, by this router or another.
    pub(super) fn position_confirmed(&mut self, confirmed: Lsn) {
        self.until_position.take_if(|(_, lsn)| confirmed > *lsn);
        self.repeated.take_if(|known| confirmed > known.lsn);
    }

    /// Why there is no session, or why this one cannot pass a position: first what a person is
    /// needed for, then the failure that a session will overcome.
    pub(super) fn reason(&self) -> Option<&Failure> {
        let all =
            || self.until_session.iter().chain(self.until_position.iter().map(|(known, _)| known));
        all().find(|known| known.needs_person()).or(all().next()).map(|known| &known.failure)
    }

    /// Whether a person is needed.
    pub(super) fn need_person(&self) -> bool {
        self.until_session.as_ref().is_some_and(KnownFailure::needs_person)
            || self.until_position.as_ref().is_some_and(|(known, _)| known.needs_person())
    }

    /// The failure of Kafka that keeps the next session from beginning: the state topic cannot be
    /// read.
    pub(super) fn of_kafka(&self) -> Option<&Failure> {
        let known = self.until_session.as_ref()?;
        let is_it = known.during == During::Connecting && known.failure.code.is_of_kafka();
        is_it.then_some(&known.failure)
    }

    /// What Kafka refuses at a position that is not passed yet; `None` while another failure keeps
    /// a session from beginning.
    pub(super) fn refusal(&self) -> Option<&Failure> {
        match (&self.until_session, &self.until_position) {
            (None, Some((KnownFailure { failure, class: Class::Transport, .. }, _)))
                if failure.code.is_of_kafka() =>
            {
                Some(failure)
            }
            (Some(_) | None, _) => None,
        }
    }
}

/// Whether `new` replaces `known`: a failure that needs a person is replaced only by another such
/// failure.
fn supersedes(new: &KnownFailure, known: Option<&KnownFailure>) -> bool {
    new.needs_person() || !known.is_some_and(KnownFailure::needs_person)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(position: u64) -> Lsn {
        Lsn::from_u64(position)
    }

    fn refused() -> Failure {
        Failure::new(Code::RecordRefused, "refused").at(lsn(100))
    }

    fn unreachable() -> Failure {
        Failure::new(Code::ServerUnreachable, "no route")
    }

    #[test]
    fn the_third_replay_failure_at_one_position_needs_a_person_and_transport_never_counts() {
        let mut history = FailureHistory::default();
        let during = During::Streaming(lsn(50));
        assert_eq!(history.add(refused(), during), Class::Replay);
        for _ in 0..5 {
            assert_eq!(history.add(unreachable(), during), Class::Transport);
        }
        assert_eq!(history.add(refused(), during), Class::Replay);
        assert_eq!(history.add(refused(), during), Class::Mendable);
        assert!(history.need_person());
    }

    #[test]
    fn the_same_failure_elsewhere_starts_over() {
        let mut history = FailureHistory::default();
        let during = During::Streaming(lsn(50));
        for position in [100, 200, 300, 400] {
            let failure = Failure::new(Code::RecordRefused, "refused").at(lsn(position));
            assert_eq!(history.add(failure, during), Class::Replay);
        }
    }

    #[test]
    fn a_failure_without_a_position_counts_at_the_confirmed_one() {
        let failure = || Failure::new(Code::ServerError, "invalid memory alloc request size");
        let mut history = FailureHistory::default();
        assert_eq!(history.add(failure(), During::Streaming(lsn(10))), Class::Replay);
        assert_eq!(history.add(failure(), During::Streaming(lsn(20))), Class::Replay);
        assert_eq!(history.add(failure(), During::Streaming(lsn(20))), Class::Replay);
        assert_eq!(history.add(failure(), During::Streaming(lsn(20))), Class::Mendable);
    }

    #[test]
    fn a_person_stays_needed_until_the_position_is_passed() {
        let mut history = FailureHistory::default();
        let during = During::Streaming(lsn(50));
        let too_large = || Failure::new(Code::RecordTooLarge, "too large").at(lsn(100));
        history.add(too_large(), during);
        history.add(unreachable(), during);
        history.session_began();
        history.position_confirmed(lsn(100));
        assert_eq!(history.reason(), Some(&too_large()));
        history.position_confirmed(lsn(101));
        assert_eq!(history.reason(), None);
    }

    #[test]
    fn what_prevented_a_connection_is_over_once_connected() {
        let mut history = FailureHistory::default();
        let refused = Failure::new(Code::AuthenticationFailed, "wrong password");
        assert_eq!(history.add(refused, During::Connecting), Class::Mendable);
        history.add(unreachable(), During::Connecting);
        assert!(history.need_person());
        history.session_began();
        assert!(!history.need_person());
    }

    #[test]
    fn what_kafka_refuses_is_reported_until_its_position_is_passed() {
        let mut history = FailureHistory::default();
        let forbidden = || Failure::new(Code::TopicForbidden, "forbidden").at(lsn(100));
        assert_eq!(history.add(forbidden(), During::Streaming(lsn(50))), Class::Transport);
        assert_eq!(history.refusal(), Some(&forbidden()));
        history.add(unreachable(), During::Connecting);
        assert_eq!(history.refusal(), None, "first the server");
        assert_eq!(history.reason(), Some(&unreachable()));
        history.session_began();
        history.position_confirmed(lsn(100));
        assert_eq!(history.refusal(), Some(&forbidden()));
        history.position_confirmed(lsn(108));
        assert_eq!((history.refusal(), history.reason()), (None, None));
    }

    #[test]
    fn a_failure_without_a_position_does_not_outlast_the_reconnection() {
        let mut history = FailureHistory::default();
        let shrunk = Failure::new(Code::TopicShrunk, "re-created");
        history.add(shrunk, During::Streaming(lsn(50)));
        history.session_began();
        assert_eq!(history.reason(), None, "an idle slot would never pass 50");
    }
}
