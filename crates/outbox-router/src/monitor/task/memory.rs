//! What the monitor remembers of the source, and when it forgets it.
//!
//! A gap stays when its cause is gone: what was missed is missed. It is over when somebody has
//! decided about it who knows more than the monitor does, and there are three who do:
//!
//! * the relay's own session, which has judged everything anew when it began (its baseline is
//!   another);
//! * a person, whose acceptance begins a generation of the pipeline's record: a standby, which
//!   begins no session, hears of it through its relay, which has read the record again before it
//!   stands by;
//! * the session of another router that began after the gap was found, with the record in its
//!   hands: it would have found the gap too, and halted. That counts only while nothing is wrong,
//!   since a router that halts holds the slot as well, for a moment.

use std::sync::Arc;

use relay::{
    Snapshot, State,
    source::{Catalog, LastGood, SlotLook},
};

use super::{Monitor, found::walsender};

impl<C> Monitor<C> {
    /// What publication and tables are compared with: our own memory, since somebody has decided
    /// about what was before.
    pub(super) fn before(&mut self) -> Option<Catalog> {
        self.catch_up();
        self.remembered.clone()
    }

    /// Takes over what the relay has learned.
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
            // Accepted is what is there now: it is not held against what was there before.
            (self.remembered, self.last_good) = (None, None);
            self.forget_gaps();
        }
    }

    /// Nothing is wrong in this look: a gap is over if another router has begun a session since it
    /// was found.
    pub(super) fn overtaken(&mut self, look: &SlotLook) {
        let Some(found) = self.found else { return };
        let is_standby = self.channels.relay.borrow().snapshot.condition.state == State::Standby;
        let holder = walsender(look);
        if is_standby && holder.is_some() && holder != found.walsender {
            self.forget_gaps();
        }
    }

    /// The same will be told again.
    fn forget_gaps(&mut self) {
        self.told.clear();
        self.report.gap = None;
        self.found = None;
    }
}
