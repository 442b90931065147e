//! The scripted shell: the real shell around the real core, with PostgreSQL and Kafka played by the
//! test.
//!
//! [`postgres`] plays the server's answers, [`walsender`] the server's end of the stream's socket,
//! [`kafka`] the producer and the requests beside it, and [`held`] the table of held events. Each
//! request can be answered automatically, kept waiting, or answered by the test. Time is tokio's
//! paused clock, which advances when no task is ready, so a test waits for days at once.
//! [`Fixture::until`] runs the shell's turns until a condition is seen from outside.
//!
//! Only what measures its own work (a pass, a flood) runs in real time.

mod floods;
mod held;
mod kafka;
mod order;
mod passes;
mod postgres;
mod requests;
mod shutdown;
mod sinks;
mod stalls;
mod state_topic;
mod steps;
mod stream;
mod walsender;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc as threads,
    },
    task::Poll,
    time::Duration,
};

use relay::{
    Code, Failure, Relay, RelaySettings, State, Timing, Window, WitnessSettings,
    testing::{
        samples,
        wire::{self, TEXT, Value},
    },
};

use self::{
    held::ScriptedHeld,
    kafka::{Producer, ScriptedKafka},
    postgres::{Request, ScriptedPostgres},
    requests::TestWaker,
    walsender::Walsender,
};
use super::*;
use crate::{
    postgres::Fill,
    tap::{self, TapShows},
};

const OUTBOX: u32 = 16_400;
const OTHER: u32 = 16_500;
const COLUMNS: [(&str, u32); 5] = [
    ("id", 2950),
    ("aggregate_type", TEXT),
    ("aggregate_id", TEXT),
    ("event_type", TEXT),
    ("payload", TEXT),
];

/// How long something may take by the paused clock.
const DEADLINE: Duration = Duration::from_secs(120);
/// How long a test may take by a real clock, in case the paused one stands still.
const REAL_PATIENCE: Duration = Duration::from_secs(60);

/// `shutdown` of the configuration.
const DRAIN: Duration = Duration::from_secs(25);

fn settings() -> RelaySettings {
    RelaySettings {
        window: Window { events: 4, bytes: 1 << 20 },
        row_bytes: 1 << 20,
        timing: Timing {
            status_interval: WAL_SENDER_TIMEOUT / 3,
            silence_limit: WAL_SENDER_TIMEOUT,
        },
        shutdown_limit: DRAIN,
        ..samples::settings()
    }
}

fn witness_key() -> WitnessKey {
    WitnessKey { name: "n".into(), database: "shop".into(), slot: "s".into() }
}

/// Settings with a state topic.
fn witnessed() -> RelaySettings {
    let topic = TopicName::new("state").unwrap();
    let witness = WitnessSettings { key: witness_key(), process: "this".into(), topic };
    RelaySettings { witness: Some(witness), ..settings() }
}

fn failure(code: Code) -> Failure {
    Failure::new(code, "it failed")
}

/// The shell, and the world around it.
struct Fixture {
    shell: Box<Shell<ScriptedPostgres, ScriptedKafka>>,
    world: World,
}

/// Everything outside.
struct World {
    postgres: ScriptedPostgres,
    held: ScriptedHeld,
    kafka: ScriptedKafka,
    monitor: mpsc::Sender<MonitorEvent>,
    reports: watch::Receiver<RelayReport>,
    stop: watch::Sender<Running>,
    outcome: Option<ExitReason>,
    test_waker: TestWaker,
    /// Real time is up.
    late: Arc<AtomicBool>,
    /// Dropping it ends the watchdog.
    _watched: threads::Sender<()>,
}

impl Fixture {
    fn new(settings: RelaySettings) -> Self {
        let clock = Clock::start();
        let state_topic = settings.witness.as_ref().map(|_| TopicName::new("state").unwrap());
        let relay = Relay::new(settings, clock.now().at);
        let snapshot = relay.snapshot(clock.now().at);
        let (monitor, events) = mpsc::channel(16);
        let (reports, seen) = watch::channel(RelayReport::initial(snapshot, Instant::now()));
        let (stop, stopping) = watch::channel(Running::On);
        // Without its other end nobody listens.
        let (_, tap) = tap::taps(TapShows::Metadata);
        let test_waker = TestWaker::default();
        let (postgres, kafka) =
            (ScriptedPostgres::new(test_waker.clone()), ScriptedKafka::new(test_waker.clone()));
        let held = ScriptedHeld::new(test_waker.clone());
        let shell = Shell::new(Parts {
            relay,
            postgres: postgres.clone(),
            held: held.clone(),
            kafka: kafka.clone(),
            state_topic,
            witness_key: witness_key(),
            monitor: events,
            reports,
            shutdown: stopping,
            tap,
            clock,
        });
        let (watched, late) = watchdog(test_waker.clone());
        let world = World {
            postgres,
            held,
            kafka,
            monitor,
            reports: seen,
            stop,
            outcome: None,
            test_waker,
            late,
            _watched: watched,
        };
        Self { shell: Box::new(shell), world }
    }

    /// The shell as `run` starts it.
    fn begun(settings: RelaySettings) -> Self {
        let mut fixture = Self::new(settings);
        fixture.shell.start(Job::ReplaceSink(Duration::ZERO));
        fixture
    }

    /// A shell that has started; this step of the connection waits for its answer.
    async fn held_at(step: fn(&Request) -> bool) -> Self {
        let mut fixture = Self::begun(settings());
        fixture.world.postgres.requests().hold(step);
        let held = |world: &mut World| !world.postgres.requests().waiting().is_empty();
        fixture.until("the step", held).await;
        fixture
    }

    /// Streaming; the tables are described, the topic of `row` is known, nothing is unconfirmed.
    async fn streaming(settings: RelaySettings) -> Self {
        let mut fixture = Self::begun(settings);
        fixture.stream().await;
        fixture
    }

    async fn stream(&mut self) {
        self.until("a stream", |world| world.postgres.walsenders() == 1).await;
        self.world.walsender().send(&described());
        self.deliver(8, &["warm-up"]).await;
    }

    /// Streaming with a full window: three records of a transaction that ends at 108, one of the
    /// next, which goes on with `e`. That one has arrived, and finds no room before the others are
    /// acknowledged.
    async fn full() -> Self {
        let mut fixture = Self::streaming(settings()).await;
        fixture.world.walsender().send(&transaction(100, &["a", "b", "c"]));
        fixture.world.walsender().send(&[wire::begin(200, 0), row("d")]);
        fixture.produced(4).await;
        fixture.world.walsender().send(&[row("e")]);
        fixture.pass_time(Duration::from_millis(200)).await;
        assert_eq!(fixture.world.producer().in_flight(), 4);
        fixture
    }

    /// A transaction, from the server to its confirmation.
    async fn deliver(&mut self, at: u64, keys: &[&str]) {
        self.world.walsender().send(&transaction(at, keys));
        self.produced(keys.len()).await;
        self.world.producer().ack_all();
        let confirmed = |world: &mut World| world.walsender().confirmed() == at + 8;
        self.until("the transaction's confirmation", confirmed).await;
    }

    /// Runs turns until at most so many jobs are under way.
    async fn until_jobs(&mut self, count: usize) {
        while self.shell.jobs.len() > count {
            self.world.outcome = self.shell.turn().await;
            assert_eq!(self.world.outcome, None);
        }
    }

    /// Reads what was sent into the stream's buffer, and hands none of it on.
    fn read(&mut self) -> ShellEvent<ScriptedPostgres, ScriptedKafka> {
        let count = self.shell.stream.as_mut().unwrap().fill_now();
        assert_ne!(count, 0);
        ShellEvent::Wal(Ok(Fill::Bytes(count)))
    }

    /// Waits until so many records are in the present producer's hands.
    async fn produced(&mut self, count: usize) {
        self.until("records", |world| world.producer().in_flight() == count).await;
    }

    /// Runs turns until a condition is seen from outside.
    async fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut World) -> bool) {
        let Self { shell, world } = self;
        let patience = Instant::now() + DEADLINE;
        loop {
            let mut turn = pin!(shell.turn());
            let is_seen = poll_fn(|cx| {
                world.test_waker.set(cx.waker());
                let turned = turn.as_mut().poll(cx);
                if let Poll::Ready(outcome) = turned {
                    world.outcome = outcome;
                }
                if is_so(world) {
                    return Poll::Ready(true);
                }
                let in_time = Instant::now() < patience && !world.late.load(Ordering::Relaxed);
                assert!(in_time, "waited in vain for {what}");
                assert_eq!(world.outcome, None, "left instead of {what}");
                turned.map(|_| false)
            });
            if is_seen.await {
                return;
            }
        }
    }

    /// Lets so much time pass.
    async fn pass_time(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let mut passed = pin!(tokio::time::sleep_until(end));
        loop {
            tokio::select! {
                biased;
                () = &mut passed => return,
                outcome = self.shell.turn() => self.world.outcome = outcome,
            }
            assert_eq!(self.world.outcome, None);
        }
    }

    /// Runs turns until the shell ends.
    async fn outcome(&mut self) -> ExitReason {
        self.until("an outcome", |world| world.outcome.is_some()).await;
        self.world.outcome.unwrap()
    }

    fn confirmed(&self) -> u64 {
        self.shell.relay.snapshot(self.shell.clock.now().at).confirmed.as_u64()
    }

    fn state(&self) -> (State, Option<Code>) {
        let condition = self.shell.relay.snapshot(self.shell.clock.now().at).condition;
        (condition.state, condition.reason.map(|reason| reason.code))
    }
}

impl World {
    /// The server's end of the newest stream.
    fn walsender(&self) -> Walsender {
        self.postgres.walsender()
    }

    /// The newest producer.
    fn producer(&self) -> Producer {
        self.kafka.producer()
    }

    fn shut_down(&self) {
        self.stop.send_replace(Running::Stopping);
    }
}

impl Drop for World {
    /// Answers what still waits: a thread that waits for an answer would keep the runtime from
    /// ending.
    fn drop(&mut self) {
        self.kafka.requests().close();
    }
}

/// Fails a test that takes too long by a real clock: the paused clock may stand still for ever.
fn watchdog(test_waker: TestWaker) -> (threads::Sender<()>, Arc<AtomicBool>) {
    let (watched, over) = threads::channel();
    let late = Arc::new(AtomicBool::new(false));
    let is_late = Arc::clone(&late);
    std::thread::spawn(move || {
        if over.recv_timeout(REAL_PATIENCE) == Err(threads::RecvTimeoutError::Timeout) {
            is_late.store(true, Ordering::Relaxed);
            test_waker.wake();
        }
    });
    (watched, late)
}

fn described() -> Vec<Vec<u8>> {
    vec![wire::relation(OUTBOX, "outbox", &COLUMNS), wire::relation(OTHER, "orders", &COLUMNS)]
}

fn row(key: &str) -> Vec<u8> {
    row_of("order", key, "{}")
}

fn row_of(aggregate_type: &str, key: &str, payload: &str) -> Vec<u8> {
    let values = [key, aggregate_type, key, "Happened", payload].map(Value::Text);
    wire::insert(1, OUTBOX, &values)
}

fn foreign_row() -> Vec<u8> {
    wire::insert(1, OTHER, &["1", "order", "k", "t", "{}"].map(Value::Text))
}

/// One transaction with a row per key; its commit record is `at..at + 8`.
fn transaction(at: u64, keys: &[&str]) -> Vec<Vec<u8>> {
    let mut frames = vec![wire::begin(at, 0)];
    frames.extend(keys.iter().map(|key| row(key)));
    frames.push(wire::commit(at, at + 8));
    frames
}
