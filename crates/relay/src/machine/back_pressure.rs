//! For how long the socket was not read, and why. While it is not read, PostgreSQL keeps the WAL:
//! these times say what the slot's lag waited for.

use std::time::Duration;

use crate::{clock::Moment, telemetry::PauseReason};

/// The pauses since the process started, and the one that goes on.
#[derive(Debug, Default)]
pub(super) struct BackPressure {
    totals: [Duration; PauseReason::ALL.len()],
    present: Option<(PauseReason, Moment)>,
}

impl BackPressure {
    /// Reading is paused for this reason, or is not paused.
    pub(super) fn observe(&mut self, reason: Option<PauseReason>, at: Moment) {
        let before = self.present.map(|(reason, _)| reason);
        if before == reason {
            return;
        }
        self.totals = self.totals(at);
        self.present = reason.map(|reason| (reason, at));
    }

    /// The time spent for each reason until now, in the order of [`PauseReason::ALL`].
    pub(super) fn totals(&self, at: Moment) -> [Duration; PauseReason::ALL.len()] {
        let mut totals = self.totals;
        if let Some((reason, since)) = self.present
            && let Some(total) = totals.get_mut(reason.index())
        {
            *total += at.since(since);
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_each_reason_is_summed_up_and_the_present_pause_counts() {
        let start = Moment::default();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut pauses = BackPressure::default();
        pauses.observe(None, start);
        pauses.observe(Some(PauseReason::Window), after(1));
        pauses.observe(Some(PauseReason::Window), after(2));
        pauses.observe(Some(PauseReason::Row), after(4));
        pauses.observe(None, after(5));
        pauses.observe(Some(PauseReason::Window), after(8));
        let totals = pauses.totals(after(10));
        let of = |reason: PauseReason| totals[reason.index()].as_secs();
        assert_eq!((of(PauseReason::Window), of(PauseReason::Row)), (5, 1));
        assert_eq!((of(PauseReason::Queue), of(PauseReason::Topic)), (0, 0));
    }
}
