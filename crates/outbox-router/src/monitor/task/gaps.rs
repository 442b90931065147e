//! From a defect to a gap: which interval is at risk, and who is told. The monitor finds most defects itself; of some
//! the stream speaks first, and then the relay has halted already but knows no interval.

use relay::{Class, Code, Failure, Lsn, Snapshot, State};

use super::{Monitor, MonitorEvent};
use crate::monitor::{
    gap::{Gap, Interval, Mark},
    lag::{is_connected, safe_position},
};

/// When all was well for the last time.
#[derive(Debug, Clone)]
pub(super) struct LastGood {
    pub(super) checked: Mark,
    pub(super) confirmed: Option<Lsn>,
}

impl<C> Monitor<C> {
    /// Tells the relay, if there was something to lose: a router that is being set up has no gap.
    pub(super) fn gap(&mut self, failure: Failure, now: &Mark) {
        let last_good = self.last_good();
        let snapshot = self.snapshot();
        if self.told.contains(&failure.code)
            || (last_good.is_none() && !is_connected(snapshot.condition.state))
        {
            return;
        }
        let code = failure.code;
        let from = last_good.map(|good| {
            if matches!(code, Code::SlotMissing | Code::SlotLost) {
                // The slot is what held the rows back: everything past the last confirmed position is at risk.
                let lsn = safe_position(&snapshot, good.confirmed).unwrap_or(good.checked.lsn);
                Mark { lsn, at: good.checked.at }
            } else {
                // The slot still has what was written before: at risk is what was written since.
                good.checked
            }
        });
        let gap = Gap::new(failure, Interval { from, to: now.clone() });
        let event = MonitorEvent::GapSuspected(gap.failure.clone());
        if self.channels.events.try_send(event).is_ok() {
            self.told.insert(code);
        }
        self.record(gap, &snapshot);
    }

    /// The relay heard of a gap from the stream, and everything may look well again by now: at risk is what was written
    /// since the last confirmed position.
    pub(super) fn adopt_gap(&mut self, now: &Mark) {
        let snapshot = self.snapshot();
        let Some(failure) = halted_by(&snapshot).cloned() else { return };
        let from = Mark { lsn: snapshot.confirmed, at: None };
        let gap = Gap::new(failure, Interval { from: Some(from), to: now.clone() });
        self.record(gap, &snapshot);
    }

    /// Keeps the first gap.
    fn record(&mut self, gap: Gap, relay: &Snapshot) {
        if self.report.gap.is_some() {
            return;
        }
        if halted_by(relay).is_some() {
            // The relay has said what happened, but not which interval is at risk.
            let Failure { code, message, hint, .. } = &gap.failure;
            tracing::error!(code = code.as_str(), hint = hint.as_deref(), "{message}");
        }
        self.report.gap = Some(gap);
    }

    fn last_good(&self) -> Option<LastGood> {
        self.last_good.clone().or_else(|| {
            self.channels.baseline.borrow().as_ref().map(|baseline| LastGood {
                checked: baseline.checked.clone(),
                confirmed: baseline.slot.confirmed_flush_lsn,
            })
        })
    }
}

/// The gap that the relay has halted at. Before its first session, when nothing was confirmed, there is none: the same
/// codes then tell of a set-up that is not finished.
fn halted_by(snapshot: &Snapshot) -> Option<&Failure> {
    let reason = snapshot.condition.reason.as_ref()?;
    let is_gap = snapshot.condition.state == State::Failed && reason.class() == Class::Gap;
    (is_gap && snapshot.confirmed > Lsn::from_u64(0)).then_some(reason)
}
