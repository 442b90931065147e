//! Reports defects: a gap to the streaming task, once per code; notes and alterations to people,
//! once each. [`relay::source`] decides whether a defect is a gap and which interval is at risk.

use relay::{
    Failure,
    source::{
        Baseline, Catalog, Interval, Mark, SlotReading, publication::alterations, suspected_gap,
    },
};

use super::{Monitor, MonitorEvent, found::FoundAt};
use crate::warning::warn;

/// How many alterations are shown, the latest ones. They are rare, and earlier ones are in the log.
const SHOWN_MAX: usize = 16;

impl<C> Monitor<C> {
    /// Reports a gap to the streaming task, if the failure is one and its code was not reported
    /// yet.
    pub(super) fn gap(&mut self, failure: Failure, reading: &SlotReading) {
        if self.reported.contains(&failure.code) {
            return;
        }
        let snapshot = self.snapshot();
        let Some(gap) = suspected_gap(failure, self.last_good.clone(), &snapshot, &reading.mark())
        else {
            return;
        };
        let code = gap.failure.code;
        self.report.gap.get_or_insert_with(|| gap.clone());
        self.found = Some(FoundAt::at(&snapshot, reading));
        // When the channel is full, the gap is reported again after the next reading.
        if self.channels.events.try_send(MonitorEvent::GapSuspected(Box::new(gap))).is_ok() {
            self.reported.insert(code);
        }
    }

    /// Logs each note once, for as long as it is found.
    pub(super) fn announce_notes(&self, findings: &[Failure]) {
        let known = &self.report.findings;
        for note in findings.iter().filter(|finding| finding.is_note() && !known.contains(finding))
        {
            warn(note);
        }
    }

    /// Logs and shows each alteration between two readings of this monitor: there may have been a
    /// gap that nothing shows.
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

    /// Shows the alterations that the session which begins has found since the witness was last
    /// written, by whichever router; the session itself has logged them. Alterations that this
    /// monitor has announced are left out, unless something was altered after the monitor's last
    /// reading.
    pub(super) fn show_alterations_before(&mut self, latest: &Baseline) {
        let ours = self.remembered.as_ref();
        let unseen = ours
            .map(|before| self.alterations(before, &latest.catalog, &latest.checked))
            .unwrap_or_default();
        let reported = std::mem::take(&mut self.announced);
        for alteration in &latest.alterations {
            if !unseen.is_empty() || !reported.contains(&alteration.code) {
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
