//! Writes gaps that this process has found into the state topic.

use std::time::Duration;

use super::{
    Keeper, WriteKind,
    unwritten::{OwnGaps, UnwrittenGaps},
};
use crate::{
    clock::Moment,
    protocol::Write,
    source::Gap,
    witness::{Witness, combine::join},
};

/// The least time between two attempts to write an open gap.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

impl Keeper {
    /// Opens these gaps in a new generation, and has them written to the state topic. Does nothing
    /// if all of them are open already.
    pub(crate) fn open_gaps(&mut self, gaps: &[Gap]) {
        let is_known = |gap| self.witness.as_ref().is_some_and(|known| known.has_open(gap));
        let Some(gap) = gaps.iter().find(|gap| !is_known(gap)) else { return };
        let base = self.session_record.take().map(|session_record| {
            self.keys_to_delete.push_back(session_record.key);
            session_record.witness
        });
        // What was acknowledged when the last session ended counts, although it is not in the topic
        // yet.
        let base = join(self.latest().into_iter().chain(base))
            .unwrap_or_else(|| Witness::at(gap.interval.begins_at()));
        let witness = base.with_gaps(gaps);
        self.own_gaps = OwnGaps { gaps: gaps.to_vec(), generation: witness.generation };
        self.witness = Some(witness.clone());
        self.record(gap, witness);
    }

    /// Has [`Keeper::write_gap`] write the record of an open gap, if there is a state topic.
    fn record(&mut self, gap: &Gap, witness: Witness) {
        if let Some(settings) = &self.settings {
            let name = format!("{}.{}.{}", settings.process, gap.name(), witness.generation);
            let key = settings.key.of_writer(&name);
            self.unwritten = Some(UnwrittenGaps { key, witness, tried_at: None });
        }
    }

    /// Opens this process's gaps again where a later generation has begun: by the acceptance of
    /// another gap. Records of earlier generations no longer count then. Gaps that were accepted as
    /// well stay closed.
    pub(super) fn reopen(&mut self) {
        let Some(known) = &self.witness else { return };
        let since = self.own_gaps.generation;
        if known.generation <= since {
            return;
        }
        let mut gaps = std::mem::take(&mut self.own_gaps.gaps);
        gaps.retain(|gap| !known.has_accepted(gap, since));
        self.own_gaps = OwnGaps { gaps: gaps.clone(), generation: known.generation };
        self.open_gaps(&gaps);
    }

    /// Has an open gap written again that the topic no longer holds: somebody deleted the record,
    /// or the topic is on another cluster.
    pub(crate) fn record_again(&mut self) {
        let Some(known) = self.witness.as_ref().filter(|_| self.unwritten.is_none()) else {
            return;
        };
        let held = self.counted(&self.records).ok().flatten().map_or(0, |held| held.generation);
        let Some(gap) = known.gaps.first().filter(|_| held < known.generation) else { return };
        let (gap, witness) = (gap.clone(), known.clone());
        self.record(&gap, witness);
    }

    /// Whether no gap waits to be written; always true without a state topic.
    pub(crate) fn are_gaps_written(&self) -> bool {
        self.unwritten.is_none()
    }

    /// When [`Keeper::write_gap`] has to be called next; `None` if no gap waits for another
    /// attempt.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let unwritten = self.unwritten.as_ref().filter(|_| self.in_flight.is_none())?;
        unwritten.tried_at.map(|tried| tried + RETRY_INTERVAL)
    }

    /// The write of the gap that is not in Kafka yet; `None` if there is none or the next attempt
    /// is not due.
    pub(crate) fn write_gap(&mut self, at: Moment) -> Option<Write> {
        let unwritten = self.unwritten.as_mut().filter(|_| self.in_flight.is_none())?;
        if unwritten.tried_at.is_some_and(|tried| at < tried + RETRY_INTERVAL) {
            return None;
        }
        unwritten.tried_at = Some(at);
        let (key, witness) = (unwritten.key.clone(), unwritten.witness.clone());
        Some(self.write(key, WriteKind::Record(witness), at))
    }
}
