//! `run`: starts the tasks, and ends the process when the task that produces ends.
//!
//! ARCHITECTURE.md says why each task exists. The task that produces (the *streaming task*, or with
//! `postgres.source = "polling"` the *worker*) has a thread of its own, so that nothing else can
//! delay it. All others run on the main thread. The tasks share no state: `watch` channels carry
//! their reports.

mod polling;
mod streaming;

use std::{future::Future, io, net::SocketAddr, thread};

use relay::{ExitReason, OnFailed};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
};

use crate::{
    block_on::block_on,
    cli::Exit,
    config::SourceKind,
    kafka::{BrokerStatistics, KafkaSettings, StatisticsFeed},
    postgres::Session,
    prepare::Prepared,
    shell::Endpoint,
};

/// Why `run` could not start, or ended without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The admin endpoint cannot listen.
    #[error("admin.listen: cannot listen on {address}: {source}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// Why the system refuses it.
        source: io::Error,
    },
    /// The task that produces panicked, which is a bug. The panic's message is on standard error.
    #[error("the task that produces panicked: this is a bug, please report what was printed above")]
    TaskPanicked,
    /// The system refuses a thread, a signal handler or the runtime.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl StartError {
    /// The exit code of the process.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Listen { .. } => Exit::Configuration,
            Self::System(_) => Exit::Failure,
            Self::TaskPanicked => Exit::Bug,
        }
    }
}

/// `run`, not yet started.
pub struct App {
    prepared: Prepared,
    on_failed: OnFailed,
}

impl App {
    /// Takes the parts that were built from the configuration.
    pub const fn new(prepared: Prepared, on_failed: OnFailed) -> Self {
        Self { prepared, on_failed }
    }

    /// Runs until the task that produces ends, and returns its outcome.
    ///
    /// # Errors
    /// [`StartError`]: the admin address cannot be used, the system lacks a thread, or the
    /// task that produces panicked.
    pub fn run(self) -> Result<ExitReason, StartError> {
        match self.prepared.config.postgres.source {
            SourceKind::Stream => block_on(self.stream())?,
            SourceKind::Polling => block_on(self.poll())?,
        }
    }

    /// How to make the producer, and where librdkafka's statistics of it are read, if they are
    /// wanted.
    fn kafka(&self) -> (KafkaSettings, Option<watch::Receiver<BrokerStatistics>>) {
        let feed = self.prepared.config.kafka.statistics.map(StatisticsFeed::every);
        let (statistics, brokers) = feed.unzip();
        (KafkaSettings { statistics, ..self.prepared.kafka.clone() }, brokers)
    }

    async fn listen(&self) -> Result<TcpListener, StartError> {
        let address = self.prepared.config.admin.listen;
        let listening = TcpListener::bind(address).await;
        listening.map_err(|source| StartError::Listen { address, source })
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
            conninfo: self.prepared.conninfo.clone(),
            application_name: self.prepared.config.name.clone(),
            session: self.session(),
        }
    }

    fn retention_endpoint(&self) -> Endpoint {
        Endpoint {
            conninfo: self.prepared.retention.clone(),
            application_name: format!("{} retention", self.prepared.config.name),
            session: self.session(),
        }
    }

    /// Whoever polls relies on no session: each transaction sets what its statements need.
    fn session(&self) -> Session {
        match self.prepared.config.postgres.source {
            SourceKind::Polling => Session::Shared,
            SourceKind::Stream => Session::Own,
        }
    }
}

/// SIGTERM and SIGINT, by which the process is asked to stop.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn listen() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one. Cancel-safe.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Distinguishes this process from every other. Not the process id, which containers share.
fn process_id() -> uuid::Uuid {
    uuid::Uuid::new_v4()
}

/// Runs a task on a thread and a runtime of its own; the receiver gets its outcome, or nothing if
/// it panics.
fn on_its_own_thread<F: Future<Output = ExitReason>>(
    task: impl FnOnce() -> F + Send + 'static,
) -> io::Result<oneshot::Receiver<ExitReason>> {
    let (sender, receiver) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("relay".to_owned()).spawn(move || {
        let outcome = runtime.block_on(async { task().await });
        // Sending fails only when the main thread is already ending.
        let _unreceived = sender.send(outcome);
    })?;
    Ok(receiver)
}
