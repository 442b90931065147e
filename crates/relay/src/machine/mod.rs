//! The core: a function of (input, now) that answers with actions. Start reading here.
//!
//! ```text
//! waiting → connecting ─Connected→ streaming ─failure→ waiting …
//!    ↑         │ SlotHeld               │ a gap
//!    ├───── standby                     ↓
//!    └──────────────────────────────  halted
//!                     accepted by a person
//! ```
//! The shell turns sockets, timers and delivery reports into [`Input`]s and carries [`Action`]s
//! out; nothing here waits, reads a clock, or knows tokio, a socket or librdkafka. How a connection
//! is made is in `connecting`, how a session begins in `beginning`, what each input means in
//! `inputs`, how a session ends in `ending`, when a producer is replaced in `sink`, what follows
//! from the state by itself in `proceed`, and how the witness is written in `attesting`.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use pgoutput::Lsn;

use crate::{
    clock::{Moment, Now},
    failure::{Code, Failure},
    machine::backoff::Backoff,
    ports::RecordSink,
    progress::ticket::SessionId,
    protocol::{Action, Input, OnFatal, Pace, Settings, Step},
    routing::{
        record::TopicId,
        topic::TopicName,
        topics::{Topics, Vouching},
    },
    session::{BlockReason, Session, Terms},
    source::{Baseline, Gap},
    telemetry::{Latencies, Reconnects},
    witness::Keeper,
};
use attempt::Attempt;
use failure_history::FailureHistory;
use sink::Sink;

mod attempt;
mod attesting;
mod backoff;
mod beginning;
mod connecting;
mod ending;
mod failure_history;
mod inputs;
mod proceed;
mod report;
mod sink;

enum Phase {
    /// Not connected; when to try again.
    Waiting { until: Moment },
    /// From the witness to the stream, step by step.
    Connecting(Box<Attempt>),
    /// Another process holds the slot; when to look again, unless a look is under way.
    Standby { look_at: Option<Moment> },
    /// Connected.
    Streaming(Box<Session>),
    /// A gap: only a person ends this.
    Halted(Box<Halt>),
    /// [`Action::Exit`] was given.
    Over,
}

/// What waits for a person.
struct Halt {
    gap: Gap,
    since: Moment,
    /// When to see whether somebody has accepted it, unless that is being looked at.
    look_at: Option<Moment>,
}

/// See the module's documentation.
pub struct Relay {
    terms: Terms,
    slot: String,
    publication: String,
    keeper: Keeper,
    /// The state topic, if there is one.
    state_topic: Option<TopicName>,
    /// What the last session found.
    baseline: Option<Arc<Baseline>>,
    /// Gaps that the monitor has seen while there was no session, with the generation of the record
    /// then.
    suspected: Vec<(Gap, u64)>,
    /// What would follow if the server that was reached last took the place of the right one.
    elsewhere: Option<Box<Gap>>,
    /// Partition counts of an earlier session, and the position up to which they are kept: what
    /// that session had in flight may come again, and must go where it went.
    pinned: Option<Pinned>,
    drain: Duration,
    on_fatal: OnFatal,
    phase: Phase,
    /// While it is being replaced there is no session, and none is begun: [`Relay::handle`] asserts
    /// it.
    sink: Sink,
    sink_trouble: Option<Failure>,
    failures: FailureHistory,
    topics: Topics,
    /// Where the last session failed, until that place is passed: the next sessions take care
    /// there.
    isolate_at: Option<Lsn>,
    session_id: SessionId,
    /// Records of an ended session that the sink has not acknowledged.
    left_in_flight: u64,
    /// Events that the last session had read but not confirmed when it ended.
    left_unconfirmed: u64,
    backoff: Backoff,
    /// When a shutdown must be over.
    drain_by: Option<Moment>,
    /// Since when the broker owes an acknowledgement of the oldest record, or an answer about a
    /// topic.
    owed_since: Option<Moment>,
    slot_holder: Option<i32>,
    /// The last position told to the server in any session.
    confirmed: Lsn,
    /// Numbers what is read from the state topic.
    reads: u64,
    /// When to look what others have written there, unless that is under way.
    look_at: Option<Moment>,
    totals: Totals,
    /// What the sessions that began have found altered, and nobody has said yet.
    alterations: Vec<Failure>,
    actions: VecDeque<Action>,
}

/// See [`Relay::pinned`].
struct Pinned {
    counts: BTreeMap<String, i32>,
    until: Lsn,
}

#[derive(Debug, Default)]
struct Totals {
    topics: Vec<(u64, Latencies)>,
    transactions: u64,
    rows_ignored: u64,
    reconnects: Reconnects,
    errors: BTreeMap<Code, u64>,
    sessions: u64,
}

impl Totals {
    fn count_error(&mut self, code: Code) {
        *self.errors.entry(code).or_default() += 1;
    }
}

impl Relay {
    /// A core that waits for its first [`Input::SinkReady`].
    pub fn new(settings: Settings, at: Moment) -> Self {
        let Settings { outboxes, window, row_bytes, timing, .. } = settings;
        let Settings { slot, publication, witness, drain, on_fatal, seed, .. } = settings;
        Self {
            terms: Terms { outboxes, window, row_bytes, timing },
            slot,
            publication,
            topics: Topics::new(match &witness {
                Some(_) => Vouching::Needed,
                None => Vouching::NotNeeded,
            }),
            state_topic: witness.as_ref().map(|witness| witness.topic.clone()),
            keeper: Keeper::new(witness),
            baseline: None,
            suspected: Vec::new(),
            elsewhere: None,
            pinned: None,
            drain,
            on_fatal,
            phase: Phase::Waiting { until: at },
            sink: Sink::new(seed),
            sink_trouble: None,
            failures: FailureHistory::default(),
            isolate_at: None,
            session_id: SessionId::default(),
            left_in_flight: 0,
            left_unconfirmed: 0,
            backoff: Backoff::new(seed),
            drain_by: None,
            owed_since: None,
            slot_holder: None,
            confirmed: Lsn::ZERO,
            reads: 0,
            look_at: None,
            totals: Totals::default(),
            alterations: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    /// One `CopyData` payload of the stream. Never waits; [`Step::Blocked`] means that the frame
    /// was not taken.
    #[inline]
    pub fn frame<S: RecordSink>(&mut self, payload: &[u8], now: Now, sink: &mut S) -> Step {
        let Phase::Streaming(session) = &mut self.phase else { return Step::Taken };
        match session.frame(payload, now, &self.terms, &mut self.topics, sink) {
            Ok(Step::Taken) => Step::Taken,
            Ok(Step::Blocked) => self.held(now.at),
            Err(failure) => {
                self.lost(failure, now.at);
                Step::Blocked
            }
        }
    }

    /// A frame larger than `row_bytes` was thrown away while it streamed in; only `prefix` was
    /// kept.
    pub fn oversized(&mut self, announced: usize, prefix: &[u8], now: Now) -> Step {
        let Phase::Streaming(session) = &mut self.phase else { return Step::Taken };
        match session.oversized(announced, prefix, now, &self.terms) {
            Ok(Step::Taken) => Step::Taken,
            Ok(Step::Blocked) => self.held(now.at),
            Err(failure) => {
                self.lost(failure, now.at);
                Step::Blocked
            }
        }
    }

    /// Whether the next frame may be offered. While it may not, the socket is not to be read.
    #[inline]
    pub fn wants_wal(&self) -> bool {
        match &self.phase {
            Phase::Streaming(session) => session.wants_wal(self.terms.window),
            Phase::Waiting { .. }
            | Phase::Connecting(_)
            | Phase::Standby { .. }
            | Phase::Halted(_)
            | Phase::Over => false,
        }
    }

    /// How eagerly to read.
    pub fn pace(&self) -> Pace {
        match &self.phase {
            Phase::Streaming(session) => session.pace(),
            Phase::Waiting { .. }
            | Phase::Connecting(_)
            | Phase::Standby { .. }
            | Phase::Halted(_)
            | Phase::Over => Pace::AtOnce,
        }
    }

    /// Everything but frames.
    pub fn handle(&mut self, input: Input<'_>, now: Now) {
        self.apply(input, now);
        self.proceed(now);
        debug_assert!(
            self.has_sink_if_it_streams(),
            "a session without a producer reads nothing, and nothing would ever end it"
        );
    }

    /// See [`Relay::sink`].
    fn has_sink_if_it_streams(&self) -> bool {
        !matches!(self.phase, Phase::Streaming(_)) || self.sink.is_ready()
    }

    /// What to do next; call until it has nothing more.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What a session that has begun found altered since the record was written, for people to hear
    /// of. It is said now: the session's own record will not show it to the next one.
    pub fn take_alterations(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.alterations)
    }

    /// When [`Input::Tick`] is due at the latest, if no other input comes first. After a tick it
    /// lies ahead; frames may bring it closer.
    pub fn deadline(&self) -> Option<Moment> {
        let phase = match &self.phase {
            // Not before the sink is there: its arrival is an input of its own.
            Phase::Waiting { until } => self.sink.is_ready().then_some(*until),
            Phase::Standby { look_at } => *look_at,
            Phase::Streaming(session) => {
                let due = [session.deadline(&self.topics), self.attest_at(session), self.look_at];
                due.into_iter().flatten().min()
            }
            // A process that stops waits longer, for its gap to be written down.
            Phase::Halted(halt) => return self.halt_deadline(halt),
            Phase::Connecting(_) => None,
            Phase::Over => return None,
        };
        [phase, self.drain_by].into_iter().flatten().min()
    }

    /// The topics in use, for looking at their partition counts again.
    pub fn topics_in_use(&self) -> impl Iterator<Item = (TopicId, &TopicName)> {
        self.topics.known()
    }

    /// The frame at hand was not taken.
    fn held(&mut self, at: Moment) -> Step {
        if let Phase::Streaming(session) = &self.phase {
            match &session.blocked {
                Some(BlockReason::Topic(topic)) => self.look_up(*topic, at),
                Some(BlockReason::Row { failure, .. }) => self.totals.count_error(failure.code),
                Some(
                    BlockReason::QueueFull { .. }
                    | BlockReason::SinkClosed
                    | BlockReason::Isolate
                    | BlockReason::Draining,
                )
                | None => {}
            }
        }
        Step::Blocked
    }

    fn look_up(&mut self, topic: TopicId, at: Moment) {
        if self.topics.ask(topic, at)
            && let Some(name) = self.topics.name(topic)
        {
            self.actions.push_back(Action::LookUpTopic(topic, name.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
