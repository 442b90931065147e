//! What follows from the state after every input: connecting, status updates, draining, exiting.

use std::time::Duration;

use pgoutput::Lsn;

use super::{Phase, Relay, patience::REPEATED};
use crate::{
    clock::{Moment, Now},
    failpoint::{self, Failpoint},
    failure::{Class, Code, Failure, Name},
    progress::feedback::SocketRead,
    protocol::{Action, ExitReason, OnFailed},
    session::{SessionPhase, WaitReason},
};

/// How long to wait before connecting again to a server that is stopping.
const SERVER_STOP_GRACE: Duration = Duration::from_secs(10);

impl Relay {
    /// Notes whether the socket may be read now; called after each input.
    pub(super) fn observe_back_pressure(&mut self, at: Moment) {
        let reason =
            self.phase.session().and_then(|session| session.pause_reason(self.settings.window));
        self.back_pressure.observe(reason, at);
    }

    pub(super) fn proceed(&mut self, now: Now) {
        let stopping = self.drain_by.is_some();
        if let Phase::Streaming(_) = self.phase {
            // This may end the session; the code below then handles the new phase at once.
            self.proceed_streaming(now);
        }
        self.proceed_leaving(now.at);
        match &mut self.phase {
            Phase::Waiting { .. } | Phase::Standby { .. } if stopping => {
                self.exit_without_session();
            }
            Phase::Connecting(_) if stopping => {
                self.give_up_connecting();
                self.exit_without_session();
            }
            Phase::Halted(halt) => {
                let may_leave = stopping && {
                    let halt = &*halt;
                    self.keeper.are_gaps_written() || Self::has_waited(halt, now.at)
                };
                if may_leave {
                    self.exit_without_session();
                } else {
                    self.proceed_halted(now);
                }
            }
            Phase::Waiting { until } => {
                if *until <= now.at && self.sink.is_ready() {
                    self.connect();
                }
            }
            Phase::Standby { check_at } => {
                if check_at.is_some_and(|check_at| check_at <= now.at) {
                    *check_at = None;
                    self.actions.push_back(Action::WatchSlot);
                }
            }
            Phase::Streaming(_) | Phase::Leaving(_) | Phase::Connecting(_) | Phase::Exited => {}
        }
        self.exit_if_failed(now);
    }

    fn proceed_streaming(&mut self, now: Now) {
        let Phase::Streaming(session) = &mut self.phase else { return };
        if session.must_release(now.at) {
            let why = Failure::new(
                Code::ServerNotReady,
                "PostgreSQL is stopping, and its walsender waits for events that are not acknowledged yet: the router disconnects",
            );
            let grace = self.backoff.at_least(SERVER_STOP_GRACE);
            self.release_server(why, grace, now);
            return;
        }
        // A batch of released events goes to the partitions where it has begun, also if it is
        // repeated.
        let left = self.left_in_flight + u64::from(!self.held.release.is_idle());
        let wanted = session.review(now.at, left, &mut self.topics);
        let is_unacked = self.unacked_by_kafka() + self.left_in_flight > 0;
        let Phase::Streaming(session) = &mut self.phase else { return };
        let waits = match session.wait_reason {
            Some(WaitReason::Topic(_) | WaitReason::QueueFull { .. } | WaitReason::SinkClosed) => {
                true
            }
            Some(WaitReason::Row { .. } | WaitReason::Isolate | WaitReason::Draining) | None => {
                is_unacked
            }
        } || self.keeper.is_writing();
        self.waiting_since = waits.then(|| self.waiting_since.unwrap_or(now.at));
        if let Some(topic) = wanted {
            self.look_up(topic, now.at);
        }
        match self.drain_by {
            Some(drain_by) => self.drain(drain_by, now),
            None => self.send_status(now),
        }
        self.proceed_held(now);
        self.write_witness(now);
        self.check_state_topic(now);
        if let Phase::Streaming(session) = &mut self.phase {
            session.review_isolation();
            let confirmed = session.ledger.confirmed();
            self.position_confirmed(confirmed);
        }
    }

    /// The position is confirmed: failures before it are overcome.
    pub(super) fn position_confirmed(&mut self, confirmed: Lsn) {
        self.failures.position_confirmed(confirmed);
        self.patience.position_confirmed(confirmed);
        self.isolate_at.take_if(|lsn| confirmed > *lsn);
        self.held.refusals.position_confirmed(confirmed);
    }

    /// Sends the status update that is due.
    fn send_status(&mut self, now: Now) {
        let socket_read = if self.wants_wal() { SocketRead::On } else { SocketRead::Off };
        let Phase::Streaming(session) = &mut self.phase else { return };
        match session.update(now, self.settings.window, socket_read) {
            Ok(None) => {}
            Ok(Some(update)) => self.actions.push_back(Action::Status(update)),
            Err(failure) => {
                let failure = self.silence_of_walsender(failure);
                self.disconnect(failure, now.at);
            }
        }
    }

    /// The walsender was silent for too long: the next may be for longer. Where that repeats, the
    /// failure says what the walsender is about, in place of the same again.
    fn silence_of_walsender(&mut self, failure: Failure) -> Failure {
        let Phase::Streaming(session) = &self.phase else { return failure };
        let usual = self.settings.timing.silence_limit;
        let (confirmed, limit) = (session.ledger.confirmed(), self.patience.limit(usual));
        let times = self.patience.silent_at(confirmed);
        if times < REPEATED {
            return failure;
        }
        let pid = self.own_walsender.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let from = self.restart_lsn().map(|lsn| format!(" from {lsn} (restart_lsn) on"));
        let what = format!(
            "the walsender{pid} has answered nothing for {} s, and that is so for {times} times at \
             {confirmed}: each time it reads WAL again{}, and a large transaction or row takes it \
             longer; now it has {} s",
            limit.as_secs(),
            from.unwrap_or_default(),
            self.patience.limit(usual).as_secs()
        );
        let busy = Failure::new(Code::WalsenderBusy, what);
        match self.own_walsender {
            Some(pid) => busy.naming(Name::Pid, pid),
            None => busy,
        }
    }

    fn drain(&mut self, drain_by: Moment, now: Now) {
        let Phase::Streaming(session) = &mut self.phase else { return };
        if session.phase == SessionPhase::Following {
            session.phase = SessionPhase::Draining;
        }
        match session.phase {
            SessionPhase::Draining | SessionPhase::Following
                if session.is_drained(&self.topics)
                    && !session.ledger.has_unwritten()
                    && self.held.is_settled() =>
            {
                let update = session.finish(now);
                failpoint::reached(Failpoint::DrainConfirmed);
                self.actions.extend([Action::Status(update), Action::CopyDone]);
                if drain_by <= now.at {
                    // The deadline has passed: there is no time to wait for the server's
                    // `CopyDone`.
                    self.end_session(now.at);
                    self.exit_without_session();
                }
            }
            SessionPhase::Draining | SessionPhase::Following if drain_by <= now.at => {
                let update = session.finish(now);
                self.actions.push_back(Action::Status(update));
                self.end_session(now.at);
                self.exit(ExitReason::EventsUnconfirmed);
            }
            SessionPhase::Draining | SessionPhase::Following => self.send_status(now),
            // Everything is confirmed; only the server's `CopyDone` is missing.
            SessionPhase::Finishing if drain_by <= now.at => {
                self.end_session(now.at);
                self.exit_without_session();
            }
            SessionPhase::Finishing => {}
        }
    }

    /// With [`OnFailed::Exit`], exits as soon as the state is `failed` (a person is needed) and
    /// everything deliverable is delivered.
    fn exit_if_failed(&mut self, now: Now) {
        if self.on_failed == OnFailed::Stay {
            return;
        }
        let sink_needs_person =
            self.failure_of_sink(now.at).is_some_and(|failure| failure.class() == Class::Mendable);
        let has_failed = match &self.phase {
            Phase::Halted(halt) => self.keeper.are_gaps_written() || Self::has_waited(halt, now.at),
            Phase::Waiting { .. } => self.failures.need_person() || sink_needs_person,
            Phase::Streaming(_) if sink_needs_person => true,
            Phase::Streaming(session) => {
                matches!(session.wait_reason, Some(WaitReason::Row { .. }))
                    && session.ledger.is_settled_but_for_open()
                    && session.ledger.confirmed() == session.ledger.settled()
            }
            Phase::Connecting(_) | Phase::Standby { .. } | Phase::Leaving(_) | Phase::Exited => {
                false
            }
        };
        if has_failed {
            self.send_update_before_disconnect(now);
            self.end_session(now.at);
            self.exit(ExitReason::Failed);
        }
    }
}
