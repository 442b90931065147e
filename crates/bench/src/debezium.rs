//! A peer: Debezium's PostgreSQL connector with its outbox router, in Kafka Connect standalone.
//!
//! It is configured to do the router's work: same slot, same topic, key and payload unchanged, the
//! event's type and id as headers, acks=all. It is measured with its defaults, and as tuned as its
//! documentation allows for what is measured: large batches and queues for draining, no waiting for
//! latency.

use std::time::Duration;

use testbed::debezium::{Worker, WorkerOptions};
use testbed::postgres::{DATABASE, SUPERUSER};

use crate::server::{BenchServer, PUBLICATION, ReaderSettings, TuningGoal};

/// How long it may take until JVM, plug-ins and task are started.
pub(crate) const START_DEADLINE: Duration = Duration::from_mins(1);

/// How it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tuning {
    /// As it comes.
    Defaults,
    /// For what is measured.
    Tuned,
}

impl Tuning {
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

/// Starts a worker with one connector.
pub(crate) fn start(
    tuning: Tuning,
    server: &BenchServer,
    settings: ReaderSettings<'_>,
) -> anyhow::Result<Worker> {
    let (connector, worker) = tuning.properties(settings.goal);
    let options = WorkerOptions::new(settings.topics.bootstrap())
        .properties(worker)
        .connector("bench", connector_properties(server, settings, connector));
    Worker::start(&options)
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
