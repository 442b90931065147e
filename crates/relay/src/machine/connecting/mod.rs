//! How a connection is made: what is read before the stream begins, in which order, and what
//! follows from it.
//!
//! ```text
//! ReadStateTopic → Connect → ReadTimelines? → ReadSlot → ReadCatalog
//!     → StartReplication → ReadSlot → ReadStateTopic → Held → streaming
//! ```
//! Slot, server and catalog are read from the server that will stream, so that what is checked is
//! what is streamed. Slot and witness are read again when this router holds the slot, because only
//! then does no other process change them. Since the first read the slot may have been dropped and
//! re-created, or another router may have held it, and then that router has written to the state
//! topic. If slot or witness has changed, everything is read again.
//!
//! For the same reason a gap counts only if the witness by which it was found is unchanged while
//! this router holds the slot, if the slot can be held. What looks like a slot that somebody moved
//! is most often the work of another router.

use super::{
    Phase, Relay,
    attempt::{Attempt, Awaited},
};
use crate::{
    backlog::BacklogFrom,
    clock::Moment,
    failpoint::{self, Failpoint},
    failure::{Code, Failure},
    progress::WitnessStore,
    protocol::{Action, StateTopicRead},
    source::{
        Catalog, Expectations, Gap, Obstacle, Server, SlotReading, TimelineHistory, check_cluster,
        check_slot, history, preflight,
    },
    witness::StateTopicChange,
};

mod refusing;

impl Relay {
    /// Begins an attempt to connect, with the witness if there is a state topic.
    pub(super) fn connect(&mut self) {
        let attempt = Attempt {
            step: Awaited::StateTopic,
            witness: self.keeper.witness().cloned(),
            cluster: String::new(),
            server: None,
            reading: None,
            baseline: None,
            gaps: Vec::new(),
            started_at: None,
            walsender: None,
            held: None,
            frames: BacklogFrom::Stream,
        };
        self.phase = Phase::Connecting(Box::new(attempt));
        match self.keeper.store() {
            WitnessStore::Kafka => self.next_read_state_topic(Awaited::StateTopic),
            WitnessStore::Memory => self.next(Awaited::Connect, Action::Connect),
        }
    }

    fn next_read_state_topic(&mut self, step: Awaited) {
        if let Phase::Connecting(attempt) = &mut self.phase {
            attempt.step = step;
            self.read_state_topic();
        }
    }

    fn next(&mut self, step: Awaited, action: Action) {
        if let Phase::Connecting(attempt) = &mut self.phase {
            attempt.step = step;
            self.actions.push_back(action);
        }
    }

    fn next_start_replication(&mut self, at: Moment) {
        let Phase::Connecting(attempt) = &self.phase else { return };
        let backlog = self.backlog.choose(attempt.reading.as_ref(), at);
        self.next(Awaited::StartReplication, Action::StartReplication(backlog));
    }

    fn awaits(&self, step: Awaited) -> bool {
        matches!(&self.phase, Phase::Connecting(attempt) if attempt.step == step)
    }

    /// The state topic was read.
    pub(super) fn state_topic_read(
        &mut self,
        number: u64,
        read: Result<StateTopicRead, Failure>,
        at: Moment,
    ) {
        // An earlier read may be older than what has been written since.
        if number != self.last_read_number {
            return;
        }
        match &mut self.phase {
            Phase::Halted(_) => self.acceptance_read(read, at),
            Phase::Streaming(_) => self.state_topic_checked(read, at),
            Phase::Connecting(attempt) => match (attempt.step, read) {
                (Awaited::StateTopic | Awaited::StateTopicAgain, Err(failure)) => {
                    self.disconnect(failure, at);
                }
                (Awaited::StateTopic, Ok(read)) => {
                    attempt.cluster.clone_from(&read.cluster);
                    self.check_witness(read, at);
                }
                (Awaited::StateTopicAgain, Ok(read)) => self.state_topic_read_again(read, at),
                (
                    Awaited::Connect
                    | Awaited::Timelines
                    | Awaited::Slot
                    | Awaited::Catalog
                    | Awaited::StartReplication
                    | Awaited::SlotAgain
                    | Awaited::Held,
                    _,
                ) => {}
            },
            Phase::Waiting { .. } | Phase::Standby { .. } | Phase::Leaving(_) | Phase::Exited => {}
        }
    }

    fn state_topic_read_again(&mut self, read: StateTopicRead, at: Moment) {
        let Phase::Connecting(attempt) = &self.phase else { return };
        let is_same_cluster = attempt.cluster == read.cluster;
        match self.keeper.take_records(read) {
            Ok(StateTopicChange::Unchanged) if is_same_cluster => {
                let Phase::Connecting(attempt) = &mut self.phase else { return };
                let mut gaps = std::mem::take(&mut attempt.gaps);
                let checked = attempt.witness.as_ref().and_then(|known| known.checked.clone());
                gaps.extend(self.take_suspected(checked.as_ref()));
                // The monitor may have found the same as this attempt.
                let gaps = Gap::without_repeated(gaps);
                if !gaps.is_empty() {
                    self.halt(gaps, at);
                } else {
                    self.next_load_held();
                }
            }
            Ok(StateTopicChange::Unchanged | StateTopicChange::Changed) => {
                let why = "another router wrote to the state topic while this one connected";
                self.disconnect(Failure::new(Code::SlotInUse, why), at);
            }
            Err(failure) => self.disconnect(failure, at),
        }
    }

    /// Reads the table of held events: the last step, because only the holder of the slot writes to
    /// it.
    fn next_load_held(&mut self) {
        if let Phase::Connecting(attempt) = &mut self.phase {
            attempt.step = Awaited::Held;
            self.load_held();
        }
    }

    /// Begins the session, unless the attempt took too long.
    pub(super) fn begin_session_in_time(&mut self, at: Moment) {
        if !self.awaits(Awaited::Held) {
            return;
        }
        if self.has_waited_too_long(at) {
            let why = "slot, state topic and held events took so long to read that the server may have given the slot to another";
            self.disconnect(Failure::new(Code::ServerSilent, why), at);
        } else {
            self.begin_session(at);
        }
    }

    /// Whether too much time has passed since replication started. No status update is sent before
    /// the session begins. After a long time the server may have given the slot to another process,
    /// and then that process has been sent what lies in this socket.
    fn has_waited_too_long(&self, at: Moment) -> bool {
        let Phase::Connecting(attempt) = &self.phase else { return false };
        let limit = self.settings.timing.silence_limit / 2;
        attempt.started_at.is_some_and(|started| at >= started + limit)
    }

    fn check_witness(&mut self, read: StateTopicRead, at: Moment) {
        let cluster = read.cluster.clone();
        if let Err(failure) = self.keeper.take_records(read) {
            self.disconnect(failure, at);
            return;
        }
        let known = self.keeper.latest();
        if let Some(witness) = &known {
            if !witness.gaps.is_empty() {
                self.halt(witness.gaps.clone(), at);
                return;
            }
            if let Err(obstacle) = check_cluster(witness, &cluster) {
                self.refuse(obstacle, at);
                return;
            }
        }
        if let Phase::Connecting(attempt) = &mut self.phase {
            attempt.witness = known;
        }
        self.next(Awaited::Connect, Action::Connect);
    }

    /// The connection is made.
    pub(super) fn connected(&mut self, server: Server, at: Moment) {
        if !self.awaits(Awaited::Connect) {
            return;
        }
        failpoint::reached(Failpoint::Connected);
        let Phase::Connecting(attempt) = &mut self.phase else { return };
        let timeline = server.history.timeline;
        let needs_timelines = history::needs_timelines(attempt.witness.as_ref(), &server);
        attempt.server = Some(server);
        // From here on there is a connection, whether or not timelines are read.
        attempt.step = Awaited::Timelines;
        if needs_timelines {
            self.next(Awaited::Timelines, Action::ReadTimelines(timeline));
        } else {
            self.check_history(&TimelineHistory::default(), at);
        }
    }

    /// The timeline history was read.
    pub(super) fn timelines_read(&mut self, timelines: &TimelineHistory, at: Moment) {
        if self.awaits(Awaited::Timelines) {
            self.check_history(timelines, at);
        }
    }

    fn check_history(&mut self, timelines: &TimelineHistory, at: Moment) {
        let Phase::Connecting(attempt) = &mut self.phase else { return };
        let Some(server) = &attempt.server else { return };
        if let Some(witness) = attempt.witness.take() {
            match history::continued(witness, server, timelines) {
                Ok(witness) => attempt.witness = Some(witness),
                Err(obstacle) => {
                    self.refuse(obstacle, at);
                    return;
                }
            }
        }
        self.other_server_gap = None;
        self.next(Awaited::Slot, Action::ReadSlot);
    }

    /// The slot was read.
    pub(super) fn slot_read(&mut self, reading: SlotReading, at: Moment) {
        if self.awaits(Awaited::SlotAgain) {
            self.slot_read_again(&reading, at);
            return;
        }
        if !self.awaits(Awaited::Slot) {
            return;
        }
        let Phase::Connecting(attempt) = &self.phase else { return };
        if let Some(witness) = &attempt.witness
            && let Err(obstacle) = history::check_not_taken_back(witness, &reading)
        {
            self.refuse(obstacle, at);
            return;
        }
        let checked_slot = check_slot(self.expectations(attempt), &reading).map(drop);
        let Phase::Connecting(attempt) = &mut self.phase else { return };
        attempt.reading = Some(reading);
        match checked_slot {
            Ok(()) => {}
            // The catalog may show more gaps.
            Err(Obstacle::Gaps(gaps)) => attempt.gaps = gaps,
            Err(obstacle) => {
                self.refuse(obstacle, at);
                return;
            }
        }
        let remembered = attempt.witness.as_ref().map(|witness| Box::new(witness.catalog.clone()));
        self.next(Awaited::Catalog, Action::ReadCatalog(remembered));
    }

    fn expectations<'a>(&'a self, attempt: &'a Attempt) -> Expectations<'a> {
        Expectations {
            slot: &self.slot,
            publication: &self.publication,
            outboxes: &self.settings.outboxes,
            witness: attempt.witness.as_ref(),
            position_check: self.keeper.store().into(),
        }
    }

    /// Publication and tables were read.
    pub(super) fn catalog_read(&mut self, catalog: Catalog, at: Moment) {
        if !self.awaits(Awaited::Catalog) {
            return;
        }
        let Phase::Connecting(attempt) = &self.phase else { return };
        let (Some(server), Some(reading)) = (attempt.server.clone(), attempt.reading.as_ref())
        else {
            return;
        };
        match preflight(self.expectations(attempt), server, reading, catalog) {
            Ok(baseline) => {
                failpoint::reached(Failpoint::SlotChecked);
                let Phase::Connecting(attempt) = &mut self.phase else { return };
                attempt.baseline = Some(baseline);
                self.next_start_replication(at);
            }
            Err(obstacle) => self.refuse(obstacle, at),
        }
    }

    /// The connection failed, or a request was answered with an error. If the slot is missing or
    /// lost in the answer to `START_REPLICATION`, that counts as a transport failure: an earlier
    /// step has just read the slot, so this connection may have reached a standby. Whether the slot
    /// is gone is decided when everything is read again.
    pub(super) fn connection_failed(&mut self, failure: Failure, at: Moment) {
        if failure.code == Code::Backlog {
            self.backlog.failed(at);
        }
        let is_transport = self.awaits(Awaited::StartReplication)
            && matches!(failure.code, Code::SlotMissing | Code::SlotLost);
        let failure = if is_transport {
            let what =
                format!("the slot that was there a moment ago: {}", failure.message_with_causes());
            Failure::new(Code::ServerUnreachable, what)
        } else {
            failure
        };
        self.disconnect(failure, at);
    }

    /// The server is streaming, so this router holds the slot.
    pub(super) fn replication_started(&mut self, walsender: Option<i32>, at: Moment) {
        if !self.awaits(Awaited::StartReplication) {
            return;
        }
        failpoint::reached(Failpoint::ReplicationStarted);
        let Phase::Connecting(attempt) = &mut self.phase else { return };
        attempt.started_at = Some(at);
        attempt.walsender = walsender;
        self.own_walsender = walsender;
        if !attempt.gaps.is_empty() {
            self.next_read_state_topic(Awaited::StateTopicAgain);
        } else {
            self.next(Awaited::SlotAgain, Action::ReadSlot);
        }
    }

    /// The slot was read again, while this router holds it. A slot at another position was
    /// re-created, moved or held by another process. If another process holds the slot now, this
    /// router has lost it, and a witness of this router could hide what the holder writes.
    fn slot_read_again(&mut self, reading: &SlotReading, at: Moment) {
        let Phase::Connecting(attempt) = &mut self.phase else { return };
        let Some(first) = &attempt.reading else { return };
        let confirmed = |reading: &SlotReading| reading.slot.as_ref()?.confirmed_flush_lsn;
        let holder = reading.slot.as_ref().and_then(|slot| slot.active_pid);
        if confirmed(first) != confirmed(reading) {
            let why = "the slot stands elsewhere than before this router held it: its last holder has confirmed more since, or somebody has advanced or re-created it";
            self.disconnect(Failure::new(Code::SlotInUse, why), at);
            return;
        }
        if attempt.walsender.is_some() && holder != attempt.walsender {
            let why = "the server has ended this stream, or given the slot to another, while the router connected";
            self.leave(Failure::new(Code::SlotInUse, why), at);
            return;
        }
        attempt.held = Some(reading.moment());
        match self.keeper.store() {
            WitnessStore::Kafka => self.next_read_state_topic(Awaited::StateTopicAgain),
            WitnessStore::Memory => self.next_load_held(),
        }
    }
}
