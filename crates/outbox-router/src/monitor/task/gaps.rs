//! What the monitor does about a defect: whether it is a gap, and which interval is at risk, is judged in
//! [`relay::source`]; here the relay is told, and the first gap is kept.

use relay::{
    Failure, Snapshot,
    source::{
        Catalog, Gap, Interval, LastGood, Mark, adopted_gap, halted_by,
        publication::{alteration, is_note},
        suspected_gap,
    },
};

use super::{Monitor, MonitorEvent};

impl<C> Monitor<C> {
    /// Tells the relay of a gap.
    pub(super) fn gap(&mut self, failure: Failure, now: &Mark) {
        if self.told.contains(&failure.code) {
            return;
        }
        let snapshot = self.snapshot();
        let Some(gap) = suspected_gap(failure, self.last_good(), &snapshot, now) else { return };
        let event = MonitorEvent::GapSuspected(gap.failure.clone());
        if self.channels.events.try_send(event).is_ok() {
            self.told.insert(gap.failure.code);
        }
        self.record(gap, &snapshot);
    }

    /// Keeps the gap that the relay has halted at because preflight found it. The relay has told all of it.
    pub(super) fn keep_gap_of_preflight(&mut self) {
        let snapshot = self.snapshot();
        let Some(halted_by) = halted_by(&snapshot) else { return };
        let found = self.channels.preflights.borrow().gap.clone();
        if let Some(gap) = found.filter(|gap| gap.failure.code == halted_by.code) {
            self.report.gap.get_or_insert(gap);
        }
    }

    /// Takes over the gap that the relay heard of from the stream.
    pub(super) fn adopt_gap(&mut self, now: &Mark) {
        let snapshot = self.snapshot();
        if let Some(gap) = adopted_gap(&snapshot, now) {
            self.record(gap, &snapshot);
        }
    }

    /// Says once what people should hear of.
    pub(super) fn announce_notes(&self, findings: &[Failure]) {
        let known = &self.report.findings;
        for note in findings.iter().filter(|finding| is_note(finding) && !known.contains(finding)) {
            tracing::warn!(
                code = note.code.as_str(),
                hint = note.hint.as_deref(),
                "{}",
                note.message
            );
        }
    }

    /// Says once that there may have been a gap which nothing shows.
    pub(super) fn announce_alteration(
        &self,
        before: Option<&Catalog>,
        now: &Catalog,
        checked: &Mark,
    ) {
        let from = self.last_good().map(|good| good.checked);
        let between = Interval { from, to: checked.clone() };
        let name = &self.settings.publication;
        if let Some(before) = before
            && let Some(Failure { code, message, hint, .. }) =
                alteration(before, now, name, &between)
        {
            tracing::warn!(code = code.as_str(), hint = hint.as_deref(), "{message}");
        }
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
        self.last_good
            .clone()
            .or_else(|| self.channels.preflights.borrow().baseline.as_ref().map(LastGood::from))
    }
}
