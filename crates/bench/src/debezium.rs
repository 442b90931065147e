//! A peer: Debezium's PostgreSQL connector with its outbox router, in Kafka Connect standalone.
//!
//! It is configured to do the router's work: same slot, same topic, key and payload unchanged, the
//! event's type and id as headers, acks=all. It is measured with its defaults, and as tuned as its
//! documentation allows for what is measured: large batches and queues for draining, no waiting for
//! latency.

use std::time::Duration;

use tempfile::TempDir;
use testbed::debezium::jars;
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::process::Signal;
use testbed::process::{Process, ProcessSpec};

use crate::choices::Tuning;
use crate::server::{BenchServer, PUBLICATION, ReaderSettings, TuningGoal};

/// How long it may take until JVM, plug-ins and task are started.
pub(crate) const START_DEADLINE: Duration = Duration::from_mins(1);

impl Tuning {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Defaults => "Debezium",
            Self::Tuned => "Debezium tuned",
        }
    }

    /// Properties of the connector and of the worker's producer.
    fn properties(self, goal: TuningGoal) -> (&'static str, &'static str) {
        match (self, goal) {
            (Self::Defaults, TuningGoal::Throughput | TuningGoal::Latency) => ("", ""),
            (Self::Tuned, TuningGoal::Throughput) => (
                "max.batch.size=32768\nmax.queue.size=262144\nextended.headers.enabled=false\n",
                "producer.linger.ms=50\nproducer.batch.size=262144\n\
                 producer.compression.type=lz4\n",
            ),
            (Self::Tuned, TuningGoal::Latency) => {
                ("poll.interval.ms=1\nextended.headers.enabled=false\n", "producer.linger.ms=0\n")
            }
        }
    }
}

/// A worker with one connector. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Debezium {
    // Before `dir`: fields are dropped in order, and the process has to end before its files are
    // removed.
    process: Process,
    _dir: TempDir,
}

impl Debezium {
    pub(crate) fn start(
        tuning: Tuning,
        server: &BenchServer,
        settings: ReaderSettings<'_>,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("debezium-").tempdir()?;
        let (connector, worker) = tuning.properties(settings.goal);
        let files = [
            ("worker.properties", worker_properties(&dir, settings, worker)),
            ("connector.properties", connector_properties(server, settings, connector)),
        ];
        for (name, text) in &files {
            std::fs::write(dir.path().join(name), text)?;
        }
        let spec = ProcessSpec::new("java", dir.path().join("log"))
            .args(["-Xms256m", "-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"])
            .args(["-cp", &format!("{}/*", jars()?.display())])
            .arg("org.apache.kafka.connect.cli.ConnectStandalone")
            .args(files.map(|(name, _)| dir.path().join(name).display().to_string()));
        Ok(Self { process: Process::start(&spec)?, _dir: dir })
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

fn worker_properties(dir: &TempDir, settings: ReaderSettings<'_>, more: &str) -> String {
    format!(
        "bootstrap.servers={}\n\
         key.converter=org.apache.kafka.connect.storage.StringConverter\n\
         value.converter=org.apache.kafka.connect.storage.StringConverter\n\
         offset.storage.file.filename={}\n\
         plugin.discovery=only_scan\n\
         listeners=http://127.0.0.1:0\n{more}",
        settings.topics.bootstrap(),
        dir.path().join("offsets").display(),
    )
}

fn connector_properties(server: &BenchServer, settings: ReaderSettings<'_>, more: &str) -> String {
    format!(
        "name=bench\n\
         connector.class=io.debezium.connector.postgresql.PostgresConnector\n\
         tasks.max=1\n\
         database.hostname=127.0.0.1\ndatabase.port={}\ndatabase.sslmode=disable\n\
         database.user={SUPERUSER}\ndatabase.password=unused\ndatabase.dbname={DATABASE}\n\
         topic.prefix=bench\n\
         plugin.name=pgoutput\nslot.name={}\n\
         publication.name={PUBLICATION}\npublication.autocreate.mode=disabled\n\
         snapshot.mode=no_data\ntable.include.list={}\n\
         transforms=outbox\n\
         transforms.outbox.type=io.debezium.transforms.outbox.EventRouter\n\
         transforms.outbox.route.topic.replacement={}\n\
         transforms.outbox.table.fields.additional.placement=type:header\n{more}",
        server.postgres.port(),
        settings.slot,
        server.table(),
        settings.topics.route(),
    )
}
