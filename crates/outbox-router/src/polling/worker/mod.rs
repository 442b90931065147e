//! The shell around the polling core: it turns answers of PostgreSQL, delivery reports and timers
//! into [`PollInput`]s, and carries [`PollAction`]s out.
//!
//! One task owns all state and waits in one place ([`Worker::next_event`]). PostgreSQL is asked
//! over two connections: one reads rows and marks them, the other renews leases, so that a long
//! statement delays no lease. A third listens for NOTIFY, where that is wanted.

mod caller;
mod changes;
mod failures;
mod kafka;
#[cfg(test)]
mod tests;

use std::time::Duration;

use relay::{
    ExitReason, Failure, Moment, TableName,
    polling::{
        Described, FailedRow, FetchRequest, Fetched, LeaseLength, LeaseRequest, Leases, PollAction,
        PollInput, Poller, Produced, SettleRequest, Settled, TableIndex, Written,
    },
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use self::{
    caller::Caller,
    changes::ChangesLog,
    kafka::{Done, Producer},
};
use super::{
    clock::LeaseClock,
    report::WorkerReport,
    sql::{Database, LeaseTable, Listener},
};
use crate::{
    condition_log::ConditionLog, kafka::KafkaSettings, monitor::Connect, shell::Running, tap::Tap,
};

/// The longest time between two reports to the rest of the process.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// The shortest.
const MIN_REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// The longest that a statement on rows may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// The longest that closing the producer may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Everything that [`Worker::new`] takes.
pub(crate) struct WorkerParts<C: Connect> {
    pub(crate) poller: Poller,
    /// The clock that the core was started with.
    pub(crate) clock: LeaseClock,
    pub(crate) database: Database<C>,
    pub(crate) leases: LeaseTable<C>,
    pub(crate) lease: LeaseLength,
    /// `None` where NOTIFY is not listened for.
    pub(crate) listener: Option<Listener>,
    pub(crate) kafka: KafkaSettings,
    pub(crate) reports: watch::Sender<WorkerReport>,
    pub(crate) shutdown: watch::Receiver<Running>,
    pub(crate) tap: Tap,
}

/// See the module's header.
pub(crate) struct Worker<C: Connect> {
    poller: Poller,
    /// In the order of the configuration.
    tables: Vec<TableName>,
    clock: LeaseClock,
    /// What is due after this moment, the core may not have been told yet.
    told_at: Moment,
    database: Caller<Database<C>, Answer>,
    leases: Caller<LeaseTable<C>, Result<Leases, Failure>>,
    lease: LeaseLength,
    listener: Option<Listener>,
    producer: Producer,
    reports: watch::Sender<WorkerReport>,
    reported_at: Instant,
    shutdown: watch::Receiver<Running>,
    running: Running,
    tap: Tap,
    log: ConditionLog,
    changes: ChangesLog,
    produced: Produced,
    outcome: Option<ExitReason>,
}

/// What the connection for rows is asked.
enum Request {
    Describe(TableIndex),
    Fetch(FetchRequest),
    Settle(SettleRequest),
}

/// What the connection for rows has answered.
enum Answer {
    Described(TableIndex, Result<Described, Failure>),
    Fetched(Result<Fetched, Failure>),
    /// With the rows that could not be delivered.
    Settled(TableIndex, Vec<FailedRow>, Result<Settled, Failure>),
}

/// What the task waits for.
enum Event {
    /// Acknowledgements, or rows that were left.
    Ready,
    /// A deadline.
    Due,
    Kafka(Done),
    Database(Answer),
    Leased(Result<Leases, Failure>),
    Notified(TableIndex),
    Shutdown,
}

impl<C: Connect + Send + Sync + 'static> Worker<C> {
    /// Takes the parts; nothing is started before [`Worker::run`].
    pub(crate) fn new(parts: WorkerParts<C>) -> Self {
        let report = parts.poller.report(parts.clock.now().at);
        Self {
            tables: report.tables.into_iter().map(|table| table.name).collect(),
            poller: parts.poller,
            clock: parts.clock,
            told_at: Moment::default(),
            database: Caller::Idle(parts.database),
            leases: Caller::Idle(parts.leases),
            lease: parts.lease,
            listener: parts.listener,
            producer: Producer::new(parts.kafka),
            reports: parts.reports,
            reported_at: Instant::now(),
            shutdown: parts.shutdown,
            running: Running::On,
            tap: parts.tap,
            log: ConditionLog::default(),
            changes: ChangesLog::default(),
            produced: Produced::AllForNow,
            outcome: None,
        }
    }

    /// Runs until the core exits, and returns its outcome.
    pub(crate) async fn run(mut self) -> ExitReason {
        loop {
            if let Some(outcome) = self.begin_turn() {
                self.producer.close(CLOSE_WITHIN).await;
                return outcome;
            }
            let event = self.next_event().await;
            self.apply(event);
        }
    }

    /// Does what the core wants, and reports. Returns the outcome when the core has exited.
    fn begin_turn(&mut self) -> Option<ExitReason> {
        self.act();
        if self.outcome.is_some() || self.reported_at.elapsed() >= MIN_REPORT_INTERVAL {
            self.report();
        }
        self.outcome
    }

    fn act(&mut self) {
        while let Some(action) = self.poller.next_action() {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: PollAction) {
        match action {
            PollAction::Describe(table) => self.ask(Request::Describe(table)),
            PollAction::Fetch(request) => self.ask(Request::Fetch(request)),
            PollAction::Settle(request) => self.ask(Request::Settle(request)),
            PollAction::Lease(request) => self.ask_lease(request),
            PollAction::ReplaceSink { wait } => self.producer.replace(wait),
            PollAction::LookUpTopic(id, name) => self.producer.look_up(id, name),
            PollAction::Exit(outcome) => self.outcome = Some(outcome),
        }
    }

    /// The core asks for one thing at a time.
    fn ask(&mut self, request: Request) {
        let begun = self.database.call(async move |mut database| {
            let answer = answer(&mut database, request).await;
            (database, answer)
        });
        debug_assert!(begun, "one request at a time");
    }

    fn ask_lease(&mut self, request: LeaseRequest) {
        // A later answer would come when the core relies on it no more.
        let limit = self.lease.renewal();
        let begun = self.leases.call(async move |mut leases| {
            let answer = match timeout(limit, leases.answer(&request)).await {
                Ok(answer) => answer,
                Err(_) => Err(unanswered("the renewal of its leases", limit)),
            };
            (leases, answer)
        });
        debug_assert!(begun, "one request at a time");
    }

    async fn next_event(&mut self) -> Event {
        let wake_at = self.wake_at();
        let runs = self.running == Running::On;
        let has_rows = self.produced == Produced::More;
        let Self { database, leases, listener, producer, shutdown, .. } = self;
        tokio::select! {
            biased;
            // 1. Acknowledgements, and what Kafka was asked.
            event = producer.acks_or_job() => event.map_or(Event::Ready, Event::Kafka),
            // 2. The request to stop.
            _ = shutdown.wait_for(|running| *running == Running::Stopping), if runs => Event::Shutdown,
            // 3. Leases, without which nothing may be produced.
            answer = leases.answer() => Event::Leased(answer),
            // 4. Rows and marks.
            answer = database.answer() => Event::Database(answer),
            // 5. Rows that the last pass has left.
            () = std::future::ready(()), if has_rows => Event::Ready,
            // 6. News of rows.
            table = notified(listener) => Event::Notified(table),
            // 7. Deadlines.
            () = sleep_until(wake_at) => Event::Due,
        }
    }

    fn apply(&mut self, event: Event) {
        self.told_at = self.clock.now().at;
        match event {
            Event::Ready => {}
            // Also while there is no producer: leases are renewed, and marks are written.
            Event::Due => self.input(PollInput::Tick),
            Event::Kafka(done) => self.producer.finished(done, &mut self.poller, &self.clock),
            Event::Database(Answer::Described(table, answer)) => {
                self.input(PollInput::Described(table, answer));
            }
            Event::Database(Answer::Fetched(answer)) => self.input(PollInput::Fetched(answer)),
            Event::Database(Answer::Settled(table, failed, answer)) => {
                if let (Ok(Settled { written: Written::Yes, .. }), Some(table)) =
                    (&answer, self.tables.get(table.0))
                {
                    failures::announce(table, &failed);
                }
                self.input(PollInput::Settled(answer));
            }
            Event::Leased(answer) => self.input(PollInput::Leased(answer)),
            Event::Notified(table) => self.input(PollInput::Notified(table)),
            Event::Shutdown => {
                self.running = Running::Stopping;
                self.input(PollInput::Shutdown);
            }
        }
        self.producer.collect(&mut self.poller, &self.clock);
        // A producer that is to be replaced takes nothing more.
        self.act();
        self.produced = self.producer.produce(&mut self.poller, &self.clock, &mut self.tap);
        self.producer.check(&mut self.poller, &self.clock);
    }

    fn input(&mut self, input: PollInput<'_>) {
        self.poller.handle(input, self.clock.now());
    }

    fn wake_at(&self) -> Instant {
        // Not only what is due after now: what became due during this turn has to be told, too.
        let core = self.poller.deadline(self.told_at).map(|due| self.clock.instant(due));
        let report = self.reported_at + REPORT_INTERVAL;
        [core, self.producer.check_at()].into_iter().flatten().fold(report, Instant::min)
    }

    fn report(&mut self) {
        let poller = self.poller.report(self.clock.now().at);
        self.log.announce(poller.state.as_str(), poller.reason.as_ref());
        self.changes.announce(&poller.tables);
        self.reported_at = Instant::now();
        let (topics, at) = (self.producer.topics(), self.reported_at);
        self.reports.send_replace(WorkerReport { poller, topics, at });
    }
}

async fn answer<C: Connect>(database: &mut Database<C>, request: Request) -> Answer {
    match request {
        Request::Describe(table) => Answer::Described(table, within(database.adopt(table)).await),
        Request::Fetch(request) => Answer::Fetched(within(database.fetch(&request)).await),
        Request::Settle(request) => {
            let answer = within(database.settle(&request)).await;
            Answer::Settled(request.table, request.failed, answer)
        }
    }
}

async fn notified(listener: &mut Option<Listener>) -> TableIndex {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}

async fn within<T>(answer: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match timeout(ANSWER_WITHIN, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(unanswered("a statement on the polled table", ANSWER_WITHIN)),
    }
}

fn unanswered(what: &str, limit: Duration) -> Failure {
    let seconds = limit.as_secs_f32();
    let what = format!("PostgreSQL did not answer {what} within {seconds:.1} s");
    Failure::new(relay::Code::ServerUnreachable, what)
}
