//! What ended the last session or keeps the next from beginning, for as long as it has not been
//! overcome; and the count that turns a failure which repeats itself into one for a person.
//!
//! A person who is needed stays needed: between two attempts the process reconnects, replays,
//! perhaps loses the server for a while, and none of that may make the state flap between `failed`
//! and something more cheerful. The same goes for a record that Kafka refuses: each session gets as
//! far as its place and ends there, so it stands in the way until the confirmed position has passed
//! that place.

use pgoutput::Lsn;

use crate::failure::{Class, Code, Failure};

/// The same data failure at the same place this many times is for a person.
const REPEATS_MAX: u32 = 3;

/// When a failure happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum During {
    /// Before there was a session.
    Connecting,
    /// In a session that had told the server this position.
    Streaming(Lsn),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct FailureHistory {
    /// Overcome by a session.
    passing: Option<Trouble>,
    /// Overcome by a confirmed position past its place.
    lasting: Option<(Trouble, Lsn)>,
    repeated: Option<Repeated>,
}

#[derive(Debug)]
struct Trouble {
    failure: Failure,
    class: Class,
    during: During,
}

impl Trouble {
    fn needs_person(&self) -> bool {
        self.class == Class::Mendable
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Repeated {
    code: Code,
    place: Lsn,
    times: u32,
}

impl FailureHistory {
    /// Takes note of a failure and says what follows from it.
    pub(super) fn note(&mut self, failure: Failure, during: During) -> Class {
        let place = match during {
            During::Connecting => failure.lsn,
            During::Streaming(confirmed) if failure.class() == Class::Replay => {
                Some(failure.lsn.unwrap_or(confirmed))
            }
            During::Streaming(_) => failure.lsn,
        };
        let class = match (failure.class(), place) {
            (Class::Replay, Some(place)) => self.count(failure.code, place),
            // One that is noted here, and not halted at, was found before the first session: set-up
            // is a person's work.
            (Class::Gap, _) => Class::Mendable,
            (class, _) => class,
        };
        // A place that was made up for counting is no place to wait for: an idle slot may never
        // pass it.
        let lasting = failure.lsn.or(place.filter(|_| class == Class::Mendable));
        let trouble = Trouble { failure, class, during };
        match lasting {
            Some(place) if supersedes(&trouble, self.lasting.as_ref().map(|(known, _)| known)) => {
                self.lasting = Some((trouble, place));
            }
            None if supersedes(&trouble, self.passing.as_ref()) => self.passing = Some(trouble),
            Some(_) | None => {}
        }
        class
    }

    /// The same data failure at the same place again and again is for a person; transport failures
    /// never count.
    fn count(&mut self, code: Code, place: Lsn) -> Class {
        let times = match &self.repeated {
            Some(known) if known.code == code && known.place == place => {
                known.times.saturating_add(1)
            }
            Some(_) | None => 1,
        };
        self.repeated = Some(Repeated { code, place, times });
        if times >= REPEATS_MAX { Class::Mendable } else { Class::Replay }
    }

    /// A session began.
    pub(super) fn connected(&mut self) {
        self.passing = None;
    }

    /// The server was told this position, or says that it was.
    pub(super) fn passed(&mut self, confirmed: Lsn) {
        self.lasting.take_if(|(_, place)| confirmed > *place);
        self.repeated.take_if(|known| confirmed > known.place);
    }

    /// Why there is no session, or what stands in this one's way: what a person is needed for, else
    /// the latest.
    pub(super) fn reason(&self) -> Option<&Failure> {
        let all = || self.passing.iter().chain(self.lasting.iter().map(|(trouble, _)| trouble));
        all()
            .find(|trouble| trouble.needs_person())
            .or(all().next())
            .map(|trouble| &trouble.failure)
    }

    /// Whether the reason is for a person.
    pub(super) fn need_person(&self) -> bool {
        self.passing.as_ref().is_some_and(Trouble::needs_person)
            || self.lasting.as_ref().is_some_and(|(trouble, _)| trouble.needs_person())
    }

    /// What of Kafka keeps the next session from beginning: the state topic cannot be read.
    pub(super) fn of_kafka(&self) -> Option<&Failure> {
        let trouble = self.passing.as_ref()?;
        let is_it = trouble.during == During::Connecting && trouble.failure.code.is_of_kafka();
        is_it.then_some(&trouble.failure)
    }

    /// What Kafka refuses at a place that has not been passed, unless something else is in the way
    /// before it.
    pub(super) fn refusal(&self) -> Option<&Failure> {
        match (&self.passing, &self.lasting) {
            (None, Some((Trouble { failure, class: Class::Transport, .. }, _)))
                if failure.code.is_of_kafka() =>
            {
                Some(failure)
            }
            (Some(_) | None, _) => None,
        }
    }
}

/// A failure for a person gives way only to another.
fn supersedes(new: &Trouble, known: Option<&Trouble>) -> bool {
    new.needs_person() || !known.is_some_and(Trouble::needs_person)
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
    fn the_third_data_failure_at_one_place_is_for_a_person_and_transport_never_counts() {
        let mut troubles = FailureHistory::default();
        let during = During::Streaming(lsn(50));
        assert_eq!(troubles.note(refused(), during), Class::Replay);
        for _ in 0..5 {
            assert_eq!(troubles.note(unreachable(), during), Class::Transport);
        }
        assert_eq!(troubles.note(refused(), during), Class::Replay);
        assert_eq!(troubles.note(refused(), during), Class::Mendable);
        assert!(troubles.need_person());
    }

    #[test]
    fn the_same_failure_elsewhere_starts_over() {
        let mut troubles = FailureHistory::default();
        let during = During::Streaming(lsn(50));
        for place in [100, 200, 300, 400] {
            let failure = Failure::new(Code::RecordRefused, "refused").at(lsn(place));
            assert_eq!(troubles.note(failure, during), Class::Replay);
        }
    }

    #[test]
    fn a_failure_without_a_place_counts_at_the_confirmed_position() {
        let failure = || Failure::new(Code::ServerError, "invalid memory alloc request size");
        let mut troubles = FailureHistory::default();
        assert_eq!(troubles.note(failure(), During::Streaming(lsn(10))), Class::Replay);
        assert_eq!(troubles.note(failure(), During::Streaming(lsn(20))), Class::Replay);
        assert_eq!(troubles.note(failure(), During::Streaming(lsn(20))), Class::Replay);
        assert_eq!(troubles.note(failure(), During::Streaming(lsn(20))), Class::Mendable);
    }

    #[test]
    fn a_person_stays_needed_until_the_place_is_passed() {
        let mut troubles = FailureHistory::default();
        let during = During::Streaming(lsn(50));
        let too_large = || Failure::new(Code::RecordTooLarge, "too large").at(lsn(100));
        troubles.note(too_large(), during);
        troubles.note(unreachable(), during);
        troubles.connected();
        troubles.passed(lsn(100));
        assert_eq!(troubles.reason(), Some(&too_large()));
        troubles.passed(lsn(101));
        assert_eq!(troubles.reason(), None);
    }

    #[test]
    fn what_kept_us_from_connecting_is_over_when_connected() {
        let mut troubles = FailureHistory::default();
        let refused = Failure::new(Code::AuthenticationFailed, "wrong password");
        assert_eq!(troubles.note(refused, During::Connecting), Class::Mendable);
        troubles.note(unreachable(), During::Connecting);
        assert!(troubles.need_person());
        troubles.connected();
        assert!(!troubles.need_person());
    }

    #[test]
    fn what_kafka_refuses_stands_in_the_way_until_its_place_is_passed() {
        let mut troubles = FailureHistory::default();
        let forbidden = || Failure::new(Code::TopicForbidden, "forbidden").at(lsn(100));
        assert_eq!(troubles.note(forbidden(), During::Streaming(lsn(50))), Class::Transport);
        assert_eq!(troubles.refusal(), Some(&forbidden()));
        troubles.note(unreachable(), During::Connecting);
        assert_eq!(troubles.refusal(), None, "first the server");
        assert_eq!(troubles.reason(), Some(&unreachable()));
        troubles.connected();
        troubles.passed(lsn(100));
        assert_eq!(troubles.refusal(), Some(&forbidden()));
        troubles.passed(lsn(108));
        assert_eq!((troubles.refusal(), troubles.reason()), (None, None));
    }

    #[test]
    fn a_failure_without_a_place_does_not_outlast_the_reconnection() {
        let mut troubles = FailureHistory::default();
        let shrunk = Failure::new(Code::TopicShrunk, "made anew");
        troubles.note(shrunk, During::Streaming(lsn(50)));
        troubles.connected();
        assert_eq!(troubles.reason(), None, "an idle slot would never pass 50");
    }
}
