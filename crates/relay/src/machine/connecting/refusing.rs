//! What follows from a failed check: a new attempt, standby, or a halt that a person's acceptance
//! ends.

use crate::{
    clock::Moment,
    failure::{Code, Failure},
    machine::{
        Phase, Relay, attempt::Awaited, failure_history::During, witness_writes::CHECK_EVERY,
    },
    progress::WitnessStore,
    protocol::StateTopicRead,
    source::{Gap, Interval, Mark, Obstacle},
    witness::Witness,
};

impl Relay {
    pub(super) fn refuse(&mut self, obstacle: Obstacle, at: Moment) {
        match obstacle {
            Obstacle::SlotInUse { pid } => self.slot_held(Some(pid), at),
            Obstacle::Gaps(gaps) => self.suspect(gaps, at),
            // Connects again soon, since the address may lead to the right server then.
            Obstacle::OtherServer(gap) => {
                let mut failure = gap.failure.clone();
                failure.lsn = None;
                self.other_server_gap = Some(gap);
                self.fail(failure, During::Connecting, at);
                if let Phase::Waiting { until } = &mut self.phase {
                    *until = at + CHECK_EVERY;
                }
            }
            Obstacle::Failed(failure) => self.disconnect(failure, at),
        }
    }

    /// Takes gaps that were found; they count if the witness by which they were found is still
    /// unchanged.
    fn suspect(&mut self, gaps: Vec<Gap>, at: Moment) {
        // Before the first session of a pipeline no row can be missing.
        let is_nothing = |gap: &&Gap| self.is_being_set_up(&gap.failure);
        if let Some(gap) = gaps.first().filter(is_nothing) {
            self.disconnect(gap.failure.clone(), at);
            return;
        }
        if let Phase::Connecting(attempt) = &mut self.phase
            // Without a connection, the witness was read just before.
            && attempt.is_connected()
            && self.keeper.store() == WitnessStore::Kafka
        {
            attempt.gaps = gaps;
            if attempt.has_usable_slot() {
                self.next_start_replication(at);
            } else {
                // No process can hold such a slot.
                self.next_read_state_topic(Awaited::StateTopicAgain);
            }
        } else {
            self.halt(gaps, at);
        }
    }

    /// The gaps that the monitor saw before this router held the slot. A gap is dropped if a person
    /// has accepted it since, or if another router has checked everything later and found no
    /// defect.
    pub(super) fn take_suspected(&mut self, checked: Option<&Mark>) -> Vec<Gap> {
        let generation = self.keeper.witness().map_or(0, |known| known.generation);
        let is_open = |(gap, known): &(Gap, u64)| {
            // Generation 0: the witness was not read, since Kafka was unreachable.
            let is_of_record = *known == generation || *known == 0;
            is_of_record && checked.is_some_and(|checked| gap.interval.to.lsn >= checked.lsn)
        };
        let suspected = std::mem::take(&mut self.suspected);
        suspected.into_iter().filter(is_open).map(|(gap, _)| gap).collect()
    }

    /// If the catalog could not be read, and the slot is missing or lost: takes the slot's gaps
    /// without starting a stream, since no process can hold such a slot. Returns whether it did.
    pub(in crate::machine) fn check_without_catalog(&mut self, at: Moment) -> bool {
        let Phase::Connecting(attempt) = &mut self.phase else { return false };
        let is_known = attempt.step == Awaited::Catalog && !attempt.gaps.is_empty();
        if !is_known || attempt.has_usable_slot() {
            return false;
        }
        let gaps = std::mem::take(&mut attempt.gaps);
        self.suspect(gaps, at);
        true
    }

    /// Whether this failure only means that set-up is not finished: no router has had a session
    /// yet.
    pub(in crate::machine) fn is_being_set_up(&self, failure: &Failure) -> bool {
        self.totals.sessions == 0
            && self.keeper.witness().is_none()
            && matches!(failure.code, Code::SlotMissing | Code::SlotLost | Code::TableInherited)
    }

    /// The state topic was read while this router has halted: goes on if a person has accepted the
    /// gaps.
    pub(super) fn acceptance_read(&mut self, read: Result<StateTopicRead, Failure>, at: Moment) {
        let check_at = self.next_check_at(at);
        // If the topic cannot be read now, nothing follows; it is read again.
        let is_read = read.is_ok_and(|read| self.keeper.take_records(read).is_ok());
        let open = self.keeper.witness().and_then(|known| known.gaps.first()).cloned();
        let Phase::Halted(halt) = &mut self.phase else { return };
        halt.check_at = check_at;
        match open {
            Some(gap) if is_read => {
                halt.gap = gap;
                self.keeper.record_again();
            }
            Some(gap) => halt.gap = gap,
            None if is_read => {
                self.totals.sessions = self.totals.sessions.max(1);
                // After an acceptance, the present state is the measure: what was found before is
                // dropped.
                self.baseline = None;
                self.phase = Phase::Waiting { until: at };
            }
            None => {}
        }
    }

    /// The gaps by which this attempt or session is halted: those that the attempt found, or else
    /// one gap with this failure, whose interval follows from witness and session.
    pub(in crate::machine) fn gaps_of(&mut self, failure: Failure) -> Vec<Gap> {
        if let Phase::Connecting(attempt) = &mut self.phase
            && !attempt.gaps.is_empty()
        {
            return std::mem::take(&mut attempt.gaps);
        }
        vec![Gap::new(failure, self.interval_at_risk())]
    }

    /// The rows at risk, if there is a gap now.
    pub(in crate::machine) fn interval_at_risk(&self) -> Interval {
        let known = self.keeper.witness();
        let acknowledged = known.map(Witness::mark);
        match &self.phase {
            Phase::Streaming(session) => session.at_risk(acknowledged),
            Phase::Leaving(leaving) => leaving.at_risk.clone(),
            Phase::Connecting(_)
            | Phase::Waiting { .. }
            | Phase::Standby { .. }
            | Phase::Halted(_)
            | Phase::Exited => {
                let at = acknowledged.as_ref().and_then(|mark| mark.at.clone());
                let position =
                    acknowledged.map_or(self.confirmed, |mark| mark.lsn.max(self.confirmed));
                let mark = Mark { lsn: position, at };
                Interval { from: Some(mark.clone()), to: mark }
            }
        }
    }
}
