//! How a session ends, and what that means for the sink and the next session.

use std::time::Duration;

use super::{Halt, Phase, Relay, backoff::STEADY, failure_history::During};
use crate::{
    clock::{Moment, Now},
    failpoint::{self, Failpoint},
    failure::{Case, Class, Code, Failure, Name},
    held::suspects::Narrowed,
    progress::ticket::TransactionRef,
    protocol::{Action, ExitReason},
    session::{Session, SessionPhase},
    source::Gap,
};

/// How long to wait before the next attempt after a failure that a person must repair.
const CHECK_AGAIN: Duration = Duration::from_secs(30);

impl Relay {
    /// The connection failed or must be closed. What follows depends on the failure's class, and on
    /// whether set-up is finished.
    pub(super) fn disconnect(&mut self, failure: Failure, at: Moment) {
        if self.check_without_catalog(at) {
            return;
        }
        let (failure, during) = match &self.phase {
            // There is no connection, and no attempt to make one.
            Phase::Waiting { .. } | Phase::Halted(_) | Phase::Exited => return,
            Phase::Connecting(_) | Phase::Standby { .. } => (failure, During::Connecting),
            Phase::Streaming(session) => {
                let (failure, during) = with_commit_lsn(failure, session);
                (self.of_unsendable_row(failure), during)
            }
            Phase::Leaving(leaving) => {
                let (failure, during) = leaving.reported(failure);
                (self.of_unsendable_row(failure), during)
            }
        };
        if failure.class() == Class::Gap && !self.is_being_set_up(&failure) {
            let gaps = self.gaps_of(failure);
            self.halt(gaps, at);
            return;
        }
        self.fail(failure, during, at);
    }

    /// The server ended the stream at the transaction at which the session before ended, too.
    /// A person may let the slot pass it. Mostly everything before it is confirmed, because it is
    /// isolated. Where the server comes to it before this router knows that it holds the slot, no
    /// session begins, and what comes before it is passed with it: the command names both.
    fn of_unsendable_row(&self, failure: Failure) -> Failure {
        let again = failure.lsn.filter(|lsn| self.isolate_at == Some(*lsn));
        let Some(lsn) = again.filter(|_| failure.code == Code::ServerError) else {
            return failure;
        };
        let what = format!(
            "PostgreSQL cannot send a row of the transaction that commits at {lsn}: {}",
            failure.message_with_causes()
        );
        let skip = format!("outbox-router skip --lsn {lsn} --transaction");
        Failure::of(Case::RowUnsendable, what).naming(Name::Statements, skip).at(lsn)
    }

    /// Ends an attempt or a session; the next attempt begins after a wait that depends on the
    /// class.
    pub(super) fn fail(&mut self, failure: Failure, during: During, at: Moment) {
        self.totals.count_error(failure.code);
        if let Phase::Connecting(attempt) = &self.phase
            && attempt.is_connected()
        {
            self.actions.push_back(Action::Disconnect);
        }
        self.stop_reading();
        self.end_session(at);
        if let (During::Streaming(_), Some(lsn)) = (during, failure.lsn) {
            self.isolate_at = Some(lsn);
        }
        let wait = match self.failures.add(failure, during) {
            Class::Mendable | Class::Gap | Class::Note => CHECK_AGAIN,
            Class::Transport | Class::Replay => self.backoff.next(),
        };
        self.slot_holder = None;
        self.phase = Phase::Waiting { until: at + wait };
    }

    /// Closes the connection, after a last status update, and does not connect again for `wait`.
    pub(super) fn release_server(&mut self, why: Failure, wait: Duration, now: Now) {
        self.send_update_before_disconnect(now);
        self.disconnect(why, now.at);
        if let Phase::Waiting { until } = &mut self.phase {
            *until = (*until).max(now.at + wait);
        }
    }

    /// Confirms what is confirmable before the router ends a session by its own decision. Not
    /// called when the connection failed, since it would carry no update. Not called after a gap,
    /// nor when stream or acknowledgements cannot be trusted: then nothing more is confirmed.
    pub(super) fn send_update_before_disconnect(&mut self, now: Now) {
        if let Phase::Streaming(session) = &mut self.phase
            && let Some(update) = session.update_before_disconnect(now)
        {
            self.actions.push_back(Action::Status(update));
        }
    }

    /// Halts because of gaps: nothing is produced or confirmed from now on (I8). The gaps stay
    /// open, in the witness too, until a person accepts them.
    pub(super) fn halt(&mut self, gaps: Vec<Gap>, at: Moment) {
        match self.phase {
            Phase::Halted(_) | Phase::Exited => return,
            Phase::Streaming(_) => self.end_session(at),
            // An attempt to connect must not become a session.
            Phase::Connecting(_) => self.give_up_connecting(),
            Phase::Leaving(_) => self.stop_reading(),
            Phase::Waiting { .. } | Phase::Standby { .. } => {}
        }
        self.keeper.open_gaps(&gaps);
        for gap in &gaps {
            self.totals.count_error(gap.failure.code);
        }
        let Some(gap) = gaps.into_iter().next() else { return };
        let check_at = self.next_check_at(at);
        self.phase = Phase::Halted(Box::new(Halt { gap, since: at, check_at }));
    }

    /// Closes the connection that an attempt has made or is making.
    pub(super) fn give_up_connecting(&mut self) {
        if let Phase::Connecting(attempt) = &self.phase
            && attempt.has_begun()
        {
            self.actions.push_back(Action::Disconnect);
        }
    }

    /// Ends the session, if there is one, and takes over its counters; the caller decides what
    /// comes next.
    pub(super) fn end_session(&mut self, at: Moment) {
        if let Phase::Streaming(_) = &self.phase {
            self.actions.push_back(Action::Disconnect);
            self.leave_session(at);
        }
    }

    /// As [`Relay::end_session`], but the connection stays.
    pub(super) fn leave_session(&mut self, at: Moment) {
        let Phase::Streaming(session) = &self.phase else { return };
        self.totals.transactions += session.transactions;
        self.totals.rows_ignored += session.rows_ignored;
        self.totals.rows_filtered += session.rows_filtered;
        self.confirmed = self.confirmed.max(session.ledger.confirmed());
        self.left_unconfirmed = session.ledger.window().0;
        self.left_unacked = self.oldest_unacked();
        self.keeper.session_ended(session.ledger.settled(), session.ledger.last());
        if let Some(failure) = session.row_failure() {
            self.failures.add(failure.clone(), During::Streaming(self.confirmed));
        }
        if at.since(session.since) >= STEADY {
            self.backoff.reset();
        }
        // What waits for the table is in no producer; what is released is in no ledger.
        let unacked = self.unacked_by_kafka();
        self.waiting_since = None;
        // Records of at most two sessions may be in flight: tickets need to distinguish no more,
        // and each session may leave a window of records in memory.
        // Besides, while a refused record is searched, nothing else may be in flight.
        if self.left_in_flight > 0 || (unacked > 0 && self.held.is_narrowing()) {
            self.replace_sink(None, at);
        }
        if self.sink.is_ready() {
            self.left_in_flight = unacked;
        }
        self.held.session_ended();
        self.phase = Phase::Waiting { until: at };
    }

    /// A delivery failed: nothing more is produced, the producer is replaced, and the slot replays.
    pub(super) fn delivery_failed(
        &mut self,
        transaction: Option<TransactionRef>,
        failure: Failure,
        now: Now,
    ) {
        if self.has_nothing_to_produce() {
            self.totals.count_error(failure.code);
            return;
        }
        self.send_update_before_disconnect(now);
        self.sink_failed(transaction, failure, now.at);
    }

    /// Whether a failure of the producer changes nothing any more. A finishing session needs no
    /// producer: it reads until the server's `CopyDone` or the deadline, because closing a socket
    /// with unread bytes can lose the last status update. If records of an earlier session are
    /// still in flight, the failure ends the session, and they are discarded.
    fn has_nothing_to_produce(&self) -> bool {
        match &self.phase {
            Phase::Streaming(session) => {
                // Everything of this session is acknowledged, or it would not be finishing.
                session.phase == SessionPhase::Finishing && self.left_in_flight == 0
            }
            Phase::Exited => true,
            Phase::Waiting { .. }
            | Phase::Connecting(_)
            | Phase::Standby { .. }
            | Phase::Leaving(_)
            | Phase::Halted(_) => false,
        }
    }

    /// As [`Relay::delivery_failed`], but nothing more is confirmed.
    pub(super) fn sink_failed(
        &mut self,
        transaction: Option<TransactionRef>,
        failure: Failure,
        at: Moment,
    ) {
        let session = self.phase.session();
        let known = session.zip(transaction).and_then(|(own, of)| own.ledger.transaction_of(of));
        let failure = self.of_letter(match known {
            Some(known) => failure.at(known.commit_lsn),
            None => failure,
        });
        let is_streaming = matches!(self.phase, Phase::Streaming(_));
        if is_streaming && self.narrow(transaction, known, &failure) == Narrowed::Further {
            self.replay_narrowed(&failure, at);
            return;
        }
        self.replace_sink(Some(&failure), at);
        self.without_sink(failure, at);
    }

    /// A broker refused a record, and the next session goes on with fewer suspects: it begins at
    /// once. That comes to an end by itself, so it is no failure of producers in a row.
    fn replay_narrowed(&mut self, failure: &Failure, at: Moment) {
        self.totals.count_error(failure.code);
        self.replace_sink(None, at);
        self.end_session(at);
        if let Some(lsn) = failure.lsn {
            self.isolate_at = Some(lsn);
        }
        self.slot_holder = None;
        self.phase = Phase::Waiting { until: at };
    }

    /// There is no producer any more, because of `failure`: a session or an attempt to connect
    /// ends.
    pub(super) fn without_sink(&mut self, failure: Failure, at: Moment) {
        match &self.phase {
            Phase::Streaming(_) => self.disconnect(failure, at),
            // A session without a producer would read nothing, and a stopping server would wait for
            // it. Besides, the state topic was read before the next producer is made, which may
            // reach another cluster.
            Phase::Connecting(_) => {
                self.give_up_connecting();
                self.totals.count_error(failure.code);
                self.phase = Phase::Waiting { until: at };
            }
            Phase::Waiting { .. }
            | Phase::Standby { .. }
            | Phase::Leaving(_)
            | Phase::Halted(_)
            | Phase::Exited => {
                self.totals.count_error(failure.code);
            }
        }
    }

    /// Discards the producer with its queue; `why` is the producer's failure, if it failed.
    pub(super) fn replace_sink(&mut self, why: Option<&Failure>, at: Moment) {
        if let Some(wait) = self.sink.replace(why, at) {
            self.totals.reconnects.kafka += 1;
            self.topics.forget();
            self.keeper.sink_replaced();
            self.actions.push_back(Action::ReplaceSink { wait });
        }
        self.left_in_flight = 0;
    }

    pub(super) fn exit(&mut self, outcome: ExitReason) {
        if self.drain_by.is_some() {
            failpoint::reached(Failpoint::DrainEnded);
        }
        self.phase = Phase::Exited;
        self.actions.push_back(Action::Exit(outcome));
    }

    /// Exits without a session; the outcome depends on whether the last session confirmed
    /// everything.
    pub(super) fn exit_without_session(&mut self) {
        self.exit(match self.left_unconfirmed {
            0 => ExitReason::Drained,
            1.. => ExitReason::EventsUnconfirmed,
        });
    }
}

/// A failure of the stream, with the commit LSN of the transaction in which it happened.
fn with_commit_lsn(failure: Failure, session: &Session) -> (Failure, During) {
    let failure = match (failure.lsn, failure.class(), session.ledger.open_commit_lsn()) {
        (None, Class::Replay, Some(lsn)) => failure.at(lsn),
        (Some(_), _, _)
        | (
            None,
            Class::Transport | Class::Replay | Class::Mendable | Class::Gap | Class::Note,
            _,
        ) => failure,
    };
    (failure, During::Streaming(session.ledger.confirmed()))
}
