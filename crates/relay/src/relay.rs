//! The core: a function of (input, now) that answers with actions. Start reading here.
//!
//! ```text
//! waiting ─Connect→ connecting ─Connected→ streaming ─failure→ waiting …
//!    ↑                  │ SlotHeld                │ a gap
//!    └──────────── standby                        └→ halted
//! ```
//! The shell turns sockets, timers and delivery reports into [`Input`]s and carries [`Action`]s out; nothing here
//! waits, reads a clock, or knows tokio, a socket or librdkafka.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::{
    backoff::Backoff,
    clock::{Moment, Now},
    failure::{Class, Code, Failure},
    feedback::Timing,
    ledger::{Credit, Window},
    ports::{Acks, RecordSink},
    record::TopicId,
    session::{Course, Hold, Session, StatusUpdate, Step, Terms},
    state::State,
    table::Outboxes,
    telemetry::{Latencies, Reconnects},
    ticket::{SessionId, TransactionRef},
    topic::TopicName,
    topics::{TopicFacts, Topics},
};

/// What the core must know before it starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which tables, and how they are routed.
    pub outboxes: Outboxes,
    /// What may lie past the last confirmed position.
    pub window: Window,
    /// The largest row, in bytes of its frame.
    pub row_bytes: usize,
    /// Feedback to the server.
    pub timing: Timing,
    /// How long a drain may take.
    pub drain: Duration,
    /// What to do when a person is needed.
    pub on_fatal: OnFatal,
    /// Spreads reconnections; the same seed gives the same run.
    pub seed: u64,
}

/// What to do when a person is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFatal {
    /// Stay up and say so: a process that is gone exports no metric.
    Stay,
    /// Exit with 79, for those who prefer it.
    Exit,
}

/// Everything that can happen to the core, but for frames, which come through [`Relay::frame`].
#[derive(Debug)]
pub enum Input<'a> {
    /// [`Action::Connect`] succeeded: the server is streaming.
    Connected,
    /// [`Action::Connect`] failed, or the connection broke.
    Disconnected(Failure),
    /// Another process streams from the slot.
    SlotHeld(Option<i32>),
    /// [`Action::WatchSlot`] found the slot free.
    SlotFree,
    /// The server ended the stream in good order (`CopyDone`).
    StreamEnded,
    /// A NOTICE or WARNING arrived within the stream.
    Notice(&'a ServerNotice),
    /// The broker acknowledged records.
    Acks(&'a Acks),
    /// A record failed: the sink is closed.
    DeliveryFailed {
        /// Its transaction, if it was about one.
        transaction: Option<TransactionRef>,
        /// Why.
        failure: Failure,
    },
    /// [`Action::ReplaceSink`] is done, or the first sink is ready.
    SinkReady,
    /// What keeps Kafka from answering; `None` when it answers again.
    SinkTrouble(Option<Failure>),
    /// [`Action::LookUpTopic`] was answered, or a topic in use was looked at again.
    Topic(TopicId, Result<TopicFacts, Failure>),
    /// The monitor saw that rows may be missing.
    GapSuspected(Failure),
    /// The monitor saw that the server is stopping.
    ServerStopping,
    /// SIGTERM.
    Shutdown,
    /// Time passed.
    Tick,
}

/// A NOTICE or WARNING of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNotice {
    /// `SQLSTATE`.
    pub code: String,
    /// In the server's language.
    pub message: String,
}

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Look at the slot and the publication, connect, start streaming. Answer: [`Input::Connected`],
    /// [`Input::SlotHeld`] or [`Input::Disconnected`].
    Connect,
    /// See by SQL whether the slot is free. Answer: [`Input::SlotFree`], [`Input::SlotHeld`] or
    /// [`Input::Disconnected`].
    WatchSlot,
    /// Close the replication connection.
    Disconnect,
    /// Send a status update.
    Status(StatusUpdate),
    /// Send `CopyDone`, then read until the server's. Answer: [`Input::StreamEnded`].
    CopyDone,
    /// Purge and destroy the producer, make a new one. Answer: [`Input::SinkReady`].
    ReplaceSink,
    /// Ask Kafka for a topic's partitions. Answer: [`Input::Topic`].
    LookUpTopic(TopicId, TopicName),
    /// Leave.
    Exit(Outcome),
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was read is delivered and confirmed.
    Drained,
    /// The shutdown deadline passed with unacknowledged events: they will come again.
    DeadlinePassed,
    /// A person must decide.
    Fatal,
}

/// How eagerly to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Following: a commit is one wake-up away.
    AtOnce,
    /// Catching up: pause a little between reads. The walsender wakes its reader for every message, and that, not
    /// decoding, is most of its time; a reader that lets the socket fill makes the *server* faster.
    InGulps,
}

/// A transaction that the server sends later than this after its commit is backlog.
const CATCHING_UP_MICROS: i64 = 50_000;
/// How often a standby looks whether the slot is free.
const STANDBY_LOOK: Duration = Duration::from_millis(300);
/// How long to stay away from a server that wants to stop.
const STOPPING_GRACE: Duration = Duration::from_secs(10);
/// How long a failure that a person must mend waits before it is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The same data failure at the same place this many times is for a person.
const REPEATS_MAX: u32 = 3;
/// With something unacknowledged for this long, nothing flows.
const BLOCKED_AFTER: Duration = Duration::from_secs(3);

mod proceed;

enum Phase {
    /// Not connected; the reason of the last failure, and when to try again.
    Waiting { why: Option<Failure>, until: Moment },
    /// [`Action::Connect`] is under way.
    Connecting { why: Option<Failure> },
    /// Another process holds the slot; when to look again, unless a look is under way.
    Standby { look_at: Option<Moment> },
    /// Connected.
    Streaming(Box<Session>),
    /// A gap: only a person ends this.
    Halted(Failure),
    /// [`Action::Exit`] was given.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    Ready,
    Replacing,
}

/// See the module's documentation.
pub struct Relay {
    terms: Terms,
    drain: Duration,
    on_fatal: OnFatal,
    phase: Phase,
    sink: Sink,
    sink_trouble: Option<Failure>,
    topics: Topics,
    session_id: SessionId,
    backoff: Backoff,
    /// Data failures in a row at one place.
    repeated: Option<(Failure, u32)>,
    /// When a shutdown must be over.
    drain_by: Option<Moment>,
    /// Since when the broker owes an acknowledgement.
    owed_since: Option<Moment>,
    slot_holder: Option<i32>,
    /// The last position told to the server in any session.
    told: pgoutput::Lsn,
    totals: Totals,
    actions: VecDeque<Action>,
}

#[derive(Debug, Default)]
struct Totals {
    topics: Vec<(u64, Latencies)>,
    transactions: u64,
    rows_ignored: u64,
    reconnects: Reconnects,
    errors: BTreeMap<Code, u64>,
    connected_before: bool,
}

impl Relay {
    /// A core that waits for its first [`Input::SinkReady`].
    pub fn new(settings: Settings, at: Moment) -> Self {
        let Settings { outboxes, window, row_bytes, timing, drain, on_fatal, seed } = settings;
        Self {
            terms: Terms { outboxes, window, row_bytes, timing },
            drain,
            on_fatal,
            phase: Phase::Waiting { why: None, until: at },
            sink: Sink::Replacing,
            sink_trouble: None,
            topics: Topics::default(),
            session_id: SessionId::default(),
            backoff: Backoff::new(seed),
            repeated: None,
            drain_by: None,
            owed_since: None,
            slot_holder: None,
            told: pgoutput::Lsn::ZERO,
            totals: Totals::default(),
            actions: VecDeque::new(),
        }
    }

    /// One `CopyData` payload of the stream. Never waits; [`Step::Held`] means that the frame was not taken.
    #[inline]
    pub fn frame<S: RecordSink>(&mut self, payload: &[u8], now: Now, sink: &mut S) -> Step {
        let Phase::Streaming(session) = &mut self.phase else { return Step::Taken };
        match session.frame(payload, now, &self.terms, &mut self.topics, sink) {
            Ok(Step::Taken) => Step::Taken,
            Ok(Step::Held) => self.held(now.at),
            Err(failure) => {
                self.lost(failure, now.at);
                Step::Held
            }
        }
    }

    /// A frame larger than `row_bytes` was thrown away while it streamed in; only `prefix` was kept.
    pub fn oversized(&mut self, announced: usize, prefix: &[u8], now: Now) -> Step {
        let Phase::Streaming(session) = &mut self.phase else { return Step::Taken };
        match session.oversized(announced, prefix, now, &self.terms) {
            Ok(Step::Taken) => Step::Taken,
            Ok(Step::Held) => self.held(now.at),
            Err(failure) => {
                self.lost(failure, now.at);
                Step::Held
            }
        }
    }

    /// Whether the next frame may be offered. While it may not, the socket is not to be read.
    pub fn wants_wal(&self) -> bool {
        match &self.phase {
            Phase::Streaming(session) => session.wants_wal(self.terms.window),
            Phase::Waiting { .. }
            | Phase::Connecting { .. }
            | Phase::Standby { .. }
            | Phase::Halted(_)
            | Phase::Over => false,
        }
    }

    /// How eagerly to read.
    pub fn pace(&self) -> Pace {
        match &self.phase {
            Phase::Streaming(session) if session.server_lag() > CATCHING_UP_MICROS => Pace::InGulps,
            _ => Pace::AtOnce,
        }
    }

    /// Everything but frames.
    pub fn handle(&mut self, input: Input<'_>, now: Now) {
        let at = now.at;
        match input {
            Input::Connected => self.connected(at),
            Input::Disconnected(failure) => self.lost(failure, at),
            Input::SlotHeld(holder) => self.slot_held(holder, at),
            Input::SlotFree => {
                if let Phase::Standby { .. } = self.phase {
                    self.phase = Phase::Waiting { why: None, until: at };
                }
            }
            Input::StreamEnded => self.stream_ended(at),
            Input::Notice(notice) => self.notice(notice, at),
            Input::Acks(acks) => self.acknowledged(acks, now),
            Input::DeliveryFailed { transaction, failure } => {
                self.delivery_failed(transaction, failure, at);
            }
            Input::SinkReady => {
                self.sink = Sink::Ready;
                self.sink_trouble = None;
            }
            Input::SinkTrouble(trouble) => self.sink_trouble = trouble,
            Input::Topic(id, answer) => self.topic(id, answer, at),
            Input::GapSuspected(failure) => self.halt(failure),
            Input::ServerStopping => self.server_stopping(at),
            Input::Shutdown => self.drain_by = Some(self.drain_by.unwrap_or(at + self.drain)),
            Input::Tick => {}
        }
        self.proceed(now);
    }

    /// What to do next; call until it has nothing more.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Input::Tick`] is due at the latest, if no other input comes first.
    pub fn deadline(&self) -> Option<Moment> {
        let phase = match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Standby { look_at } => *look_at,
            Phase::Streaming(session) => Some(session.deadline(&self.topics)),
            Phase::Connecting { .. } | Phase::Halted(_) | Phase::Over => None,
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
            match &session.hold {
                Some(Hold::Topic(topic)) => self.look_up(*topic, at),
                Some(Hold::Row { failure, .. }) => {
                    *self.totals.errors.entry(failure.code).or_default() += 1;
                }
                Some(Hold::QueueFull | Hold::SinkClosed | Hold::Draining) | None => {}
            }
        }
        Step::Held
    }

    fn look_up(&mut self, topic: TopicId, at: Moment) {
        if self.sink == Sink::Ready
            && self.topics.ask(topic, at)
            && let Some(name) = self.topics.name(topic)
        {
            self.actions.push_back(Action::LookUpTopic(topic, name.clone()));
        }
    }

    fn connected(&mut self, at: Moment) {
        if let Phase::Connecting { .. } = self.phase {
            self.session_id = self.session_id.next();
            self.slot_holder = None;
            self.owed_since = None;
            if self.totals.connected_before {
                self.totals.reconnects.postgres += 1;
            }
            self.totals.connected_before = true;
            let session = Session::new(self.session_id, &self.terms, at);
            self.phase = Phase::Streaming(Box::new(session));
        }
    }

    fn slot_held(&mut self, holder: Option<i32>, at: Moment) {
        if let Phase::Connecting { .. } | Phase::Standby { .. } = self.phase {
            self.slot_holder = holder;
            self.phase = Phase::Standby { look_at: Some(at + self.backoff.spread(STANDBY_LOOK)) };
        }
    }

    /// The connection is gone or must go; what follows depends on the failure's class alone.
    fn lost(&mut self, failure: Failure, at: Moment) {
        let wait = match self.classify(&failure) {
            Class::Gap => {
                self.halt(failure);
                return;
            }
            Class::Mendable => LOOK_AGAIN,
            Class::Transport | Class::Replay => self.backoff.next(),
        };
        self.leave(failure, at + wait);
    }

    /// The same data failure at the same place again and again is for a person; transport failures never count.
    fn classify(&mut self, failure: &Failure) -> Class {
        if failure.class() != Class::Replay {
            return failure.class();
        }
        let times = match &self.repeated {
            Some((known, times)) if known.code == failure.code && known.lsn == failure.lsn => {
                times + 1
            }
            _ => 1,
        };
        self.repeated = Some((failure.clone(), times));
        if times >= REPEATS_MAX { Class::Mendable } else { Class::Replay }
    }

    /// Ends the session, if there is one, and waits.
    fn leave(&mut self, why: Failure, until: Moment) {
        match self.phase {
            Phase::Streaming(_) => self.end_session(),
            Phase::Waiting { .. } | Phase::Connecting { .. } | Phase::Standby { .. } => {}
            Phase::Halted(_) | Phase::Over => return,
        }
        *self.totals.errors.entry(why.code).or_default() += 1;
        self.phase = Phase::Waiting { why: Some(why), until };
    }

    fn end_session(&mut self) {
        if let Phase::Streaming(session) = &self.phase {
            self.totals.transactions += session.transactions;
            self.totals.rows_ignored += session.rows_ignored;
            self.told = self.told.max(session.ledger.told());
            self.owed_since = None;
            self.actions.push_back(Action::Disconnect);
        }
    }

    fn halt(&mut self, failure: Failure) {
        match self.phase {
            Phase::Halted(_) | Phase::Over => return,
            Phase::Streaming(_) => self.end_session(),
            // A connection attempt that is under way must not become a session.
            Phase::Connecting { .. } => self.actions.push_back(Action::Disconnect),
            Phase::Waiting { .. } | Phase::Standby { .. } => {}
        }
        *self.totals.errors.entry(failure.code).or_default() += 1;
        self.phase = Phase::Halted(failure);
    }

    fn stream_ended(&mut self, at: Moment) {
        let Phase::Streaming(session) = &self.phase else { return };
        if session.course == Course::Finishing {
            self.end_session();
            self.exit(Outcome::Drained);
        } else {
            let why =
                Failure::new(Code::ServerNotReady, "PostgreSQL ended the stream: it is stopping");
            let until = at + self.backoff.next();
            self.leave(why, until);
        }
    }

    fn notice(&mut self, notice: &ServerNotice, _at: Moment) {
        // 55000 within the stream is PostgreSQL 18's "skipped loading publication": rows are being skipped, and this
        // warning is all that ever says so.
        if notice.code == "55000" && matches!(self.phase, Phase::Streaming(_)) {
            self.halt(
                Failure::new(
                    Code::PublicationMissing,
                    format!("the server skips rows: {}", notice.message),
                )
                .hint("rows committed since the publication was dropped will not come through this slot: publish them from the table, then make a new slot with outbox-router setup --apply"),
            );
        }
    }

    fn acknowledged(&mut self, acks: &Acks, now: Now) {
        let mut broken = None;
        for run in acks.runs() {
            let credit = match &mut self.phase {
                Phase::Streaming(session) => match session.ledger.credit(run) {
                    Ok(credit) => credit,
                    Err(disorder) => {
                        broken = Some(Failure::new(Code::ProducerFatal, disorder.to_string()));
                        continue;
                    }
                },
                _ => Credit::Stale,
            };
            let index = run.topic.index();
            if self.totals.topics.len() <= index {
                self.totals.topics.resize_with(index + 1, Default::default);
            }
            if let Some((acked, latencies)) = self.totals.topics.get_mut(index) {
                *acked += u64::from(run.records);
                if let Credit::Counted(committed_at) = credit {
                    latencies.count(now.wall.micros_since(committed_at), run.records);
                }
            }
        }
        if !acks.is_empty() {
            self.owed_since = None;
            self.sink_trouble = None;
            self.backoff.reset();
        }
        if let Some(failure) = broken {
            self.delivery_failed(None, failure, now.at);
        }
    }

    /// First error: nothing is produced after it, the producer is replaced, the slot replays.
    fn delivery_failed(
        &mut self,
        transaction: Option<TransactionRef>,
        failure: Failure,
        at: Moment,
    ) {
        let place = match (&self.phase, transaction) {
            (Phase::Streaming(session), Some(transaction)) => {
                session.ledger.commit_lsn_of(transaction)
            }
            _ => None,
        };
        if self.sink == Sink::Ready {
            self.sink = Sink::Replacing;
            self.totals.reconnects.kafka += 1;
            self.topics.forget();
            self.actions.push_back(Action::ReplaceSink);
        }
        let failure = match place {
            Some(lsn) => failure.at(lsn),
            None => failure,
        };
        if let Phase::Streaming(_) = self.phase {
            self.lost(failure, at);
        } else {
            *self.totals.errors.entry(failure.code).or_default() += 1;
        }
    }

    fn topic(&mut self, id: TopicId, answer: Result<TopicFacts, Failure>, at: Moment) {
        let changed = match (self.topics.facts(id), &answer) {
            (Some(old), Ok(new)) if old.partitions != new.partitions => Some((old, *new)),
            // A look at a topic in use that fails says nothing about it: producing will tell.
            (Some(_), _) => return,
            (None, _) => None,
        };
        match (changed, &mut self.phase) {
            (Some((old, new)), Phase::Streaming(session)) => {
                if let Err(failure) = session.topic_changed(id, old, new) {
                    self.delivery_failed(None, failure, at);
                }
            }
            _ => {
                if let Err(failure) = &answer {
                    *self.totals.errors.entry(failure.code).or_default() += 1;
                }
                self.topics.answer(id, answer, at);
            }
        }
    }

    fn server_stopping(&mut self, at: Moment) {
        let Phase::Streaming(session) = &self.phase else { return };
        if session.ledger.is_settled() && session.hold.is_none() {
            // The walsender ends by itself once it has heard our last position.
            return;
        }
        let why = Failure::new(
            Code::ServerNotReady,
            "PostgreSQL wants to stop, and waits for events that Kafka has not acknowledged: let go of it",
        );
        let until = at + self.backoff.at_least(STOPPING_GRACE);
        self.leave(why, until);
    }

    fn exit(&mut self, outcome: Outcome) {
        self.phase = Phase::Over;
        self.actions.push_back(Action::Exit(outcome));
    }
}
