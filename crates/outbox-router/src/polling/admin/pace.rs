//! How fast pending rows become fewer, from what the survey counted over the last minutes.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::polling::survey::RowCount;

/// How far back counts are compared.
const SPAN: Duration = Duration::from_secs(120);

/// A shorter time between two counts says little.
const SHORTEST: Duration = Duration::from_secs(5);

/// More counts than this are not needed to tell a rate.
const COUNTS_MAX: usize = 256;

/// A time to empty that is longer is none.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// See the module's header.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// The oldest first.
    counts: VecDeque<(Instant, u64)>,
}

impl Pace {
    /// Takes a reading of the survey. Where not all rows were counted, nothing is known.
    pub(super) fn observe(&mut self, at: Instant, pending: Option<RowCount>) {
        if self.counts.back().is_some_and(|(last, _)| *last >= at) {
            return;
        }
        let Some(RowCount::Exactly(rows)) = pending else {
            self.counts.clear();
            return;
        };
        self.counts.push_back((at, rows));
        let is_old = |(then, _): &(Instant, u64)| at.saturating_duration_since(*then) > SPAN;
        while self.counts.front().is_some_and(is_old) || self.counts.len() > COUNTS_MAX {
            self.counts.pop_front();
        }
    }

    /// By how many rows a second they have become fewer; less than zero: more.
    pub(super) fn fewer_per_second(&self) -> Option<f64> {
        let ((from, before), (to, now)) = (self.counts.front()?, self.counts.back()?);
        let time = to.saturating_duration_since(*from);
        if time < SHORTEST {
            return None;
        }
        // Counts as seconds, to divide them without losing whole numbers.
        let rate = |rows: u64| Duration::from_secs(rows).div_duration_f64(time);
        Some(rate(before.saturating_sub(*now)) - rate(now.saturating_sub(*before)))
    }

    /// In what time nothing is pending at this pace but so many rows, which wait for their time: a
    /// second at least; `None` where that cannot be said.
    pub(super) fn empty_in(&self, not_due: u64) -> Option<Duration> {
        let rate = self.fewer_per_second().filter(|rate| *rate > 0.0)?;
        let (_, rows) = self.counts.back()?;
        let rows = rows.saturating_sub(not_due);
        let seconds = (Duration::from_secs(rows).as_secs_f64() / rate).max(1.0);
        Duration::try_from_secs_f64(seconds).ok().filter(|time| rows > 0 && *time <= LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counts: &[(u64, u64)]) -> Pace {
        let (begin, mut pace) = (Instant::now(), Pace::default());
        for (second, rows) in counts {
            pace.observe(begin + Duration::from_secs(*second), Some(RowCount::Exactly(*rows)));
        }
        pace
    }

    #[test]
    fn rows_that_become_fewer_have_a_time_to_empty() {
        let pace = counted(&[(0, 1_000), (10, 900), (20, 800)]);
        assert_eq!(pace.fewer_per_second(), Some(10.0));
        assert_eq!(pace.empty_in(0), Some(Duration::from_secs(80)));
        assert_eq!(pace.empty_in(700), Some(Duration::from_secs(10)), "700 wait for their time");
        assert_eq!(pace.empty_in(800), None);
        assert_eq!(counted(&[(0, 1_000), (10, 1)]).empty_in(0), Some(Duration::from_secs(1)));
    }

    #[test]
    fn rows_that_become_more_or_were_counted_once_have_none() {
        assert_eq!(counted(&[(0, 10), (10, 20)]).fewer_per_second(), Some(-1.0));
        assert_eq!(counted(&[(0, 10), (10, 20)]).empty_in(0), None);
        assert_eq!(counted(&[(0, 10), (10, 10)]).empty_in(0), None);
        assert_eq!(counted(&[(0, 10)]).fewer_per_second(), None);
        assert_eq!(counted(&[(0, 10), (2, 5)]).fewer_per_second(), None, "too short a time");
        assert_eq!(counted(&[(0, 10), (10, 0)]).empty_in(0), None, "nothing is pending");
    }

    #[test]
    fn a_count_that_ended_at_its_bound_says_nothing_of_the_rate() {
        let mut pace = counted(&[(0, 1_000), (10, 900)]);
        pace.observe(Instant::now() + Duration::from_secs(20), Some(RowCount::AtLeast(1_000)));
        assert_eq!(pace.fewer_per_second(), None);
    }

    #[test]
    fn what_is_older_than_two_minutes_does_not_count() {
        let pace = counted(&[(0, 100_000), (100, 1_000), (200, 900)]);
        assert_eq!(pace.fewer_per_second(), Some(1.0));
    }
}
