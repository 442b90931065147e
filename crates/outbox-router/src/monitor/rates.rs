//! How fast WAL is written and how fast the slot falls behind, smoothed; and how long, at that
//! pace, until PostgreSQL invalidates the slot.

use std::time::Duration;

use relay::{
    Lsn,
    source::{SlotHealth, bytes_between},
};
use tokio::time::Instant;

/// The time constant of the smoothing: a change in load shows after about this long; one checkpoint
/// or one batch does not.
const TIME_CONSTANT: Duration = Duration::from_secs(60);

/// The smoothed rates.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlotRates {
    last: Option<Sample>,
    rates: Option<Rates>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    current_wal_lsn: Lsn,
    retained: u64,
}

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// WAL that the server writes.
    pub wal: f64,
    /// Growth of what the slot retains; negative while it catches up.
    pub retained: f64,
}

impl SlotRates {
    /// Adds a reading of the slot to the rates. A lost slot retains nothing, so its rates are
    /// forgotten.
    pub fn observe(&mut self, slot: &SlotHealth, at: Instant) {
        let Some(retained) = slot.retained_bytes() else {
            *self = Self::default();
            return;
        };
        let sample = Sample { at, current_wal_lsn: slot.current_wal_lsn, retained };
        if let Some(last) = self.last {
            let seconds = at.duration_since(last.at).as_secs_f64();
            if seconds > 0.0 {
                self.blend(last, sample, seconds);
            }
        }
        self.last = Some(sample);
    }

    fn blend(&mut self, last: Sample, now: Sample, seconds: f64) {
        let written = number(bytes_between(last.current_wal_lsn, now.current_wal_lsn));
        let fresh = Rates {
            wal: written / seconds,
            retained: (number(now.retained) - number(last.retained)) / seconds,
        };
        let weight = 1.0 - (-seconds / TIME_CONSTANT.as_secs_f64()).exp();
        self.rates = Some(match self.rates {
            None => fresh,
            Some(old) => Rates {
                wal: old.wal + weight * (fresh.wal - old.wal),
                retained: old.retained + weight * (fresh.retained - old.retained),
            },
        });
    }

    /// The rates; `None` until the slot was read twice.
    pub fn rates(&self) -> Option<Rates> {
        self.rates
    }

    /// How long until the slot is in danger at the present pace, in seconds: infinite while it does
    /// not fall behind, zero when the limit is passed, however fast the slot grows, `None` where no
    /// limit is set or there are no rates yet.
    pub fn seconds_to_limit(&self, slot: &SlotHealth) -> Option<f64> {
        let safe = slot.safe_wal_bytes?;
        if safe == 0 {
            return Some(0.0);
        }
        let safe = number(safe);
        let growth = self.rates?.retained;
        Some(if growth > 0.0 { safe / growth } else { f64::INFINITY })
    }
}

/// A count as a floating-point number, converted in two halves so that no cast is needed; exact up
/// to 2⁵³.
pub(crate) fn number(bytes: u64) -> f64 {
    let high = u32::try_from(bytes >> 32).unwrap_or(u32::MAX);
    let low = u32::try_from(bytes & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    f64::from(high) * 4_294_967_296.0 + f64::from(low)
}

#[cfg(test)]
mod tests {
    use relay::testing::samples;

    use super::*;

    fn slot(current: u64, restart: u64, safe: Option<u64>) -> SlotHealth {
        SlotHealth {
            current_wal_lsn: Lsn::from_u64(current),
            restart_lsn: Some(Lsn::from_u64(restart)),
            safe_wal_bytes: safe,
            ..samples::slot()
        }
    }

    #[test]
    fn a_slot_that_does_not_advance_has_its_safe_bytes_left_at_the_pace_of_the_wal() {
        let (mut pace, start) = (SlotRates::default(), Instant::now());
        for second in 0..10 {
            pace.observe(&slot(second * 1_000, 0, None), start + Duration::from_secs(second));
        }
        let seconds = pace.seconds_to_limit(&slot(10_000, 0, Some(60_000))).unwrap();
        assert!((seconds - 60.0).abs() < 0.001, "{seconds}");
    }

    #[test]
    fn a_slot_that_catches_up_is_in_no_danger() {
        let (mut pace, start) = (SlotRates::default(), Instant::now());
        pace.observe(&slot(1_000, 0, None), start);
        pace.observe(&slot(2_000, 1_500, None), start + Duration::from_secs(1));
        assert_eq!(pace.seconds_to_limit(&slot(0, 0, Some(5))), Some(f64::INFINITY));
        assert_eq!(pace.rates().map(|rates| rates.wal), Some(1_000.0));
    }

    #[test]
    fn without_a_limit_there_is_no_time_to_it() {
        let (mut pace, start) = (SlotRates::default(), Instant::now());
        pace.observe(&slot(0, 0, None), start);
        assert_eq!(pace.seconds_to_limit(&slot(0, 0, Some(1))), None);
        pace.observe(&slot(9, 0, None), start + Duration::from_secs(1));
        assert_eq!(pace.seconds_to_limit(&slot(9, 0, None)), None);
    }

    #[test]
    fn a_limit_that_is_passed_leaves_no_time_although_nothing_is_written() {
        let (mut pace, start) = (SlotRates::default(), Instant::now());
        assert_eq!(pace.seconds_to_limit(&slot(0, 0, Some(0))), Some(0.0), "before the rates");
        pace.observe(&slot(1_000, 0, None), start);
        pace.observe(&slot(1_000, 0, None), start + Duration::from_secs(1));
        assert_eq!(pace.seconds_to_limit(&slot(1_000, 0, Some(0))), Some(0.0));
    }

    #[test]
    fn counts_keep_their_value() {
        assert_eq!(number(0), 0.0);
        assert_eq!(number((1 << 53) - 1), 9_007_199_254_740_991.0);
    }
}
