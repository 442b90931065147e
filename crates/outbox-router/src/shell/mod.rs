//! The shell around the core: sockets, timers and delivery reports become [`Input`]s, [`Action`]s
//! become deeds.
//!
//! One task owns everything that streams, and one place waits (`wait.rs`), or sleeps so that WAL
//! gathers (`coalesce.rs`). The core decides what a failure means, when to connect and by which
//! steps, what is produced and what may be confirmed. Decided here is only when something is asked
//! or tried again: how long WAL gathers in the socket (`coalesce`), when Kafka is asked about
//! topics and a producer that could not be made is tried again (`topic_refresher`), when the state
//! topic must be read to know what it holds (`state`). None of these makes a position confirmable.
//! Work that blocks or takes long (connecting, asking Kafka for a topic, making and destroying a
//! producer) runs beside the task as a `Job`, so that status updates never wait for it.
//!
//! Read in this order: [`Shell::run`], `wait` (for an `event`), `coalesce` (how WAL is read),
//! `pass` (frames), `jobs` (what runs beside). What the shell calls of PostgreSQL and Kafka stands
//! in `ports`.

mod announce;
mod clock;
mod coalesce;
mod connect;
mod event;
mod failure;
mod job;
mod jobs;
mod parts;
mod pass;
mod ports;
mod state;
#[cfg(test)]
mod tests;
mod topic_refresher;
mod wait;

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use relay::failpoint::{self, Failpoint};
use relay::{
    Acks, Action, Input, Outcome, RefusalReason, Relay, TopicName,
    witness::{History, Pipeline, Write},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};

pub(crate) use self::connect::Seen;
use self::{
    announce::Announcer,
    coalesce::Coalesce,
    event::Event,
    job::{Done, Job, Step},
    state::StateCache,
    topic_refresher::{Due, TopicRefresher},
};
pub use self::{
    clock::Clock,
    connect::{Endpoint, Source},
    parts::{Parts, Running},
    ports::{Directory, Kafka, Postgres, Sink, Started, StateTopic},
};
use crate::{
    kafka::{DeliveryTrouble, Health},
    monitor::{MonitorEvent, RelayReport},
    postgres::ReplicationStream,
    warning::warn,
};

/// What the server allows a silent client; a third of it is our own beat.
pub const WAL_SENDER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the rest of the process learns how things are, while nothing changes.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// And at most this often while much does.
const REPORT_GAP: Duration = Duration::from_millis(100);

/// See the module's documentation.
pub struct Shell<P: Postgres, K: Kafka> {
    relay: Relay,
    clock: Clock,
    postgres: Arc<P>,
    kafka: K,
    /// `None` while it is being made.
    sink: Option<K::Sink>,
    refresher: TopicRefresher<K>,
    state_topic: Option<TopicName>,
    pipeline: Pipeline,
    /// What was last read of the state topic.
    state: Option<StateCache>,
    /// The number of our last write there.
    last_write: u64,
    /// A write that the sink had no room for.
    waiting_write: Option<Write>,
    /// A connection on its way to a stream, between two steps.
    open: Option<Box<P::Open>>,
    /// Which server the latest of them, or the stream that it became, comes from.
    history: Option<History>,
    /// `None` while there is no stream.
    stream: Option<ReplicationStream>,
    jobs: JoinSet<Done<P, K>>,
    connecting: Option<tokio::task::AbortHandle>,
    monitor: mpsc::Receiver<MonitorEvent>,
    reports: watch::Sender<RelayReport>,
    shutdown: watch::Receiver<Running>,
    acks: Acks,
    coalesce: Coalesce,
    announcer: Announcer,
    reported_at: Instant,
    running: Running,
    outcome: Option<Outcome>,
}

impl<P: Postgres, K: Kafka> Shell<P, K> {
    /// Puts the parts together; nothing happens before [`Shell::run`].
    pub fn new(parts: Parts<P, K>) -> Self {
        let now = Instant::now();
        Self {
            relay: parts.relay,
            clock: parts.clock,
            postgres: Arc::new(parts.postgres),
            kafka: parts.kafka,
            sink: None,
            refresher: TopicRefresher::new(),
            state_topic: parts.state_topic,
            pipeline: parts.pipeline,
            state: None,
            last_write: 0,
            waiting_write: None,
            open: None,
            history: None,
            stream: None,
            jobs: JoinSet::new(),
            connecting: None,
            monitor: parts.monitor,
            reports: parts.reports,
            shutdown: parts.shutdown,
            acks: Acks::default(),
            coalesce: Coalesce::default(),
            announcer: Announcer::default(),
            reported_at: now,
            running: Running::On,
            outcome: None,
        }
    }

    /// Runs until the core says how it ends.
    pub async fn run(mut self) -> Outcome {
        self.start(Job::ReplaceSink(Duration::ZERO));
        loop {
            if let Some(outcome) = self.turn().await {
                self.leave().await;
                return outcome;
            }
        }
    }

    /// Does what the core asked for, waits for one event, and applies it.
    async fn turn(&mut self) -> Option<Outcome> {
        self.act();
        if self.outcome.is_some() {
            return self.outcome;
        }
        self.report_if_due();
        let due = self.wake_at();
        let event = self.next_event().await;
        self.look_at_the_time(due);
        self.apply(event);
        None
    }

    /// One that is woken long after it had to be was stopped meanwhile: the core must know before
    /// anything is read or produced.
    fn look_at_the_time(&mut self, due: Instant) {
        let late = Instant::now().saturating_duration_since(due);
        if late >= WAL_SENDER_TIMEOUT / 2 {
            self.input(Input::ProcessStalled(late));
        }
    }

    /// One event becomes inputs of the core; then everything that is at hand is done.
    fn apply(&mut self, event: Event<P, K>) {
        match event {
            Event::Acks | Event::Due => {}
            Event::Coalesce => self.coalesce.open(Instant::now()),
            Event::Shutdown => {
                self.running = Running::Stopping;
                self.input(Input::Shutdown);
            }
            Event::Monitor(MonitorEvent::GapSuspected(gap)) => {
                self.input(Input::GapSuspected(*gap));
            }
            Event::Monitor(MonitorEvent::SourceSeen(lookup)) => {
                self.input(Input::SourceSeen(&lookup.look, &lookup.catalog));
            }
            Event::Monitor(MonitorEvent::ServerStopping) => self.input(Input::ServerStopping),
            Event::Job(done) => self.finished(*done),
            Event::Wal(fill) => self.filled(fill),
            // Nothing is ever queued without a status.
            Event::Written(Ok(())) => failpoint::reached(Failpoint::AfterStatus),
            Event::Written(Err(error)) => self.disconnected(failure::broken(&error)),
        }
        self.collect_acks();
        // An update that moves the window leaves before the window is filled again: a crash in
        // between would repeat both.
        self.act();
        if !self.coalesce.is_open() {
            self.pass();
            self.coalesce.handed_on(self.relay.pace());
        }
        self.look_at_kafka();
        self.input(Input::Tick);
    }

    fn act(&mut self) {
        // At once, and not when the monitor looks next: the session's record no longer shows what
        // was altered before it, and the session may be over by then.
        self.relay.take_alterations().iter().for_each(warn);
        while let Some(action) = self.relay.next_action() {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::ReadState(number) => self.start(Job::ReadState(number)),
            Action::LookAtState(number) => self.start(Job::LookAtState(number)),
            Action::WriteState(write) => self.write_state(write),
            Action::Connect => self.start(Job::Connect(Step::Open)),
            Action::ReadTimelines(timeline) => {
                self.start(Job::Connect(Step::Timelines(timeline)));
            }
            Action::ReadSlot => self.start(Job::Connect(Step::Slot)),
            Action::ReadCatalog(remembered) => self.start(Job::Connect(Step::Catalog(remembered))),
            Action::StartReplication => self.start(Job::Connect(Step::Start)),
            Action::WatchSlot => self.start(Job::WatchSlot),
            Action::Disconnect => self.disconnect(),
            Action::Status(update) => {
                failpoint::reached(Failpoint::BeforeStatus);
                if let Some(stream) = &mut self.stream {
                    stream.queue_status(&failure::encode(update));
                    self.flush_at_once();
                }
            }
            Action::CopyDone => {
                if let Some(stream) = &mut self.stream {
                    stream.queue_copy_done();
                }
            }
            Action::ReplaceSink { wait } => self.start(Job::ReplaceSink(wait)),
            Action::LookUpTopic(id, name) => self.start(Job::LookUpTopic(id, name)),
            Action::Exit(outcome) => self.outcome = Some(outcome),
        }
    }

    /// Gives a write to the sink. What its queue has no room for is given again; a closed sink
    /// needs no answer, because the failure that closed it is on its way to the core.
    fn write_state(&mut self, write: Write) {
        self.last_write = write.number;
        let Some(sink) = &mut self.sink else { return };
        let refusal = sink.write_state(&write.key, write.value.as_deref(), write.number).err();
        self.waiting_write =
            refusal.filter(|refusal| *refusal != RefusalReason::Closed).map(|_| write);
    }

    fn input(&mut self, input: Input<'_>) {
        self.relay.handle(input, self.clock.now());
    }

    /// Bounded: reports of some thousand records, then frames get their turn.
    fn collect_acks(&mut self) {
        const REPORTS_MAX: usize = 4096;
        let Some(sink) = &mut self.sink else { return };
        self.acks.clear();
        let trouble = sink.poll_acks(&mut self.acks, REPORTS_MAX);
        let written = sink.written_state();
        let now = self.clock.now();
        if !self.acks.is_empty() {
            self.relay.handle(Input::Acks(&self.acks), now);
        }
        if let Some(number) = written {
            if let Some(state) = &mut self.state {
                state.wrote(number);
            }
            self.announcer.taken();
            self.relay.handle(Input::StateWritten(number), now);
        }
        if let Some(trouble) = trouble {
            let DeliveryTrouble { transaction, failure, .. } = trouble;
            let said = failure.clone();
            self.relay.handle(Input::DeliveryFailed { transaction, failure }, now);
            self.announcer.refused(&said, &self.relay.condition(now.at));
        }
        if let Some(write) = self.waiting_write.take() {
            self.write_state(write);
        }
    }

    fn look_at_kafka(&mut self) {
        if let Some(sink) = &self.sink {
            let trouble = match sink.health() {
                Health::Well => None,
                // One broker of several may complain while the others do the work: a look will
                // tell.
                Health::Suspect => {
                    self.refresher.troubled();
                    None
                }
                Health::Down(failure) => {
                    let failure = failure.clone();
                    self.refresher.troubled();
                    Some(failure)
                }
            };
            self.input(Input::SinkTrouble(trouble));
        }
        match self.refresher.due(Instant::now()) {
            Some(Due::Open) => self.start(Job::ReplaceSink(Duration::ZERO)),
            Some(Due::Look(directory)) => self.start(Job::LookAtTopics(directory)),
            None => {}
        }
    }

    fn disconnected(&mut self, failure: relay::Failure) {
        self.stream = None;
        self.input(Input::Disconnected(failure));
    }

    fn disconnect(&mut self) {
        if let Some(mut stream) = self.stream.take() {
            // A last status update may be queued: what it confirms need not come again. Whatever
            // goes wrong, the server keeps what it was told before.
            let mut now = Context::from_waker(Waker::noop());
            let _unsent = stream.poll_flush_out(&mut now);
        }
        self.open = None;
        if let Some(connecting) = self.connecting.take() {
            connecting.abort();
        }
    }

    /// As far as the socket takes it. The window has moved with the update: rows that are produced
    /// before it has left would come twice without being counted.
    fn flush_at_once(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let mut now = Context::from_waker(Waker::noop());
        if let Poll::Ready(Ok(())) = stream.poll_flush_out(&mut now) {
            failpoint::reached(Failpoint::AfterStatus);
        }
        // What is left, and any error, is met by the next wait.
    }

    fn report_if_due(&mut self) {
        let now = Instant::now();
        if now >= self.reported_at + REPORT_GAP {
            self.reported_at = now;
            self.report(now);
        }
    }

    fn report(&mut self, now: Instant) {
        let snapshot = self.relay.snapshot(self.clock.now().at);
        self.announcer.announce(&snapshot, now);
        self.reports.send_replace(RelayReport { snapshot, published_at: now });
    }

    /// Destroying a producer flushes for up to half a second and joins its threads: not on this
    /// task, and not for ever.
    async fn leave(mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        self.report(Instant::now());
        self.jobs.abort_all();
        self.refresher.release();
        if let Some(sink) = self.sink.take() {
            let closing = tokio::task::spawn_blocking(move || sink.close());
            // What was not acknowledged was not confirmed: however this ends, nothing depends on
            // it.
            if tokio::time::timeout(PATIENCE, closing).await.is_err() {
                tracing::warn!("the producer takes long to close: leaving without it");
            }
        }
    }
}
