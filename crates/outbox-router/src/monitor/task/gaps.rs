//! What the monitor does about a defect: whether it is a gap, and which interval is at risk, is judged in
//! [`relay::source`]; here the relay is told.

use relay::{
    Failure,
    source::{
        Catalog, Interval, Mark, SlotLook,
        publication::{alteration, is_note},
        suspected_gap,
    },
};

use super::{Found, Monitor, MonitorEvent};

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
        let from = self.last_good.clone().map(|good| good.checked);
        let between = Interval { from, to: checked.clone() };
        let name = &self.settings.publication;
        if let Some(before) = before
            && let Some(Failure { code, message, hint, .. }) =
                alteration(before, now, name, &between)
        {
            tracing::warn!(code = code.as_str(), hint = hint.as_deref(), "{message}");
        }
    }
}

#[cfg(test)]
mod tests;
