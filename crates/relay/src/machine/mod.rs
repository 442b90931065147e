//! The core's state machine: a function of (input, now) that answers with actions.
//!
//! ```text
//! waiting → connecting ─checked→ streaming ─failure→ waiting …
//!    ↑         │ SlotHeld               │ a gap
//!    ├───── standby                     ↓
//!    └──────────────────────────────  halted
//!                     accepted by a person
//! ```
//! A gap that is found while connecting halts, too, and without a state topic one that the monitor
//! reports while there is no session. Between streaming, or connecting, and waiting lies leaving,
//! where the slot is lost.
//!
//! The shell turns sockets, timers and delivery reports into [`Input`]s and carries [`Action`]s
//! out. Nothing here waits, reads a clock, or knows tokio, a socket or librdkafka. In reading
//! order:
//!
//! * `inputs`: what each input means.
//! * `proceed`: what follows from the state after every input.
//! * `connecting`: how a connection is made; its state is in `attempt`.
//! * `beginning`: how a session begins.
//! * `witness_writes`: when the witness is written.
//! * `ending`: how a session ends.
//! * `leaving`: how a stream is read to its end when the slot is lost.
//! * `held`: how events get into the table of held events and out of it.
//! * `sink`: when a producer is replaced.
//! * `patience`: for how long a walsender may be silent.
//! * `failure_history`, `backoff`: how long to wait, and what the state reports meanwhile.
//! * `report`, `topic_counters`: state and numbers.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use pgoutput::Lsn;

use crate::{
    clock::{Moment, Now},
    failure::{Code, Failure},
    held::holding::Holding,
    ports::RecordSink,
    progress::{Unacked, ticket::SessionId},
    protocol::{Action, FrameOutcome, Input, OnFailed, ReadPace, RelaySettings},
    routing::{record::TopicId, topic::TopicName, topics::Topics},
    session::{Session, SessionSettings, Surroundings, WaitReason},
    source::{Baseline, Gap},
    telemetry::{NewLetter, Reconnects, RowsIgnored, SkippedRow},
    witness::Keeper,
};
use attempt::Attempt;
use back_pressure::BackPressure;
use backlog::BacklogChoice;
use failure_history::FailureHistory;
use lost_stream::Leaving;
use patience::Patience;

pub use topic_counters::TOPICS_COUNTED;
pub(crate) use {backoff::Backoff, sink::SinkState, topic_counters::TopicCounters};

mod attempt;
mod back_pressure;
mod backlog;
mod backoff;
mod beginning;
mod connecting;
mod ending;
mod failure_history;
mod held;
mod held_loading;
mod inputs;
mod leaving;
mod lost_stream;
mod patience;
mod proceed;
mod refused_release;
mod report;
mod sink;
mod topic_counters;
mod witness_writes;

enum Phase {
    /// Not connected; when to connect again.
    Waiting { until: Moment },
    /// Connecting, from reading the witness to the start of the stream.
    Connecting(Box<Attempt>),
    /// Another process holds the slot; when to begin to watch the slot, `None` while it is being
    /// watched.
    Standby { check_at: Option<Moment> },
    /// Streaming, with one session.
    Streaming(Box<Session>),
    /// This router does not hold the slot any more, and reads what the server has sent last.
    Leaving(Box<Leaving>),
    /// A gap was found: only a person's acceptance ends this.
    Halted(Box<Halt>),
    /// [`Action::Exit`] was given.
    Exited,
}

impl Phase {
    /// The session, while there is one.
    #[inline]
    fn session(&self) -> Option<&Session> {
        match self {
            Self::Streaming(session) => Some(session),
            Self::Waiting { .. }
            | Self::Connecting(_)
            | Self::Standby { .. }
            | Self::Leaving(_)
            | Self::Halted(_)
            | Self::Exited => None,
        }
    }
}

/// A gap that waits for a person.
struct Halt {
    gap: Gap,
    since: Moment,
    /// When to read whether the gap was accepted; `None` while that is being read, or without a
    /// state topic.
    check_at: Option<Moment>,
}

/// See the module's documentation.
pub struct Relay {
    settings: SessionSettings,
    slot: String,
    publication: String,
    keeper: Keeper,
    /// The state topic, if there is one.
    state_topic: Option<TopicName>,
    /// What slot and publication looked like when the last session began.
    baseline: Option<Arc<Baseline>>,
    /// Gaps that the monitor saw while there was no session, each with the witness's generation at
    /// that time (0: no witness was read).
    suspected: Vec<(Gap, u64)>,
    /// The gap that would follow if the server that was reached last replaced the witness's server.
    other_server_gap: Option<Box<Gap>>,
    /// Partition counts of an earlier session, and the position up to which they apply. What that
    /// session had in flight may come again, and must go to the same partitions.
    pinned: Option<Pinned>,
    shutdown_limit: Duration,
    backlog: BacklogChoice,
    on_failed: OnFailed,
    phase: Phase,
    /// While the sink is being replaced there is no session, and none begins: [`Relay::handle`]
    /// asserts that.
    sink: SinkState,
    held: Holding,
    brokers_unreachable: Option<Failure>,
    failures: FailureHistory,
    topics: Topics,
    /// The commit at which the last session failed, until the confirmed position is past it. The
    /// next sessions isolate that transaction.
    isolate_at: Option<Lsn>,
    session_id: SessionId,
    /// Records of an ended session that the sink has not acknowledged.
    left_in_flight: u64,
    /// Events past the confirmable position when the last session ended: they will be sent again.
    left_unconfirmed: u64,
    backoff: Backoff,
    /// The deadline of a shutdown; `None` if none was asked for.
    drain_by: Option<Moment>,
    /// Since when Kafka has owed an acknowledgement of the oldest record or of a write of the
    /// witness, or an answer about a topic.
    waiting_since: Option<Moment>,
    slot_holder: Option<i32>,
    /// The walsender of the last stream, if its process id is known.
    own_walsender: Option<i32>,
    patience: Patience,
    /// The greatest position that a status update of any session has named, or with which one
    /// began.
    confirmed: Lsn,
    /// The number of the last read of the state topic; an answer with another number is ignored.
    last_read_number: u64,
    /// When to read what other processes have written to the state topic; `None` while that is
    /// being read.
    check_at: Option<Moment>,
    totals: Totals,
    back_pressure: BackPressure,
    /// The oldest event that an ended session left unacknowledged; see [`Relay::oldest_unacked`].
    left_unacked: Option<Unacked>,
    /// Alterations that sessions found when they began, until [`Relay::take_alterations`].
    alterations: Vec<Failure>,
    /// See [`Relay::take_refused_again`].
    refused_again: Vec<NewLetter>,
    actions: VecDeque<Action>,
}

/// Partition counts that apply until a position is confirmable: see [`Relay::pinned`].
struct Pinned {
    counts: BTreeMap<String, i32>,
    until: Lsn,
}

#[derive(Debug, Default)]
struct Totals {
    topics: TopicCounters,
    transactions: u64,
    rows_ignored: RowsIgnored,
    rows_filtered: u64,
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
    pub fn new(settings: RelaySettings, at: Moment) -> Self {
        let RelaySettings { outboxes, window, row_bytes, timing, held, .. } = settings;
        let RelaySettings { slot, publication, witness, shutdown_limit, on_failed, seed, .. } =
            settings;
        let backlog = BacklogChoice::new(settings.backlog, witness.as_ref());
        let state_topic = witness.as_ref().map(|witness| witness.topic.clone());
        let keeper = Keeper::new(witness);
        Self {
            settings: SessionSettings { outboxes, window, row_bytes, timing },
            slot,
            publication,
            state_topic,
            topics: Topics::new(keeper.store()),
            keeper,
            baseline: None,
            suspected: Vec::new(),
            other_server_gap: None,
            pinned: None,
            shutdown_limit,
            backlog,
            on_failed,
            phase: Phase::Waiting { until: at },
            sink: SinkState::new(seed),
            held: Holding::new(held),
            brokers_unreachable: None,
            failures: FailureHistory::default(),
            isolate_at: None,
            session_id: SessionId::default(),
            left_in_flight: 0,
            left_unconfirmed: 0,
            backoff: Backoff::new(seed),
            drain_by: None,
            waiting_since: None,
            slot_holder: None,
            own_walsender: None,
            patience: Patience::default(),
            confirmed: Lsn::ZERO,
            last_read_number: 0,
            check_at: None,
            totals: Totals::default(),
            back_pressure: BackPressure::default(),
            left_unacked: None,
            alterations: Vec::new(),
            refused_again: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    /// Takes one `CopyData` payload of the stream. Never waits; [`FrameOutcome::NotTaken`] means
    /// that the frame was not taken.
    #[inline]
    pub fn frame<S: RecordSink>(&mut self, payload: &[u8], now: Now, sink: &mut S) -> FrameOutcome {
        if !self.held.is_idle()
            && let Some(outcome) = self.frame_beside_held(payload, now, sink)
        {
            return outcome;
        }
        let Phase::Streaming(session) = &mut self.phase else { return self.discard(payload) };
        match session.frame(payload, now, &self.settings, &mut self.topics, sink) {
            Ok(FrameOutcome::Taken) => FrameOutcome::Taken,
            Ok(FrameOutcome::NotTaken) => self.frame_waits(payload, now, sink),
            Err(failure) => {
                self.disconnect(failure, now.at);
                FrameOutcome::NotTaken
            }
        }
    }

    /// A frame of `announced` bytes, more than `row_bytes`, was discarded while it streamed in;
    /// only `prefix` was kept.
    pub fn oversized<S: RecordSink>(
        &mut self,
        announced: usize,
        prefix: &[u8],
        now: Now,
        sink: &mut S,
    ) -> FrameOutcome {
        let Phase::Streaming(session) = &mut self.phase else { return FrameOutcome::Taken };
        let (topics, held) = (&mut self.topics, &mut self.held);
        let around = Surroundings { now, topics, held, sink };
        match session.oversized(announced, prefix, &self.settings, around) {
            Ok(FrameOutcome::Taken) => FrameOutcome::Taken,
            Ok(FrameOutcome::NotTaken) => self.frame_not_taken(now.at),
            Err(failure) => {
                self.disconnect(failure, now.at);
                FrameOutcome::NotTaken
            }
        }
    }

    /// Whether the next frame may be offered. While it may not, the socket must not be read.
    #[inline]
    pub fn wants_wal(&self) -> bool {
        match &self.phase {
            Phase::Streaming(session) => session.wants_wal(self.settings.window),
            // The shell offers nothing without a sink.
            Phase::Leaving(_) => self.sink.is_ready(),
            Phase::Waiting { .. }
            | Phase::Connecting(_)
            | Phase::Standby { .. }
            | Phase::Halted(_)
            | Phase::Exited => false,
        }
    }

    /// How long to let the socket fill before reading it again.
    pub fn pace(&self) -> ReadPace {
        self.phase.session().map_or(ReadPace::AtOnce, Session::pace)
    }

    /// Takes any input but a frame, and does what follows from it.
    pub fn handle(&mut self, input: Input<'_>, now: Now) {
        self.apply(input, now);
        self.proceed(now);
        self.observe_back_pressure(now.at);
        debug_assert!(
            self.has_sink_if_it_streams(),
            "a session without a producer reads nothing, and nothing would ever end it"
        );
    }

    /// A session without a producer reads nothing, and a stopping server would wait for it.
    fn has_sink_if_it_streams(&self) -> bool {
        !matches!(self.phase, Phase::Streaming(_)) || self.sink.is_ready()
    }

    /// The next action to carry out; call until it returns `None`.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// What sessions found altered since the witness was written, to be logged. Each alteration is
    /// returned once, because the session's own witness has the new state: the next session finds
    /// nothing altered.
    pub fn take_alterations(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.alterations)
    }

    /// The dead letters since the last call, to be logged.
    pub fn take_letters(&mut self) -> Vec<NewLetter> {
        self.held.take_letters()
    }

    /// The rows that were skipped since the last call, to be logged.
    pub fn take_skipped(&mut self) -> Vec<SkippedRow> {
        self.held.take_skipped()
    }

    /// When [`Input::Tick`] is due at the latest, if no other input comes first. After a tick the
    /// deadline is in the future; frames may bring it closer.
    pub fn deadline(&self) -> Option<Moment> {
        let phase = match &self.phase {
            // Without a sink there is nothing to do: [`Input::SinkReady`] is an input of its own.
            Phase::Waiting { until } => self.sink.is_ready().then_some(*until),
            Phase::Standby { check_at } => *check_at,
            Phase::Streaming(session) => {
                let due = [
                    session.deadline(&self.topics),
                    self.witness_due_at(session),
                    self.check_at,
                    self.held.deadline(session.follows()),
                ];
                due.into_iter().flatten().min()
            }
            // Not bound by `drain_by`: a process that stops waits until its gap is in the witness.
            Phase::Halted(halt) => return self.halt_deadline(halt),
            Phase::Leaving(leaving) => Some(leaving.until),
            Phase::Connecting(_) => None,
            Phase::Exited => return None,
        };
        [phase, self.drain_by].into_iter().flatten().min()
    }

    /// The topics in use, whose partition counts the shell reads again at intervals.
    pub fn topics_in_use(&self) -> impl Iterator<Item = (TopicId, &TopicName)> {
        self.topics.known()
    }

    /// The topics that the pipeline has produced to, by the witness; also those that this process
    /// has not produced to yet. The shell asks Kafka for their ids at intervals
    /// ([`Input::TopicsSeen`]).
    pub fn topics_produced_to(&self) -> impl Iterator<Item = &str> {
        self.keeper.topics_produced_to()
    }

    /// Does what follows from a frame that was not taken: looks a topic up, counts a failure.
    fn frame_not_taken(&mut self, at: Moment) -> FrameOutcome {
        if let Phase::Streaming(session) = &self.phase {
            match &session.wait_reason {
                Some(WaitReason::Topic(topic)) => self.look_up(*topic, at),
                Some(WaitReason::Row { failure, .. }) => self.totals.count_error(failure.code),
                Some(
                    WaitReason::QueueFull { .. }
                    | WaitReason::SinkClosed
                    | WaitReason::Isolate
                    | WaitReason::Draining,
                )
                | None => {}
            }
        }
        FrameOutcome::NotTaken
    }

    fn look_up(&mut self, topic: TopicId, at: Moment) {
        if self.topics.begin_look_up(topic, at)
            && let Some(name) = self.topics.name(topic)
        {
            self.actions.push_back(Action::LookUpTopic(topic, name.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
