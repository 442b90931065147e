//! The task that fills the memory. It decides nothing, and nobody waits for it.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{
    AdminSettings, Sources, facts::Facts, halt::Halt, memory::Memory, verdict, view::View,
};
use crate::status::{Verdict, Word};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// The oldest pending row is another one if it was written so much later: ages are read with some
/// delay.
const NOISE: Duration = Duration::from_secs(1);

/// Looks twice a second, for ever.
pub(super) async fn look(
    settings: AdminSettings,
    sources: Sources,
    remember: watch::Sender<Memory>,
) -> Infallible {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let view = View::of(&settings, &sources, &remember.subscribe());
        let mut memory = view.memory.clone();
        memory.observe(&view.facts(), view.now);
        let facts = Facts::of(&view.worker, &view.survey, &memory, view.now);
        let verdict = verdict::judge(&facts);
        memory.note(&verdict);
        remember.send_replace(memory);
    }
}

impl Memory {
    /// Looks at the facts of one moment.
    pub(super) fn observe(&mut self, facts: &Facts<'_>, now: Instant) {
        if let Some(read) = facts.survey.read {
            self.pace.observe(read.at, facts.rows.map(|rows| rows.pending));
        }
        self.halt = Halt::after(self.halt.as_ref(), facts.report, now);
        let published = facts.report.tables.iter().map(|table| table.published).sum();
        // Another worker that publishes shows in the oldest row, which is then a later one, or,
        // where the table has no time, in the number of rows.
        let oldest = facts.oldest.and_then(|age| now.checked_sub(age));
        let is_later = match (self.oldest, oldest) {
            (Some(before), Some(oldest)) => oldest > before + NOISE,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let is_less = facts.pending() < self.pending;
        if is_later || is_less || published > self.published || !facts.is_outstanding() {
            self.moved_at = now;
        }
        if is_later || self.oldest.is_none() {
            self.oldest = oldest;
        }
        (self.published, self.pending) = (published, facts.pending());
    }

    fn note(&mut self, verdict: &Verdict) {
        if self.timeline.since(verdict).is_none() {
            Arc::make_mut(&mut self.timeline).add(verdict, SystemTime::now());
            // The worker logs its states itself, with their reasons; a stall is nobody's state.
            if verdict.word == Word::Stalled {
                tracing::warn!(to_blame = verdict.blame.as_str(), "{}", verdict.sentence);
            }
        }
    }
}
