//! The shell around the core: it turns sockets, timers and delivery reports into [`Input`]s, and
//! carries out [`Action`]s.
//!
//! One task owns all streaming state. It waits in one place (`wait.rs`), or sleeps there so that
//! WAL gathers (`coalesce.rs`). The core decides what a failure means, when and by which steps to
//! connect, what is produced and what may be confirmed. The shell only decides when WAL is left to
//! gather in the socket (`coalesce`) and in a backlog for how long (`pacing`), when Kafka is asked
//! about topics and when a producer that could not be made is tried again (`topic_refresher`), and
//! whether the state topic has changed, so that it has to be read (`state_topic`). None of these
//! decisions makes a position confirmable. Work that blocks or takes long (connecting, asking Kafka
//! for a topic, making and destroying a producer) runs beside the task as a `Job`, so that status
//! updates never wait for it.
//!
//! Read in this order: [`Shell::run`], `wait` (for an `event`), `coalesce` (how WAL is read),
//! `pacing` and `read_pause` (the pause in a backlog), `pass` (frames), `held` (events that leave
//! their table), `jobs` (what runs beside the task). `ports` lists what the shell calls of
//! PostgreSQL and Kafka.

mod announce;
mod backlog;
mod backlog_watch;
mod clock;
mod coalesce;
mod command_stream;
mod connect;
mod dry_stream;
mod event;
mod held;
mod held_requests;
mod job;
mod jobs;
mod pacing;
mod parts;
mod pass;
mod ports;
mod read_pause;
mod slot_copy;
mod slot_rows;
mod snapshot_slot;
mod state_topic;
#[cfg(test)]
mod tests;
mod topic_refresher;
mod translate;
mod unsendable;
mod wait;

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use relay::failpoint::{self, Failpoint};
use relay::{
    Acks, Action, ExitReason, Input, Name, RefusalReason, Relay, TopicName, Write, source::History,
    witness::WitnessKey,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};

use self::{
    announce::Announcer,
    backlog_watch::BacklogWatch,
    coalesce::Coalesce,
    event::ShellEvent,
    held_requests::HeldRequests,
    job::{ConnectStep, Done, Job},
    pacing::Pacing,
    state_topic::StateTopicCache,
    topic_refresher::{RefreshDue, TopicRefresher},
};
pub use self::{
    clock::Clock,
    connect::{Endpoint, Source},
    dry_stream::DryStream,
    parts::{Parts, Running},
    ports::{HeldTable, Kafka, Postgres, Sink, Started, StateTopic, TopicClient},
};
pub(crate) use self::{
    connect::SourceReading,
    slot_rows::{OfSlot, RowOfSlot, RowsOf, SlotRows},
    snapshot_slot::{SlotCreator, SlotHolder, SnapshotSlot},
    unsendable::{Transactions, Unsendable},
};
use crate::{
    kafka::{DeliveryFailure, Health},
    monitor::{MonitorEvent, RelayReport},
    postgres::{ReplicationStream, WAL_SENDER_TIMEOUT},
    tap::Tap,
    warning::warn,
};

/// The longest time between two reports to the rest of the process.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// The shortest time between two reports.
const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// See the module's documentation.
pub struct Shell<P: Postgres, K: Kafka> {
    relay: Relay,
    clock: Clock,
    postgres: Arc<P>,
    held: HeldRequests<P::HeldTable>,
    kafka: K,
    /// The present producer; `None` while it is being replaced.
    sink: Option<K::Sink>,
    refresher: TopicRefresher<K>,
    state_topic: Option<TopicName>,
    witness_key: WitnessKey,
    /// What was last read from the state topic.
    state_topic_cache: Option<StateTopicCache>,
    /// The number of this process's last write to the state topic.
    last_write: u64,
    /// A write to the state topic that the sink refused for now; it is offered again.
    waiting_write: Option<Write>,
    /// A connection that is to become a stream, between two steps.
    open: Option<Box<P::Connection>>,
    /// The server that `open`, or the stream that it became, is connected to.
    history: Option<History>,
    /// The process id of its walsender, where it is known.
    walsender: Option<i32>,
    /// `None` while there is no stream.
    stream: Option<ReplicationStream>,
    jobs: JoinSet<Done<P, K>>,
    connecting: Option<tokio::task::AbortHandle>,
    monitor: mpsc::Receiver<MonitorEvent>,
    reports: watch::Sender<RelayReport>,
    shutdown: watch::Receiver<Running>,
    tap: Tap,
    acks: Acks,
    coalesce: Coalesce,
    pacing: Pacing,
    backlog: BacklogWatch,
    announcer: Announcer,
    reported_at: Instant,
    /// When this task last compared the time: it ran then.
    ran_at: Instant,
    running: Running,
    outcome: Option<ExitReason>,
}

impl<P: Postgres, K: Kafka> Shell<P, K> {
    /// Takes the parts; nothing is started before [`Shell::run`].
    pub fn new(parts: Parts<P, K>) -> Self {
        let now = Instant::now();
        Self {
            relay: parts.relay,
            clock: parts.clock,
            postgres: Arc::new(parts.postgres),
            held: HeldRequests::new(parts.held),
            kafka: parts.kafka,
            sink: None,
            refresher: TopicRefresher::new(),
            state_topic: parts.state_topic,
            witness_key: parts.witness_key,
            state_topic_cache: None,
            last_write: 0,
            waiting_write: None,
            open: None,
            history: None,
            walsender: None,
            stream: None,
            jobs: JoinSet::new(),
            connecting: None,
            monitor: parts.monitor,
            reports: parts.reports,
            shutdown: parts.shutdown,
            tap: parts.tap,
            acks: Acks::default(),
            coalesce: Coalesce::default(),
            pacing: Pacing::default(),
            backlog: BacklogWatch::default(),
            announcer: Announcer::default(),
            reported_at: now,
            ran_at: now,
            running: Running::On,
            outcome: None,
        }
    }

    /// Runs until the core exits, and returns its outcome.
    pub async fn run(mut self) -> ExitReason {
        self.start(Job::ReplaceSink(Duration::ZERO));
        loop {
            if let Some(outcome) = self.turn().await {
                self.leave().await;
                return outcome;
            }
        }
    }

    /// Carries out the core's actions, waits for one event, and applies it.
    async fn turn(&mut self) -> Option<ExitReason> {
        self.act();
        if self.outcome.is_some() {
            return self.outcome;
        }
        self.report_if_due();
        self.note_running(self.ran_at);
        let due = self.wake_at().max(self.ran_at);
        let event = self.next_event().await;
        self.note_running(due);
        self.apply(event);
        None
    }

    /// Compares the time with `due`, by which this task is here unless the process is stopped: the
    /// deadline of a wait, or, as its work takes milliseconds, when it last was here. The core must
    /// know of a stop before acknowledgements make room and anything is read or produced.
    fn note_running(&mut self, due: Instant) {
        self.ran_at = Instant::now();
        let late = self.ran_at.saturating_duration_since(due);
        if late >= WAL_SENDER_TIMEOUT / 2 {
            self.input(Input::ProcessStalled(late));
        }
    }

    /// Turns one event into inputs of the core, then handles everything that is ready:
    /// acknowledgements, actions, frames, Kafka's health.
    fn apply(&mut self, event: ShellEvent<P, K>) {
        match event {
            ShellEvent::Acks | ShellEvent::Due => {}
            ShellEvent::Coalesce => self.coalesce.begin_pause(Instant::now()),
            ShellEvent::Shutdown => {
                self.running = Running::Stopping;
                self.input(Input::Shutdown);
            }
            ShellEvent::Monitor(MonitorEvent::GapSuspected(gap)) => {
                self.input(Input::GapSuspected(*gap));
            }
            ShellEvent::Monitor(MonitorEvent::SourceVerified(lookup)) => {
                self.input(Input::SourceVerified(&lookup.reading, &lookup.catalog));
            }
            ShellEvent::Monitor(MonitorEvent::ServerStopping) => self.input(Input::ServerStopping),
            ShellEvent::Job(done) => self.finished(*done),
            ShellEvent::Wal(fill) => self.filled(fill),
            // Whatever is queued for the server includes a status update.
            ShellEvent::Written(Ok(())) => failpoint::reached(Failpoint::AfterStatus),
            ShellEvent::Written(Err(error)) => self.disconnected(translate::broken(error)),
        }
        self.collect_acks();
        self.note_running(self.ran_at);
        // A status update that moves the window is sent before the window is filled again: after a
        // crash in between, both windows would be sent again.
        self.act();
        self.review_backlog(Instant::now());
        if !self.coalesce.is_pausing() {
            self.pass();
            let pause = self.pause();
            self.coalesce.handed_on(pause);
        }
        self.release();
        self.check_kafka();
        self.input(Input::Tick);
    }

    fn act(&mut self) {
        // Alterations are logged at once and not left to the monitor's next poll: the witness that
        // this session writes no longer shows them, and the session may be over by then.
        self.relay.take_alterations().iter().for_each(warn);
        self.relay.take_letters().iter().for_each(announce::dead_letter);
        self.relay.take_refused_again().iter().for_each(announce::refused_again);
        self.relay.take_skipped().iter().for_each(announce::skipped);
        while let Some(action) = self.relay.next_action() {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::ReadStateTopic(number) => self.start(Job::ReadStateTopic(number)),
            Action::CheckStateTopic(number) => self.start(Job::CheckStateTopic(number)),
            Action::WriteStateTopic(write) => self.write_state_topic(write),
            Action::Connect => self.start(Job::Connect(ConnectStep::Connect)),
            Action::ReadTimelines(timeline) => {
                self.start(Job::Connect(ConnectStep::Timelines(timeline)));
            }
            Action::ReadSlot => self.start(Job::Connect(ConnectStep::Slot)),
            Action::ReadCatalog(remembered) => {
                self.start(Job::Connect(ConnectStep::Catalog(remembered)));
            }
            Action::StartReplication(backlog) => {
                self.start(Job::Connect(ConnectStep::Start(backlog)));
            }
            Action::WatchSlot => self.start(Job::WatchSlot),
            Action::Disconnect => self.disconnect(),
            Action::Status(update) => {
                failpoint::reached(Failpoint::BeforeStatus);
                if let Some(stream) = &mut self.stream {
                    stream.queue_status(&translate::encode(update));
                    self.flush_at_once();
                }
            }
            Action::CopyDone => {
                if let Some(stream) = &mut self.stream {
                    stream.queue_copy_done();
                }
            }
            Action::ReplaceSink { wait } => self.start(Job::ReplaceSink(wait)),
            Action::Held(number, request) => self.start(Job::Held(number, request)),
            Action::LookUpTopic(id, name) => self.start(Job::LookUpTopic(id, name)),
            Action::Exit(outcome) => self.outcome = Some(outcome),
        }
    }

    /// Gives a write to the sink. A write that the sink has no room for is kept and offered again.
    /// A write that a closed sink refuses is dropped, because the failure that closed the sink will
    /// reach the core.
    fn write_state_topic(&mut self, write: Write) {
        self.last_write = write.number;
        let Some(sink) = &mut self.sink else { return };
        let refusal = sink.write_state(&write.key, write.value.as_deref(), write.number).err();
        self.waiting_write =
            refusal.filter(|refusal| *refusal != RefusalReason::Closed).map(|_| write);
    }

    fn input(&mut self, input: Input<'_>) {
        self.relay.handle(input, self.clock.now());
    }

    /// Collects acknowledgements, of some thousand records at most, so that frames are handled in
    /// between.
    fn collect_acks(&mut self) {
        const REPORTS_MAX: usize = 4096;
        let Some(sink) = &mut self.sink else { return };
        self.acks.clear();
        let failure = sink.poll_acks(&mut self.acks, REPORTS_MAX);
        let written = sink.written_state();
        let now = self.clock.now();
        if !self.acks.is_empty() {
            self.relay.handle(Input::Acks(&self.acks), now);
        }
        if let Some(ack) = written {
            if let Some(cache) = &mut self.state_topic_cache {
                cache.wrote(ack.number);
            }
            self.announcer.write_acknowledged();
            self.relay.handle(Input::StateTopicWritten(ack), now);
        }
        if let Some(DeliveryFailure { transaction, failure, .. }) = failure {
            let refused = failure.clone();
            self.relay.handle(Input::DeliveryFailed { transaction, failure }, now);
            self.announcer.refused(&refused, &self.relay.condition(now.at));
        }
        if let Some(write) = self.waiting_write.take() {
            self.write_state_topic(write);
        }
    }

    fn check_kafka(&mut self) {
        if let Some(sink) = &self.sink {
            let failure = match sink.health() {
                Health::Well => None,
                // One broker of several may report errors while the others work: a request shows
                // whether Kafka answers.
                Health::Suspect => {
                    self.refresher.hasten();
                    None
                }
                Health::Down(failure) => {
                    let failure = failure.clone();
                    self.refresher.hasten();
                    Some(failure)
                }
            };
            self.input(Input::BrokersUnreachable(failure));
        }
        match self.refresher.due(Instant::now()) {
            Some(RefreshDue::Open) => self.start(Job::ReplaceSink(Duration::ZERO)),
            Some(RefreshDue::Read(topic_client)) => self.start(Job::RefreshTopics(topic_client)),
            None => {}
        }
    }

    fn disconnected(&mut self, failure: relay::Failure) {
        self.stream = None;
        self.input(Input::Disconnected(failure));
    }

    fn disconnect(&mut self) {
        if let Some(mut stream) = self.stream.take() {
            // A last status update may be queued; sending it saves the server from sending again
            // what it confirms. If sending fails, the slot keeps the position confirmed before.
            let mut now = Context::from_waker(Waker::noop());
            let _unsent = stream.poll_flush_out(&mut now);
        }
        self.open = None;
        if let Some(connecting) = self.connecting.take() {
            connecting.abort();
        }
    }

    /// Sends the queued status update, as far as the socket takes it. The window has moved with the
    /// update: after a crash, rows produced before the update was sent would come again in addition
    /// to a full window.
    fn flush_at_once(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let mut now = Context::from_waker(Waker::noop());
        if let Poll::Ready(Ok(())) = stream.poll_flush_out(&mut now) {
            failpoint::reached(Failpoint::AfterStatus);
        }
        // The next wait sends the rest, and meets any error.
    }

    fn report_if_due(&mut self) {
        let now = Instant::now();
        if now >= self.reported_at + MIN_REPORT_INTERVAL {
            self.reported_at = now;
            self.report(now);
        }
    }

    fn report(&mut self, now: Instant) {
        let mut snapshot = self.relay.snapshot(self.clock.now().at);
        // The core does not know how the cluster is reached, and the server's errors do not name
        // the slot.
        if let Some(reason) = &mut snapshot.condition.reason {
            reason.names.set(Name::Brokers, self.kafka.brokers().to_owned());
            reason.names.set(Name::Slot, self.witness_key.slot.clone());
        }
        self.announcer.announce(&snapshot, now);
        let backlog_until = self.stream.as_ref().and_then(ReplicationStream::backlog_until);
        let reading = self.stream.as_ref().and_then(|_| self.pacing.in_force());
        let report = RelayReport { snapshot, backlog_until, reading, published_at: now };
        self.reports.send_replace(report);
    }

    /// Destroying a producer joins librdkafka's threads, so it runs on a blocking thread and with a
    /// limit.
    async fn leave(mut self) {
        const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
        self.report(Instant::now());
        self.jobs.abort_all();
        self.refresher.release();
        if let Some(sink) = self.sink.take() {
            let closing = tokio::task::spawn_blocking(move || sink.close());
            // Nothing depends on how this ends: what was not acknowledged was not confirmed.
            if tokio::time::timeout(CLOSE_TIMEOUT, closing).await.is_err() {
                tracing::warn!("the producer takes long to close: leaving without it");
            }
        }
    }
}
