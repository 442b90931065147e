//! A peer: go-pq-cdc-kafka, a library, in the program of `crates/bench/go-pq-cdc`.
//!
//! It does the router's work: same slot, same topic, key and payload, the event's type and id as
//! headers, acks=all. The library hands over decoded columns, so the payload is written as JSON
//! again, without the spaces that PostgreSQL puts into it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use tempfile::NamedTempFile;
use testbed::ports::free_port;
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::process::{Process, ProcessSpec, Signal};

use crate::server::{BenchServer, PUBLICATION, ReaderSettings, TuningGoal};

const VARIABLE: &str = "OUTBOX_GO_PQ_CDC";

/// The program, which `scripts/go-pq-cdc.sh` builds; `None` if there is none.
pub(crate) fn program() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

/// Why it is left out where there is no program.
pub(crate) fn why_left_out() -> String {
    format!(
        "go-pq-cdc-kafka is left out: {VARIABLE} is not set to what scripts/go-pq-cdc.sh prints"
    )
}

/// The versions of the library.
pub(crate) async fn version() -> anyhow::Result<String> {
    let program = program().with_context(why_left_out)?;
    let output = tokio::process::Command::new(&program).arg("-version").output().await;
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(output.status.success(), "{} has no version", program.display());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A running program. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct GoPqCdc {
    process: Process,
    _log: NamedTempFile,
}

impl GoPqCdc {
    pub(crate) fn start(
        server: &BenchServer,
        settings: ReaderSettings<'_>,
    ) -> anyhow::Result<Self> {
        let log = NamedTempFile::new()?;
        // A batch is sent when it is full, or after this time.
        let tick = match settings.goal {
            TuningGoal::Throughput => "100ms",
            TuningGoal::Latency => "5ms",
        };
        let spec = ProcessSpec::new(program().with_context(why_left_out)?, log.path())
            // The server offers TLS, and the driver would take it.
            .env("PGSSLMODE", "disable")
            .args(["-port", &server.postgres.port().to_string()])
            .args(["-user", SUPERUSER, "-database", DATABASE])
            .args(["-slot", settings.slot, "-publication", PUBLICATION])
            .args(["-bootstrap", settings.topics.bootstrap(), "-topic", settings.topics.route()])
            .args(["-metrics", &free_port()?.to_string(), "-tick", tick]);
        Ok(Self { process: Process::start(&spec)?, _log: log })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn log(&self) -> String {
        self.process.output().unwrap_or_default()
    }

    /// Ends it. The exit code is not checked, because it only reflects the signal.
    pub(crate) async fn stop(&mut self, deadline: Duration) -> anyhow::Result<()> {
        self.process.signal(Signal::TERM)?;
        self.process.wait_exit(deadline).await.map(drop)
    }
}
