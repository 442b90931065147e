//! What follows from the state by itself, after every input: connecting, status updates, draining, giving up.

use super::{Action, BLOCKED_AFTER, Moment, Now, OnFatal, Outcome, Phase, Relay, Sink, State};
use crate::{
    failure::{Class, Code, Failure},
    session::{Course, Hold},
    state::Condition,
    telemetry::{Snapshot, TopicTotals},
};

impl Relay {
    pub(super) fn proceed(&mut self, now: Now) {
        match &mut self.phase {
            Phase::Waiting { .. } if self.drain_by.is_some() => self.exit(Outcome::Drained),
            Phase::Waiting { why, until } => {
                if *until <= now.at && self.sink == Sink::Ready {
                    let why = why.take();
                    self.phase = Phase::Connecting { why };
                    self.actions.push_back(Action::Connect);
                }
            }
            Phase::Standby { .. } if self.drain_by.is_some() => self.exit(Outcome::Drained),
            Phase::Standby { look_at } => {
                if look_at.is_some_and(|look_at| look_at <= now.at) {
                    *look_at = None;
                    self.actions.push_back(Action::WatchSlot);
                }
            }
            Phase::Connecting { .. } if self.drain_by.is_some() => {
                self.actions.push_back(Action::Disconnect);
                self.exit(Outcome::Drained);
            }
            Phase::Halted(_) if self.drain_by.is_some() => self.exit(Outcome::Drained),
            Phase::Streaming(_) => self.proceed_streaming(now),
            Phase::Connecting { .. } | Phase::Halted(_) | Phase::Over => {}
        }
        self.give_up_if_told_to();
    }

    fn proceed_streaming(&mut self, now: Now) {
        let Phase::Streaming(session) = &mut self.phase else { return };
        session.review(now.at, &mut self.topics);
        if let Some(Hold::Topic(topic)) = session.hold {
            self.look_up(topic, now.at);
        }
        let Phase::Streaming(session) = &mut self.phase else { return };
        if session.ledger.unacked() > 0 {
            self.owed_since.get_or_insert(now.at);
        }
        if let Some((known, _)) = &self.repeated
            && known.lsn.is_some_and(|lsn| session.ledger.told() > lsn)
        {
            self.repeated = None;
        }
        if let Some(drain_by) = self.drain_by {
            self.drain(drain_by, now);
            return;
        }
        match session.update(now, self.terms.window) {
            Ok(None) => {}
            Ok(Some(update)) => self.actions.push_back(Action::Status(update)),
            Err(failure) => self.lost(failure, now.at),
        }
    }

    fn drain(&mut self, drain_by: Moment, now: Now) {
        let Phase::Streaming(session) = &mut self.phase else { return };
        if session.course == Course::Following {
            session.course = Course::Draining;
        }
        if session.course == Course::Draining && session.is_drained() {
            let update = session.last_update(now);
            self.actions.extend([Action::Status(update), Action::CopyDone]);
        } else if drain_by <= now.at {
            // Finishing: everything is confirmed, only the server's goodbye is missing.
            let outcome = match session.course {
                Course::Finishing => Outcome::Drained,
                Course::Following | Course::Draining => Outcome::DeadlinePassed,
            };
            self.end_session();
            self.exit(outcome);
        } else {
            match session.update(now, self.terms.window) {
                Ok(None) => {}
                Ok(Some(update)) if session.course == Course::Draining => {
                    self.actions.push_back(Action::Status(update));
                }
                Ok(Some(_)) => {}
                Err(failure) => self.lost(failure, now.at),
            }
        }
    }

    /// With [`OnFatal::Exit`], leaves as soon as a person is needed and what can be delivered is.
    fn give_up_if_told_to(&mut self) {
        if self.on_fatal == OnFatal::Stay {
            return;
        }
        let fatal = match &self.phase {
            Phase::Halted(_) => true,
            Phase::Waiting { why: Some(why), .. } => self.needs_person(why),
            Phase::Streaming(session) => {
                matches!(session.hold, Some(Hold::Row { .. }))
                    && session.ledger.is_settled_but_for_open()
                    && session.ledger.told() == session.ledger.settled().lsn()
            }
            Phase::Waiting { why: None, .. }
            | Phase::Connecting { .. }
            | Phase::Standby { .. }
            | Phase::Over => false,
        };
        if fatal {
            self.end_session();
            self.exit(Outcome::Fatal);
        }
    }

    fn needs_person(&self, why: &Failure) -> bool {
        match why.class() {
            Class::Mendable | Class::Gap => true,
            Class::Transport => false,
            Class::Replay => self
                .repeated
                .as_ref()
                .is_some_and(|(known, times)| known == why && *times >= super::REPEATS_MAX),
        }
    }

    /// The state with its reason, as everybody is told it.
    pub fn condition(&self, at: Moment) -> Condition {
        let condition =
            |state, reason: Option<&Failure>| Condition { state, reason: reason.cloned() };
        match &self.phase {
            Phase::Over => condition(State::Draining, None),
            Phase::Halted(failure) => condition(State::Failed, Some(failure)),
            Phase::Waiting { why: Some(why), .. } | Phase::Connecting { why: Some(why) }
                if self.needs_person(why) =>
            {
                condition(State::Failed, Some(why))
            }
            Phase::Waiting { why, .. } | Phase::Connecting { why } => {
                condition(State::Starting, why.as_ref().or(self.sink_trouble.as_ref()))
            }
            Phase::Standby { .. } => condition(State::Standby, None),
            Phase::Streaming(session) => match &session.hold {
                Some(Hold::Row { failure, .. }) => condition(State::Failed, Some(failure)),
                _ if session.course != Course::Following => condition(State::Draining, None),
                Some(Hold::Topic(topic)) if self.topics.refusal(*topic).is_some() => {
                    condition(State::Blocked, self.topics.refusal(*topic))
                }
                _ => match (&self.sink_trouble, self.waiting_for_ack(at)) {
                    (Some(trouble), _) => condition(State::Blocked, Some(trouble)),
                    (None, Some(waiting)) if waiting >= BLOCKED_AFTER => {
                        let silent = Failure::new(
                            Code::KafkaUnreachable,
                            format!("Kafka has acknowledged nothing for {} s", waiting.as_secs()),
                        );
                        condition(State::Blocked, Some(&silent))
                    }
                    _ => condition(State::Streaming, None),
                },
            },
        }
    }

    fn waiting_for_ack(&self, at: Moment) -> Option<std::time::Duration> {
        self.owed_since.map(|since| at.since(since))
    }

    /// Everything that is told of the core, at one moment.
    pub fn snapshot(&self, at: Moment) -> Snapshot {
        let (received, acked, told, window, unacked, transactions, rows_ignored) = match &self.phase
        {
            Phase::Streaming(session) => (
                session.received,
                session.ledger.settled().lsn(),
                session.ledger.told(),
                session.ledger.window(),
                session.ledger.unacked(),
                session.transactions,
                session.rows_ignored,
            ),
            _ => (self.told, self.told, self.told, (0, 0), 0, 0, 0),
        };
        let totals = self.totals.topics.iter();
        Snapshot {
            condition: self.condition(at),
            received,
            acked,
            confirmed: told.max(self.told),
            window_events: window.0,
            window_bytes: window.1,
            unacked_events: unacked,
            waiting_for_ack: self.waiting_for_ack(at),
            topics: self
                .topics
                .names()
                .zip(totals)
                .map(|(name, (acked, latencies))| TopicTotals {
                    name: name.clone(),
                    acked: *acked,
                    latencies: latencies.clone(),
                })
                .collect(),
            transactions: self.totals.transactions + transactions,
            rows_ignored: self.totals.rows_ignored + rows_ignored,
            reconnects: self.totals.reconnects,
            errors: self.totals.errors.clone(),
            slot_holder: self.slot_holder,
        }
    }
}
