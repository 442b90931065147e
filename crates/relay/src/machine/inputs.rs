//! What each input means.

use std::{num::NonZeroI32, time::Duration};

use super::{Phase, Relay};
use crate::{
    backlog::BacklogFrom,
    clock::{Moment, Now},
    failpoint::{self, Failpoint},
    failure::{Case, Code, Failure},
    notice::ServerNotice,
    ports::Acks,
    progress::{
        WitnessStore,
        ledger::{Credit, LedgerPlace},
    },
    protocol::Input,
    routing::{record::TopicId, topics::TopicFacts},
    session::SessionPhase,
    source::Gap,
};

/// The pause between finding the slot held and watching it.
const STANDBY_CHECK: Duration = Duration::from_millis(300);
/// How long a stopping server may wait for what is still in flight.
const SERVER_STOP_DELAY: Duration = Duration::from_secs(2);

impl Relay {
    pub(super) fn apply(&mut self, input: Input<'_>, now: Now) {
        let at = now.at;
        match input {
            Input::StateTopic(number, read) => self.state_topic_read(number, read, at),
            Input::StateTopicUnchanged(number) => self.state_topic_unchanged(number, at),
            Input::StateTopicWritten(ack) => self.state_topic_written(ack, now.at),
            Input::Held(number, answer) => self.held_answered(number, answer, at),
            Input::Connected(server) => self.connected(server, at),
            Input::Timelines(timelines) => self.timelines_read(&timelines, at),
            Input::Slot(reading) => self.slot_read(reading, at),
            Input::Catalog(catalog) => self.catalog_read(catalog, at),
            Input::ReplicationStarted(walsender) => self.replication_started(walsender, at),
            Input::FramesFrom(frames) => self.frames_come_from(frames),
            Input::Disconnected(failure) => self.connection_failed(failure, at),
            Input::BytesArrived => {
                if let Phase::Streaming(session) = &mut self.phase {
                    session.received_from_server(now);
                }
            }
            Input::SlotHeld(holder) => self.slot_held(holder, at),
            Input::SlotFree => {
                if let Phase::Standby { .. } = self.phase {
                    self.phase = Phase::Waiting { until: at };
                }
            }
            Input::StreamEnded => {
                failpoint::reached(Failpoint::StreamEnded);
                self.stream_ended(at);
            }
            Input::Notice(notice) => {
                self.notice(notice, at);
                failpoint::reached(Failpoint::WarningTaken);
            }
            Input::Acks(acks) => {
                failpoint::reached(Failpoint::BeforeAcks);
                self.acknowledged(acks, now);
                failpoint::reached(Failpoint::AfterAcks);
            }
            Input::DeliveryFailed { transaction, failure } => {
                failpoint::reached(Failpoint::DeliveryFailed);
                self.delivery_failed(transaction, failure, now);
            }
            Input::SinkReady => self.sink_ready(at),
            Input::BrokersUnreachable(failure) => self.brokers_unreachable = failure,
            Input::Topic(id, answer) => self.topic(id, answer, now),
            Input::Partitions(id, count) => self.partitions(id, count, now),
            Input::TopicGone(id) => self.topic_gone(id),
            Input::TopicsSeen(topics) => self.keeper.topics_seen(topics),
            Input::GapSuspected(gap) => self.gap_suspected(gap, at),
            Input::SourceVerified(reading, catalog) => self.source_verified(reading, catalog),
            Input::ServerStopping => {
                if let Phase::Streaming(session) = &mut self.phase {
                    session.release_by(at + SERVER_STOP_DELAY);
                }
            }
            Input::ProcessStalled(duration) => self.process_stalled(duration, at),
            Input::Shutdown => {
                self.drain_by = Some(self.drain_by.unwrap_or(at + self.shutdown_limit));
                failpoint::reached(Failpoint::DrainBegun);
            }
            Input::Tick => {}
        }
    }

    fn frames_come_from(&mut self, frames: BacklogFrom) {
        match &mut self.phase {
            Phase::Connecting(attempt) => attempt.frames = frames,
            Phase::Streaming(session) => session.frames_come_from(frames),
            Phase::Waiting { .. }
            | Phase::Standby { .. }
            | Phase::Leaving(_)
            | Phase::Halted(_)
            | Phase::Exited => {}
        }
    }

    pub(super) fn slot_held(&mut self, holder: Option<i32>, at: Moment) {
        if let Phase::Connecting(_) | Phase::Standby { .. } = self.phase {
            self.give_up_connecting();
            self.slot_holder = holder;
            // The holder of the slot is sent what this process left unconfirmed.
            self.left_unconfirmed = 0;
            self.phase = Phase::Standby { check_at: Some(at + self.backoff.spread(STANDBY_CHECK)) };
        }
    }

    /// Takes a gap that the monitor suspects. Only the holder of the slot writes a gap into the
    /// witness: the holder alone knows what is acknowledged, and another router's gap would hide
    /// what the holder writes. Without the slot this process remembers the gap until it holds the
    /// slot, since nothing else may show the gap by then.
    fn gap_suspected(&mut self, gap: Gap, at: Moment) {
        let streams = matches!(self.phase, Phase::Streaming(_));
        if streams || self.keeper.store() == WitnessStore::Memory {
            self.halt(vec![gap], at);
        } else if matches!(
            self.phase,
            Phase::Waiting { .. } | Phase::Connecting(_) | Phase::Leaving(_)
        ) {
            let generation = self.keeper.witness().map_or(0, |known| known.generation);
            self.suspected.retain(|(known, _)| !known.is_same(&gap));
            self.suspected.push((gap, generation));
        }
    }

    fn stream_ended(&mut self, at: Moment) {
        let has_finished = match &self.phase {
            Phase::Streaming(session) => session.phase == SessionPhase::Finishing,
            Phase::Leaving(_) => false,
            Phase::Waiting { .. }
            | Phase::Connecting(_)
            | Phase::Standby { .. }
            | Phase::Halted(_)
            | Phase::Exited => return,
        };
        if has_finished {
            self.end_session(at);
            self.exit_without_session();
        } else {
            let why =
                Failure::new(Code::ServerNotReady, "PostgreSQL ended the stream: it is stopping");
            self.disconnect(why, at);
        }
    }

    /// A process that did not run for longer than the server waits may have lost the slot without
    /// noticing. The new holder has read again what lies in this process's socket and producer
    /// queue, and producing it now would be late. Both are discarded; if no other process took the
    /// slot, it replays them.
    fn process_stalled(&mut self, duration: Duration, at: Moment) {
        let is_connecting =
            matches!(&self.phase, Phase::Connecting(attempt) if attempt.is_connected());
        let has_something = matches!(self.phase, Phase::Streaming(_)) || self.left_in_flight > 0;
        if has_something || is_connecting {
            let why = format!(
                "this process did not run for {} s, so the server may have given the slot to another",
                duration.as_secs()
            );
            let failure = Failure::of(Case::ProcessStalled, why);
            if has_something {
                // No failure of the producer: only its queue is discarded.
                self.replace_sink(None, at);
                self.without_sink(failure.clone(), at);
            }
            if is_connecting {
                self.disconnect(failure, at);
            }
        }
    }

    fn notice(&mut self, notice: &ServerNotice, at: Moment) {
        let Phase::Streaming(session) = &mut self.phase else { return };
        match notice.rows_skipped(&self.publication) {
            Some(failure) => {
                let gaps = self.gaps_of(failure);
                self.halt(gaps, at);
            }
            None => session.warned(notice, at),
        }
    }

    fn acknowledged(&mut self, acks: &Acks, now: Now) {
        let mut broken = None;
        // Only an acknowledgement of the oldest transaction ends the wait that `waiting_since`
        // measures.
        let mut oldest = LedgerPlace::Behind;
        for run in acks.runs() {
            if run.transaction.is_release() {
                self.released(run);
                continue;
            }
            let credit = match &mut self.phase {
                Phase::Streaming(session) => session.ledger.credit(run),
                Phase::Waiting { .. }
                | Phase::Connecting(_)
                | Phase::Standby { .. }
                | Phase::Leaving(_)
                | Phase::Halted(_)
                | Phase::Exited => Ok(Credit::Stale),
            };
            let since = match credit {
                Ok(Credit::Counted(since, place)) => {
                    if place == LedgerPlace::Oldest {
                        oldest = LedgerPlace::Oldest;
                    }
                    Some(since)
                }
                Ok(Credit::Stale) => {
                    // A record of an earlier session is older than the oldest in the ledger.
                    oldest = LedgerPlace::Oldest;
                    self.left_in_flight =
                        self.left_in_flight.saturating_sub(u64::from(run.records));
                    None
                }
                Err(disorder) => {
                    broken = Some(Failure::from_error(Code::ProducerFatal, disorder));
                    continue;
                }
            };
            self.topics.acknowledged(run.topic, run.records);
            let micros = since.map(|since| now.wall.micros_since(since));
            self.totals.topics.count(run.topic, run.records, micros);
        }
        if let Phase::Streaming(session) = &mut self.phase
            && !acks.is_empty()
        {
            session.room_made();
        }
        if broken.is_none() && !acks.is_empty() {
            self.sink.succeeded();
        }
        if oldest == LedgerPlace::Oldest {
            self.waiting_since = None;
            self.brokers_unreachable = None;
        }
        if let Some(failure) = broken {
            self.sink_failed(None, failure, now.at);
        }
    }

    fn sink_ready(&mut self, at: Moment) {
        self.sink.ready(at);
        self.brokers_unreachable = None;
    }

    /// A look-up was answered.
    fn topic(&mut self, id: TopicId, answer: Result<TopicFacts, Failure>, now: Now) {
        if let Err(failure) = &answer {
            self.totals.count_error(failure.code);
        }
        if answer.is_ok() {
            self.held.release.looked_up(id);
        }
        let answer = answer.map(|facts| self.pin(id, facts));
        match (self.topics.facts(id), answer) {
            // The topic is in use, and was looked up for its `max.message.bytes`. A failed look-up
            // changes nothing; producing will show whether the topic is usable.
            (Some(_), Err(_)) => {}
            (Some(old), Ok(new)) if old.partitions != new.partitions => {
                self.partitions_changed(id, old, new, now);
            }
            (known, Ok(facts)) => {
                self.topics.answer(id, Ok(facts), now.at);
                self.topics.partitions_recorded(self.keeper.recorded_partitions());
                if let Phase::Streaming(session) = &mut self.phase {
                    session.topic_found(id);
                    // Only a changed limit has the row offered again. Under the old limit it would
                    // block again, and the look-up that may find a higher limit would come later.
                    if known != Some(facts) {
                        session.topic_differs(id);
                    }
                }
            }
            (None, answer) => self.topics.answer(id, answer, now.at),
        }
    }

    /// The metadata of a topic in use was read again. A topic that is not in use is ignored: it
    /// must be looked up first, which also reads its limits.
    fn partitions(&mut self, id: TopicId, partitions: NonZeroI32, now: Now) {
        if let Some(old) = self.topics.facts(id) {
            let new = self.pin(id, TopicFacts { partitions, ..old });
            if old.partitions != new.partitions {
                self.partitions_changed(id, old, new, now);
            }
        }
    }

    /// Limits the partition count to that of an earlier session. What that session had in flight
    /// may come again, and must go to the same partitions. So a count that has grown since is used
    /// only when all of that is confirmable.
    fn pin(&mut self, id: TopicId, facts: TopicFacts) -> TopicFacts {
        if let Phase::Streaming(session) = &self.phase {
            let goes_on = self.held.release.is_going_on();
            self.pinned.take_if(|pinned| !goes_on && session.ledger.confirmable() >= pinned.until);
        }
        // A count that this process has used since is newer than the witness's.
        let used = self.topics.facts(id).map_or(0, |facts| facts.partitions.get());
        let name = self.topics.name(id);
        let kept = self.pinned.as_ref().and_then(|pinned| pinned.counts.get(name?.as_str()));
        match kept.map(|kept| used.max(*kept)).and_then(NonZeroI32::new) {
            Some(kept) if kept < facts.partitions => TopicFacts { partitions: kept, ..facts },
            Some(_) | None => facts,
        }
    }

    fn partitions_changed(&mut self, id: TopicId, old: TopicFacts, new: TopicFacts, now: Now) {
        if let Phase::Streaming(session) = &mut self.phase {
            if let Err(failure) = session.topic_changed(id, old, new, &self.topics) {
                self.delivery_failed(None, failure, now);
            }
        // Otherwise records of the old count are in flight, and the next read finds the change
        // again.
        } else if self.left_in_flight == 0 {
            self.topics.answer(id, Ok(new), now.at);
        }
    }

    /// A topic in use does not exist any more. Records in flight to it will fail. Without any in
    /// flight, the topic is forgotten: the next record looks it up, and waits for it.
    fn topic_gone(&mut self, id: TopicId) {
        if self.topics.in_flight(id) == 0 {
            self.topics.gone(id);
        }
    }
}
