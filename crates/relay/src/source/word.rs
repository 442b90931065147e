//! What this process told the slot, and for how long that says where the slot can stand.

use std::time::Duration;

use pgoutput::Lsn;

use crate::{
    bug::{self, Bug},
    clock::Moment,
};

/// The highest position that this process told the server, or found at the slot: until somebody else may have moved it,
/// where the slot can stand; and for ever, what the server's WAL must hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct Word {
    told: Option<Told>,
    furthest: Option<Lsn>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    flush: Lsn,
    at: Moment,
}

impl Word {
    /// For so long after our last word the slot can stand no further than we told it, unless somebody else has moved it.
    /// Another router may have: taken over, confirmed, and let go of the slot again before we looked. That is so rare
    /// within this time that the other explanation is believed, a slot that was made anew or advanced by hand; whoever
    /// is wrong then has stopped aloud, and lost nothing.
    pub const HOLDS: Duration = Duration::from_secs(10);

    /// Notes where the slot stood at the start of a session. What was told before says nothing more, not even if it was
    /// more: a server that was restored, or has crashed, starts over from here.
    pub fn found(&mut self, position: Lsn, now: Moment) {
        self.told = Some(Told { flush: position, at: now });
        self.furthest = self.furthest.max(Some(position));
    }

    /// Notes what the server was told in a session that was found somewhere.
    pub fn told(&mut self, flush: Lsn, now: Moment) {
        self.furthest = self.furthest.max(Some(flush));
        if let Some(told) = &mut self.told {
            told.flush = told.flush.max(flush);
            told.at = now;
        }
    }

    /// The furthest that the slot can stand, while that is certain.
    pub fn holds(&self, now: Moment) -> Option<Lsn> {
        self.told.filter(|told| now.since(told.at) < Self::HOLDS).map(|told| told.flush)
    }

    /// Another process holds the slot and moves it, or may have: where it stood when we knew it says nothing any more.
    pub fn forget(&mut self) {
        if bug::is(Bug::NeverForgetWord) {
            return;
        }
        self.told = None;
    }

    /// The furthest of all: the server had that much WAL, whoever has held the slot since.
    pub fn furthest(&self) -> Option<Lsn> {
        self.furthest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    #[test]
    fn nothing_is_known_before_the_first_word() {
        assert_eq!(Word::default().holds(at(0)), None);
    }

    #[test]
    fn the_highest_position_holds_until_ten_seconds_after_the_last_word() {
        let mut word = Word::default();
        word.found(Lsn::from_u64(4), at(1));
        word.told(Lsn::from_u64(8), at(2));
        word.told(Lsn::from_u64(5), at(3));
        assert_eq!(word.holds(at(12)), Some(Lsn::from_u64(8)));
        assert_eq!(word.holds(at(13)), None);
    }

    #[test]
    fn a_slot_that_is_found_further_back_can_stand_no_further_than_that() {
        let mut word = Word::default();
        word.found(Lsn::from_u64(100), at(1));
        word.found(Lsn::from_u64(40), at(20));
        assert_eq!(word.holds(at(21)), Some(Lsn::from_u64(40)), "or an advance to 90 would pass");
        word.told(Lsn::from_u64(50), at(22));
        assert_eq!(word.holds(at(23)), Some(Lsn::from_u64(50)));
    }

    #[test]
    fn that_the_server_had_so_much_wal_is_never_forgotten() {
        let mut word = Word::default();
        assert_eq!(word.furthest(), None);
        word.found(Lsn::from_u64(8), at(1));
        assert_eq!(word.furthest(), Some(Lsn::from_u64(8)));
        word.told(Lsn::from_u64(100), at(2));
        word.forget();
        word.found(Lsn::from_u64(40), at(500));
        assert_eq!(word.furthest(), Some(Lsn::from_u64(100)));
    }

    #[test]
    fn after_another_holder_nothing_holds_until_the_slot_is_ours_again() {
        let mut word = Word::default();
        word.found(Lsn::from_u64(8), at(1));
        word.forget();
        assert_eq!(word.holds(at(1)), None);
        word.told(Lsn::ZERO, at(2));
        assert_eq!(word.holds(at(2)), None, "an update to a connection that is gone");
        word.found(Lsn::from_u64(5), at(2));
        assert_eq!(word.holds(at(2)), Some(Lsn::from_u64(5)));
    }
}
