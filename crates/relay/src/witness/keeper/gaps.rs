//! Gaps that this process has found, on their way into the state topic.

use std::time::Duration;

use super::{
    Keeper, What,
    unrecorded::{Opened, Unrecorded},
};
use crate::protocol::Write;
use crate::{
    clock::Moment,
    source::Gap,
    witness::{Witness, combine, combine::join},
};

/// Between two attempts to write an open gap.
const GAP_OF_ATTEMPTS: Duration = Duration::from_secs(5);

impl Keeper {
    /// These gaps are open from now on, whoever asks.
    pub(crate) fn open_gaps(&mut self, gaps: &[Gap]) {
        let is_known = |gap| self.known.as_ref().is_some_and(|known| known.has_open(gap));
        let Some(gap) = gaps.iter().find(|gap| !is_known(gap)) else { return };
        let base = self.present.take().map(|present| {
            self.outdated.push_back(present.key);
            present.witness
        });
        // What was acknowledged when a session ended counts, although the topic does not say it
        // yet.
        let base = join(self.latest().into_iter().chain(base))
            .unwrap_or_else(|| Witness::at(gap.interval.begins_at()));
        let witness = base.with_gaps(gaps);
        self.opened = Opened { gaps: gaps.to_vec(), generation: witness.generation };
        self.known = Some(witness.clone());
        self.record(gap, witness);
    }

    /// Has an open gap written down, if there is a state topic.
    fn record(&mut self, gap: &Gap, witness: Witness) {
        if let Some(settings) = &self.settings {
            let name = format!("{}.{}.{}", settings.process, gap.name(), witness.generation);
            let key = settings.pipeline.key(&name);
            self.unrecorded = Some(Unrecorded { key, witness, tried_at: None });
        }
    }

    /// A person has accepted another gap, or a promotion was met, while this process wrote down
    /// what it had found: in the generation that began so, nothing counts that is written of an
    /// earlier one. There it is open, too, unless the person has accepted it with the other.
    pub(super) fn reopen(&mut self) {
        let Some(known) = &self.known else { return };
        let since = self.opened.generation;
        if known.generation <= since {
            return;
        }
        let mut gaps = std::mem::take(&mut self.opened.gaps);
        gaps.retain(|gap| !known.has_accepted(gap, since));
        self.opened = Opened { gaps: gaps.clone(), generation: known.generation };
        self.open_gaps(&gaps);
    }

    /// A gap is open that the topic does not hold any more: somebody has deleted it, or it is
    /// another cluster's.
    pub(crate) fn record_again(&mut self) {
        let Some(known) = self.known.as_ref().filter(|_| self.unrecorded.is_none()) else { return };
        let held = combine(&self.read).ok().flatten().map_or(0, |held| held.generation);
        let Some(gap) = known.gaps.first().filter(|_| held < known.generation) else { return };
        let (gap, witness) = (gap.clone(), known.clone());
        self.record(&gap, witness);
    }

    /// Whether every gap that this process has found is in Kafka.
    pub(crate) fn has_recorded_gaps(&self) -> bool {
        self.unrecorded.is_none()
    }

    /// When [`Keeper::write_gap`] has something to do although nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let unrecorded = self.unrecorded.as_ref().filter(|_| self.in_flight.is_none())?;
        unrecorded.tried_at.map(|tried| tried + GAP_OF_ATTEMPTS)
    }

    /// Writes the gap that is not in Kafka yet, if it is time for an attempt.
    pub(crate) fn write_gap(&mut self, at: Moment) -> Option<Write> {
        let unrecorded = self.unrecorded.as_mut().filter(|_| self.in_flight.is_none())?;
        if unrecorded.tried_at.is_some_and(|tried| at < tried + GAP_OF_ATTEMPTS) {
            return None;
        }
        unrecorded.tried_at = Some(at);
        let (key, witness) = (unrecorded.key.clone(), unrecorded.witness.clone());
        Some(self.write(key, What::Record(witness), at))
    }
}
