//! What the monitor does about a defect: whether it is a gap, and which interval is at risk, is
//! judged in [`relay::source`]; here the relay is told.

use relay::{
    Failure,
    source::{
        Baseline, Catalog, Interval, Mark, SlotLook,
        publication::{alterations, is_note},
        suspected_gap,
    },
};

use super::{Monitor, MonitorEvent, found::Found};
use crate::warning::warn;

/// Alterations that are shown until the process ends: they are rare, and people who come later than
/// this many have the log.
const SHOWN_MAX: usize = 16;

impl<C> Monitor<C> {
    /// Tells the relay of a gap.
    pub(super) fn gap(&mut self, failure: Failure, look: &SlotLook) {
        if self.told.contains(&failure.code) {
            return;
        }
        let snapshot = self.snapshot();
        let Some(gap) = suspected_gap(failure, self.last_good.clone(), &snapshot, &look.mark())
        else {
            return;
        };
        let code = gap.failure.code;
        self.report.gap.get_or_insert_with(|| gap.clone());
        self.found = Some(Found::at(&snapshot, look));
        // When the channel is full, the same is told again after the next look.
        if self.channels.events.try_send(MonitorEvent::GapSuspected(Box::new(gap))).is_ok() {
            self.told.insert(code);
        }
    }

    /// Says once what people should hear of.
    pub(super) fn announce_notes(&self, findings: &[Failure]) {
        let known = &self.report.findings;
        for note in findings.iter().filter(|finding| is_note(finding) && !known.contains(finding)) {
            warn(note);
        }
    }

    /// Says once that there may have been a gap which nothing shows, between two looks of ours.
    pub(super) fn announce_alterations(
        &mut self,
        before: Option<&Catalog>,
        now: &Catalog,
        checked: &Mark,
    ) {
        let Some(before) = before else { return };
        for alteration in self.alterations(before, now, checked) {
            self.announced.insert(alteration.code);
            warn(&alteration);
            self.show(alteration);
        }
    }

    /// Shows what the session that begins has found since the last look of whatever router, and has
    /// said itself: but for what we saw before the session did.
    pub(super) fn show_alterations_before(&mut self, latest: &Baseline) {
        let ours = self.remembered.as_ref();
        let unseen = ours
            .map(|before| self.alterations(before, &latest.catalog, &latest.checked))
            .unwrap_or_default();
        let told = std::mem::take(&mut self.announced);
        for alteration in &latest.alterations {
            if !unseen.is_empty() || !told.contains(&alteration.code) {
                self.show(alteration.clone());
            }
        }
    }

    fn alterations(&self, before: &Catalog, now: &Catalog, checked: &Mark) -> Vec<Failure> {
        let from = self.last_good.clone().map(|good| good.checked);
        let between = Interval { from, to: checked.clone() };
        alterations(before, now, &self.settings.publication, &between)
    }

    fn show(&mut self, alteration: Failure) {
        let shown = &mut self.report.alterations;
        shown.push(alteration);
        if shown.len() > SHOWN_MAX {
            shown.remove(0);
        }
    }
}

#[cfg(test)]
mod tests;
