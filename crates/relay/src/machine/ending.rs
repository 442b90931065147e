//! How a session ends, and what becomes of the sink and of the next session then.

use std::time::Duration;

use super::{Halt, Phase, Relay, backoff::STEADY, failure_history::During};
use crate::{
    clock::{Moment, Now},
    failpoint::{self, Failpoint},
    failure::{Class, Failure},
    progress::ticket::TransactionRef,
    protocol::{Action, Outcome},
    session::{Course, Session},
    source::Gap,
};

/// How long a failure that a person must mend waits before it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

impl Relay {
    /// The connection is gone or must go; what follows depends on the failure's class alone.
    pub(super) fn lost(&mut self, failure: Failure, at: Moment) {
        if self.judge_without_catalog(at) {
            return;
        }
        let (failure, during) = match &self.phase {
            // Nothing is under way that could be lost.
            Phase::Waiting { .. } | Phase::Halted(_) | Phase::Over => return,
            Phase::Connecting(_) | Phase::Standby { .. } => (failure, During::Connecting),
            Phase::Streaming(session) => placed(failure, session),
        };
        if failure.class() == Class::Gap && !self.is_being_set_up(&failure) {
            let gaps = self.gaps_of(failure);
            self.halt(gaps, at);
            return;
        }
        self.fail(failure, during, at);
    }

    /// The end of an attempt or a session; a new one begins after a while.
    pub(super) fn fail(&mut self, failure: Failure, during: During, at: Moment) {
        self.totals.count_error(failure.code);
        if let Phase::Connecting(attempt) = &self.phase
            && attempt.is_connected()
        {
            self.actions.push_back(Action::Disconnect);
        }
        self.end_session(at);
        if let (During::Streaming(_), Some(place)) = (during, failure.lsn) {
            self.isolate_at = Some(place);
        }
        let wait = match self.failures.note(failure, during) {
            Class::Mendable | Class::Gap => LOOK_AGAIN,
            Class::Transport | Class::Replay => self.backoff.next(),
        };
        self.slot_holder = None;
        self.phase = Phase::Waiting { until: at + wait };
    }

    /// Lets the server go, and stays away for `wait`.
    pub(super) fn release_server(&mut self, why: Failure, wait: Duration, now: Now) {
        self.send_final_status(now);
        self.lost(why, now.at);
        if let Phase::Waiting { until } = &mut self.phase {
            *until = (*until).max(now.at + wait);
        }
    }

    /// Confirms what is settled before we end a session of ourselves. Not when the connection
    /// failed, which would not carry it, nor after a gap or when the stream or the books cannot be
    /// trusted: these confirm nothing more.
    pub(super) fn send_final_status(&mut self, now: Now) {
        if let Phase::Streaming(session) = &mut self.phase
            && let Some(update) = session.final_status(now)
        {
            self.actions.push_back(Action::Status(update));
        }
    }

    /// Gaps: nothing is produced or confirmed from now on. They stay open until a person accepts
    /// them, also in the witness.
    pub(super) fn halt(&mut self, gaps: Vec<Gap>, at: Moment) {
        match self.phase {
            Phase::Halted(_) | Phase::Over => return,
            Phase::Streaming(_) => self.end_session(at),
            // A connection attempt that is under way must not become a session.
            Phase::Connecting(_) => self.give_up_connecting(),
            Phase::Waiting { .. } | Phase::Standby { .. } => {}
        }
        self.keeper.open_gaps(&gaps);
        for gap in &gaps {
            self.totals.count_error(gap.failure.code);
        }
        let Some(gap) = gaps.into_iter().next() else { return };
        let look_at = self.next_look_at(at);
        self.phase = Phase::Halted(Box::new(Halt { gap, since: at, look_at }));
    }

    /// The connection that an attempt has made, or is making, is of no use any more.
    pub(super) fn give_up_connecting(&mut self) {
        if let Phase::Connecting(attempt) = &self.phase
            && attempt.has_begun()
        {
            self.actions.push_back(Action::Disconnect);
        }
    }

    /// Takes leave of the session, if there is one; the caller decides what comes next.
    pub(super) fn end_session(&mut self, at: Moment) {
        let Phase::Streaming(session) = &self.phase else { return };
        self.totals.transactions += session.transactions;
        self.totals.rows_ignored += session.rows_ignored;
        self.confirmed = self.confirmed.max(session.ledger.confirmed());
        self.left_unconfirmed = session.ledger.window().0;
        self.keeper.remember(session.ledger.settled(), session.ledger.last());
        if let Some(failure) = session.row_failure() {
            self.failures.note(failure.clone(), During::Streaming(self.confirmed));
        }
        if at.since(session.since) >= STEADY {
            self.backoff.reset();
        }
        let unacked = session.ledger.unacked();
        self.owed_since = None;
        self.actions.push_back(Action::Disconnect);
        // Tickets tell the present session from one earlier: no third may be in flight, nor a third
        // window of memory.
        if self.left_in_flight > 0 {
            self.replace_sink(None, at);
        }
        if self.sink.is_ready() {
            self.left_in_flight = unacked;
        }
        self.phase = Phase::Waiting { until: at };
    }

    /// First error: nothing is produced after it, the producer is replaced, the slot replays.
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
        self.send_final_status(now);
        self.sink_failed(transaction, failure, now.at);
    }

    /// Whether a failure of the producer changes nothing any more. The server's goodbye is read on
    /// without it, because closing with unread bytes can lose the last status update; the deadline
    /// ends that, too. Records that an earlier session has left come late: they are thrown away
    /// with the session.
    fn has_nothing_to_produce(&self) -> bool {
        match &self.phase {
            Phase::Streaming(session) => {
                // Everything of this session's is acknowledged, or it would not be finishing.
                session.course == Course::Finishing && self.left_in_flight == 0
            }
            Phase::Over => true,
            Phase::Waiting { .. }
            | Phase::Connecting(_)
            | Phase::Standby { .. }
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
        let session = match &self.phase {
            Phase::Streaming(session) => Some(session),
            Phase::Waiting { .. }
            | Phase::Connecting(_)
            | Phase::Standby { .. }
            | Phase::Halted(_)
            | Phase::Over => None,
        };
        let commit = session.zip(transaction).and_then(|(own, of)| own.ledger.commit_lsn_of(of));
        let failure = match commit {
            Some(lsn) => failure.at(lsn),
            None => failure,
        };
        self.replace_sink(Some(&failure), at);
        self.without_sink(failure, at);
    }

    /// There is no producer any more, for this reason.
    pub(super) fn without_sink(&mut self, failure: Failure, at: Moment) {
        match &self.phase {
            Phase::Streaming(_) => self.lost(failure, at),
            // Its session would read nothing, and a server that stops would wait for it; and the
            // state was read before the producer that will write it was made: it may be another
            // cluster's by then.
            Phase::Connecting(_) => {
                self.give_up_connecting();
                self.totals.count_error(failure.code);
                self.phase = Phase::Waiting { until: at };
            }
            Phase::Waiting { .. } | Phase::Standby { .. } | Phase::Halted(_) | Phase::Over => {
                self.totals.count_error(failure.code);
            }
        }
    }

    /// Gives the producer up, with what it holds; `why` is its own failure, if it failed.
    pub(super) fn replace_sink(&mut self, why: Option<&Failure>, at: Moment) {
        if let Some(wait) = self.sink.replace(why, at) {
            self.totals.reconnects.kafka += 1;
            self.topics.forget();
            self.keeper.sink_replaced();
            self.actions.push_back(Action::ReplaceSink { wait });
        }
        self.left_in_flight = 0;
    }

    pub(super) fn exit(&mut self, outcome: Outcome) {
        if self.drain_by.is_some() {
            failpoint::reached(Failpoint::DrainEnded);
        }
        self.phase = Phase::Over;
        self.actions.push_back(Action::Exit(outcome));
    }

    /// Leaves without a session, as well as the last one allows.
    pub(super) fn exit_without_session(&mut self) {
        self.exit(match self.left_unconfirmed {
            0 => Outcome::Drained,
            1.. => Outcome::DeadlinePassed,
        });
    }
}

/// A failure of the stream, with the transaction that it happened in.
fn placed(failure: Failure, session: &Session) -> (Failure, During) {
    let failure = match (failure.lsn, failure.class(), session.ledger.open_commit_lsn()) {
        (None, Class::Replay, Some(lsn)) => failure.at(lsn),
        (Some(_), _, _)
        | (None, Class::Transport | Class::Replay | Class::Mendable | Class::Gap, _) => failure,
    };
    (failure, During::Streaming(session.ledger.confirmed()))
}
