//! What the monitor remembers of the source, and when it forgets a gap.
//!
//! A gap stays when its cause is gone, because what was missed is still missing. It is over when it
//! was decided about by somebody who knows more than the monitor:
//!
//! * this router's own session, which has checked everything again when it began (its baseline is
//!   another);
//! * a person, whose acceptance begins a generation of the pipeline. A standby begins no session;
//!   its monitor learns of the acceptance from its own process's streaming task, which has read the
//!   witness again before it stands by;
//! * a session of another router that began after the gap was found, and that has read the witness:
//!   this session would have found the gap too, and halted. It counts only while nothing is wrong,
//!   since a router that halts also holds the slot for a moment.

use std::sync::Arc;

use relay::{
    Snapshot, State,
    source::{Catalog, LastGood, SlotReading},
};

use super::{Monitor, found::walsender};

impl<C> Monitor<C> {
    /// What publication and tables are compared with: what this monitor remembers, after
    /// [`Self::catch_up`] has replaced or dropped what is already decided about.
    pub(super) fn before(&mut self) -> Option<Catalog> {
        self.catch_up();
        self.remembered.clone()
    }

    /// Takes over the streaming task's baseline when a session has begun, and forgets gaps that a
    /// new generation has accepted.
    pub(super) fn catch_up(&mut self) {
        let (latest, generation, has_gaps) = {
            let report = self.channels.relay.borrow();
            let Snapshot { baseline, witness, .. } = &report.snapshot;
            (baseline.clone(), witness.generation, !witness.gaps.is_empty())
        };
        let is_known = match (&latest, &self.baseline) {
            (Some(latest), Some(known)) => Arc::ptr_eq(latest, known),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if let Some(latest) = latest.filter(|_| !is_known) {
            self.show_alterations_before(&latest);
            self.remembered = Some(latest.catalog.clone());
            self.last_good = Some(LastGood::from(&*latest));
            self.forget_gaps();
            self.baseline = Some(latest);
            return;
        }
        let Some(found) = &mut self.found else { return };
        if found.generation == 0 {
            found.generation = generation;
        }
        if generation > found.generation && !has_gaps {
            // The acceptance covers what is there now, so it is not compared with what was there
            // before.
            (self.remembered, self.last_good) = (None, None);
            self.forget_gaps();
        }
    }

    /// Called when nothing is wrong in this reading: forgets the gap if another router has begun a
    /// session since it was found.
    pub(super) fn overtaken(&mut self, reading: &SlotReading) {
        let Some(found) = self.found else { return };
        let is_standby = self.channels.relay.borrow().snapshot.condition.state == State::Standby;
        let holder = walsender(reading);
        if is_standby && holder.is_some() && holder != found.walsender {
            self.forget_gaps();
        }
    }

    /// Forgets the gap, so that the same code is reported when it is found again.
    fn forget_gaps(&mut self) {
        self.reported.clear();
        self.report.gap = None;
        self.found = None;
    }
}
