//! What the core reports: its state with a reason, and its numbers.

use std::{sync::Arc, time::Duration};

use pgoutput::{Lsn, Oid};

use super::{Phase, Relay};
use crate::{
    clock::Moment,
    failure::{Case, Class, Failure, Name},
    progress::{Unacked, WitnessStore},
    routing::{record::TopicId, topic::TopicName},
    session::{Onlooker, Session, SessionPhase, WaitReason},
    state::{Condition, State},
    telemetry::{Rereads, RowsIgnored, Snapshot, WitnessReport},
};

/// If Kafka owes an acknowledgement or answer for this long, the state is `blocked`.
const BLOCKED_AFTER: Duration = Duration::from_secs(3);

impl Relay {
    /// The state with its reason, as logs, metrics and `/status.json` report it.
    pub fn condition(&self, at: Moment) -> Condition {
        let reason = self.failures.reason();
        match &self.phase {
            Phase::Exited => condition(State::Draining, None),
            Phase::Halted(halt) => condition(State::Failed, Some(&halt.gap.failure)),
            // A standby whose producer does not work would be blocked if it took over.
            Phase::Standby { .. } if !self.is_held_by_own_walsender() => {
                condition(State::Standby, self.sink.repeated_failure(at))
            }
            Phase::Waiting { .. }
            | Phase::Connecting(_)
            | Phase::Standby { .. }
            | Phase::Leaving(_)
                if self.failures.need_person() =>
            {
                condition(State::Failed, reason)
            }
            Phase::Leaving(leaving) => condition(State::Starting, Some(&leaving.why)),
            Phase::Waiting { .. } | Phase::Connecting(_) | Phase::Standby { .. } => {
                if let Some(failure) = self.failure_of_sink(at) {
                    return without_sink(failure);
                }
                match self.failures.refusal().or(self.failures.of_kafka()) {
                    Some(refusal) => condition(State::Blocked, Some(refusal)),
                    None => {
                        condition(State::Starting, reason.or(self.brokers_unreachable.as_ref()))
                    }
                }
            }
            Phase::Streaming(session) => self.condition_of(session, at),
        }
    }

    /// Tells of the row in a frame that [`Relay::frame`] or [`Relay::oversized`] has taken a moment
    /// ago, and what became of it; nothing of a frame without a row of an outbox.
    #[cold]
    #[inline(never)]
    pub fn last_row(&mut self, payload: &[u8], onlooker: &mut Onlooker<'_>) {
        if let Phase::Streaming(session) = &mut self.phase {
            session.last_row(payload, &mut self.topics, &self.held, onlooker);
        }
    }

    /// Whether [`Relay::last_row`] would tell of a whole row: it costs little.
    pub fn has_row(&self, payload: &[u8]) -> bool {
        self.phase.session().is_some_and(|session| session.has_row(payload))
    }

    /// The name of a table that is an outbox in this session.
    pub fn table_name(&self, table: Oid) -> Option<String> {
        self.phase.session().and_then(|session| session.table_name(table))
    }

    /// The name of a topic.
    pub fn topic_name(&self, topic: TopicId) -> Option<&TopicName> {
        self.topics.name(topic)
    }

    fn condition_of(&self, session: &Session, at: Moment) -> Condition {
        if let Some(failure) = session.row_failure() {
            return condition(State::Failed, Some(failure));
        }
        if session.phase != SessionPhase::Following {
            return condition(State::Draining, None);
        }
        if self.failures.need_person() {
            return condition(State::Failed, self.failures.reason());
        }
        if let Some(failure) = self.held.failure() {
            return without_sink(failure);
        }
        if let Some(failure) = self.failure_of_sink(at) {
            return without_sink(failure);
        }
        if let Some(WaitReason::Topic(topic)) = session.wait_reason
            && let Some(refusal) = self.topics.refusal(topic)
        {
            return condition(State::Blocked, Some(refusal));
        }
        match (&self.brokers_unreachable, self.waiting_for_ack(at)) {
            (Some(failure), _) => condition(State::Blocked, Some(failure)),
            (None, _) if self.failures.refusal().is_some() => {
                condition(State::Blocked, self.failures.refusal())
            }
            (None, Some(waiting)) if waiting >= BLOCKED_AFTER => {
                condition(State::Blocked, Some(&self.silence(session, waiting)))
            }
            (None, Some(_) | None) => condition(State::Streaming, None),
        }
    }

    /// Why no producer works: something that a person must repair, or a failure of several
    /// producers in a row.
    pub(super) fn failure_of_sink(&self, at: Moment) -> Option<&Failure> {
        let known = self.brokers_unreachable.as_ref();
        known
            .filter(|failure| failure.class() == Class::Mendable)
            .or_else(|| self.sink.repeated_failure(at))
    }

    /// The failure that says what Kafka has not done for the time of `waiting`.
    fn silence(&self, session: &Session, waiting: Duration) -> Failure {
        let seconds = waiting.as_secs();
        let unacked = self.unacked_by_kafka() + self.left_in_flight;
        let state_topic = self.state_topic.as_ref().filter(|_| self.keeper.is_writing());
        // A topic that was found waits for the witness, which must name its partition count first.
        if let (Some(WaitReason::Topic(topic)), 0) =
            (&session.wait_reason, session.ledger.unacked())
            && self.topics.look_up_at(*topic).is_some()
            && let Some(name) = self.topics.name(*topic)
        {
            let what =
                format!("Kafka has not answered the question about topic {name} for {seconds} s");
            return Failure::of(Case::BrokersSilent, what);
        }
        match (unacked, state_topic) {
            (0, None) => {
                let what = format!("no producer has taken a record for {seconds} s");
                Failure::of(Case::BrokersSilent, what)
            }
            (0, Some(name)) => Failure::of(
                Case::StateTopicSilent,
                format!(
                    "the write to the state topic {name} has waited {seconds} s for Kafka's acknowledgement, \
                     and before it no position is confirmed"
                ),
            )
            .naming(Name::Topic, name),
            // It is not known here whether the event or the write is older.
            (1.., Some(name)) => Failure::of(
                Case::ReplicasSilent,
                format!(
                    "the oldest event and the write to the state topic {name} have waited up to {seconds} s \
                     for Kafka's acknowledgement"
                ),
            ),
            (1.., None) => {
                let what =
                    format!("the oldest event has waited {seconds} s for Kafka's acknowledgement");
                let failure = Failure::of(Case::ReplicasSilent, what);
                match session.ledger.oldest_commit_lsn() {
                    // Records of an earlier session are older, and not in this ledger.
                    Some(lsn) if self.left_in_flight == 0 => failure.at(lsn),
                    Some(_) | None => failure,
                }
            }
        }
    }

    fn witness_report(&self) -> WitnessReport {
        let known = self.keeper.witness();
        WitnessReport {
            store: self.keeper.store(),
            position: known.map(|known| known.position),
            acknowledged_at: known.and_then(|known| known.mark().at),
            generation: known.map_or(0, |known| known.generation),
            gaps: known.map_or_else(Vec::new, |known| known.gaps.clone()),
            other_server_gap: self.other_server_gap.as_deref().cloned(),
            are_gaps_written: self.keeper.are_gaps_written(),
            accepted: known.map_or_else(Vec::new, |known| known.accepted.clone()),
            began_without: known.and_then(|known| known.began_without.clone()),
            lost_topics: self.keeper.lost_topics(),
            topic_look: self.keeper.topic_look(),
            verified: known.and_then(|known| Some(known.checked.as_ref()?.lsn)),
            notes: known.map(|known| known.notes).unwrap_or_default(),
            since: known
                .filter(|_| self.keeper.store() == WitnessStore::Kafka)
                .map_or_else(Arc::default, |known| Arc::clone(&known.since)),
        }
    }

    /// The oldest event that was read, or is waited at, and is not acknowledged. One that an ended
    /// session left counts until another session is past it: it will come again. On a standby the
    /// router that holds the slot delivers it.
    pub(super) fn oldest_unacked(&self) -> Option<Unacked> {
        if matches!(self.phase, Phase::Standby { .. }) && !self.is_held_by_own_walsender() {
            return None;
        }
        let session = self.phase.session();
        let is_ahead =
            |left: &Unacked| session.is_none_or(|s| s.ledger.settled() <= left.commit_lsn);
        let left = self.left_unacked.filter(is_ahead);
        let own = session.and_then(Session::oldest_unacked);
        [left, own].into_iter().flatten().min_by_key(|unacked| unacked.commit_lsn)
    }

    /// Whether the walsender of this router's own last session holds the slot still.
    fn is_held_by_own_walsender(&self) -> bool {
        matches!(self.phase, Phase::Standby { .. })
            && self.slot_holder.is_some()
            && self.slot_holder == self.own_walsender
    }

    /// The slot's `restart_lsn` when the last session began.
    pub(super) fn restart_lsn(&self) -> Option<Lsn> {
        self.baseline.as_ref().and_then(|baseline| baseline.slot.restart_lsn)
    }

    fn rereads(&self, session: &Session, at: Moment) -> Option<Rereads> {
        session.has_brought_nothing().then(|| Rereads {
            from: self.restart_lsn(),
            to: session.slot_at(),
            lasts: at.since(session.since),
        })
    }

    fn waiting_for_ack(&self, at: Moment) -> Option<Duration> {
        self.waiting_since.map(|since| at.since(since))
    }

    fn rows_ignored(&self, in_session: Option<RowsIgnored>) -> RowsIgnored {
        let mut total = self.totals.rows_ignored;
        total += in_session.unwrap_or_default();
        total
    }

    /// A copy of everything that the core reports, at one moment.
    pub fn snapshot(&self, at: Moment) -> Snapshot {
        let session = self.phase.session();
        let confirmed = session
            .map_or(self.confirmed, |session| session.ledger.confirmed().max(self.confirmed));
        let (window_events, window_bytes) =
            session.map_or((0, 0), |session| session.ledger.window());
        Snapshot {
            condition: self.condition(at),
            received: session.map_or(self.confirmed, |session| session.received),
            settled: session.map_or(confirmed, |s| s.ledger.settled().max(confirmed)),
            confirmed,
            window_events,
            window_bytes,
            unacked_events: self.unacked_by_kafka() + self.left_in_flight,
            waiting_for_ack: self.waiting_for_ack(at),
            oldest_unacked: self.oldest_unacked().map(|unacked| unacked.since),
            paused: self.back_pressure.totals(at),
            topics: self.totals.topics.own(self.topics.names()),
            other_topics: self.totals.topics.other(),
            transactions: self.totals.transactions + session.map_or(0, |s| s.transactions),
            rows_ignored: self.rows_ignored(session.map(|session| session.rows_ignored)),
            rows_filtered: self.totals.rows_filtered + session.map_or(0, |s| s.rows_filtered),
            held: self.held.report(),
            reconnects: self.totals.reconnects,
            errors: self.totals.errors.clone(),
            has_session: session.is_some(),
            slot_holder: self.slot_holder,
            rereads: session.and_then(|session| self.rereads(session, at)),
            warning: session.and_then(|session| session.warning(at)).cloned(),
            baseline: self.baseline.clone(),
            witness: self.witness_report(),
        }
    }
}

fn without_sink(failure: &Failure) -> Condition {
    let state = match failure.class() {
        Class::Mendable => State::Failed,
        Class::Transport | Class::Replay | Class::Gap | Class::Note => State::Blocked,
    };
    condition(state, Some(failure))
}

fn condition(state: State, reason: Option<&Failure>) -> Condition {
    Condition { state, reason: reason.cloned() }
}
