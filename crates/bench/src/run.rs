//! One run of one reader over a backlog, and the check of what it delivered.

use anyhow::{Context, ensure};
use rdkafka::{Message as _, TopicPartitionList};
use serde::Serialize;
use testbed::kafka::KafkaCluster;
use testbed::process::{Process, ProcessSpec, peak_resident_bytes};
use tokio::time::Instant;

use crate::choices::Socket;
use crate::conditions::{Conditions, ConnectionSource, Observed, ReadAs, StatusSource};
use crate::figures::megabytes;
use crate::held::table::{HeldRow, held_rows};
use crate::machine_info::cores;
use crate::reader::{Reader, RunningReader, STOP_DEADLINE};
use crate::server::{
    BenchServer, PUBLICATION, ReaderSettings, TuningGoal, WrittenBacklog, pg_recvlogical,
};
use crate::throughput::{Measured, measure};
use crate::topic::{RunTopics, blocking};
use crate::watch::{Anomaly, Decoders, MeasuredProcesses, ProgressSource, Watched, watch};

/// The figures of a run without anomaly.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// Megabytes of payload a second; the other parts of a record are not counted.
    #[serde(rename = "payload_megabytes_per_second")]
    pub(crate) payload: f64,
    /// Of a process that delivers: pg_recvlogical has ended before it could be read.
    #[serde(rename = "peak_rss_megabytes")]
    pub(crate) peak: Option<f64>,
    /// What the run was; `None` if it was too short.
    #[serde(flatten)]
    pub(crate) conditions: Option<Conditions>,
}

impl Run {
    fn of(
        Watched { samples, looks }: &Watched,
        written: WrittenBacklog,
        (read_as, peak): (ReadAs, Option<f64>),
    ) -> anyhow::Result<Self> {
        let measured = measure(samples, written.events).context("too few events to measure")?;
        let payload = measured.events_per_second * written.value_bytes / 1e6;
        Ok(Self { measured, payload, peak, conditions: Conditions::of(looks, read_as, cores()?) })
    }
}

/// What is looked at while `reader` drains.
fn observed(server: &BenchServer, socket: Socket, status: Option<StatusSource>) -> Observed {
    let port = (socket != Socket::Unix).then(|| server.postgres.port());
    // Where the kernel does not show connections, the figures of a run are as good without them.
    let connections = port.and_then(|port| ConnectionSource::open(port).ok());
    Observed { connections, status }
}

/// Runs `reader` over a fresh copy of the origin slot.
pub(crate) async fn run(
    (reader, socket): (&Reader, Socket),
    server: &BenchServer,
    kafka: &mut KafkaCluster,
    written: WrittenBacklog,
    name: &str,
) -> anyhow::Result<Result<Run, Anomaly>> {
    let slot = name.replace('-', "_");
    server.copy_slot_from(written.origin, &slot).await?;
    let outcome = if reader.delivers() {
        deliver((reader, socket), server, kafka, written, (&slot, name)).await
    } else {
        receive(server, socket, kafka, written, &slot).await
    };
    let outcome = outcome.with_context(|| format!("run {name} of {}", reader.name()))?;
    server.drop_slot(&slot).await?;
    Ok(outcome)
}

async fn receive(
    server: &BenchServer,
    socket: Socket,
    kafka: &mut KafkaCluster,
    written: WrittenBacklog,
    slot: &str,
) -> anyhow::Result<Result<Run, Anomaly>> {
    let log = tempfile::NamedTempFile::new()?;
    let spec = ProcessSpec::new(pg_recvlogical()?, log.path())
        .args(["--dbname", &server.conninfo(socket), "--slot", slot])
        .args(["--start", "--no-loop", "--fsync-interval", "0", "--file", "/dev/null"])
        .args(["--option", "proto_version=1"])
        .args(["--option", &format!("publication_names={PUBLICATION}")])
        .args(["--endpos", &written.end.to_string()]);
    let started = Instant::now();
    let mut process = Process::start(&spec)?;
    let processes = measured_processes(server, slot, kafka, process.pid()).await?;
    let observed = observed(server, socket, None);
    let watching =
        blocking(move || watch(&ProgressSource::BytesWritten, processes, observed, started));
    let watched = match watching.await? {
        Ok(watched) => watched,
        Err(anomaly) => return Ok(Err(anomaly)),
    };
    let status = process.wait_exit(STOP_DEADLINE).await?;
    ensure!(status.success(), "pg_recvlogical failed: {}", process.output()?);
    Ok(Ok(Run::of(&watched, written, (ReadAs::Stream, None))?))
}

async fn deliver(
    (reader, socket): (&Reader, Socket),
    server: &BenchServer,
    kafka: &mut KafkaCluster,
    written: WrittenBacklog,
    (slot, name): (&str, &str),
) -> anyhow::Result<Result<Run, Anomaly>> {
    let topics = RunTopics::create(&kafka.bootstrap(), name, written.distribution).await?;
    let ends = topics.ends().await?;
    let (ends, positions, before) = blocking(move || {
        let (positions, before) = (ends.positions()?, ends.records()?);
        Ok((ends, positions, before))
    })
    .await?;
    let settings = ReaderSettings { socket, slot, topics: &topics, goal: TuningGoal::Throughput };
    let started = Instant::now();
    let mut running = RunningReader::start(reader, server, settings)?;
    let pid = running.pid()?;
    let processes = measured_processes(server, slot, kafka, pid).await?;
    let source = ProgressSource::Records { ends, before, expected: written.delivered() };
    let observed = observed(server, socket, running.status());
    let watching = blocking(move || watch(&source, processes, observed, started));
    let watched = match watching.await? {
        Ok(watched) => watched,
        Err(anomaly) => return Ok(Err(format!("{anomaly}; its log:\n{}", running.log()))),
    };
    let peak = megabytes(peak_resident_bytes(pid)?);
    running.stop().await?;
    let confirmed = server.postgres.confirmed(slot).await?;
    let held = held_rows(server, slot).await?;
    let delivery = check_delivery(&topics, positions, before, written, held).await?;
    topics.delete().await?;
    if reader.is_router() && confirmed < written.end {
        return Ok(Err(format!("confirmed {confirmed} instead of {} or later", written.end)));
    }
    match delivery {
        Ok(()) => {
            let read_as = if reader.is_router() { ReadAs::Router } else { ReadAs::Stream };
            Ok(Ok(Run::of(&watched, written, (read_as, Some(peak)))?))
        }
        Err(anomaly) => Ok(Err(anomaly)),
    }
}

/// The processes of a run of `reader` from `slot`.
pub(crate) async fn measured_processes(
    server: &BenchServer,
    slot: &str,
    kafka: &mut KafkaCluster,
    reader: u32,
) -> anyhow::Result<MeasuredProcesses> {
    Ok(MeasuredProcesses {
        reader,
        postmaster: server.postgres.process()?.pid(),
        broker: kafka.broker(1)?.process()?.pid(),
        decoders: Decoders::of(server, slot).await?,
    })
}

/// Reads what a run has written since topics ended at `start`, of which `before` records were
/// there, and checks it together with what
/// the table has.
async fn check_delivery(
    topics: &RunTopics,
    start: TopicPartitionList,
    before: u64,
    written: WrittenBacklog,
    held: Vec<HeldRow>,
) -> anyhow::Result<Result<(), Anomaly>> {
    let records = topics.records().await? - before;
    let topics = topics.clone();
    blocking(move || {
        let mut audit = written.audit()?;
        topics.follow_from(&start)?.read(written.delivered(), |record| {
            audit.note(topics.place(record), record.key(), record.payload());
            Ok(())
        })?;
        held.iter().for_each(|row| audit.note_held(row.key.as_deref(), &row.messages));
        Ok(audit.result(records).map_err(|anomalies| anomalies.to_string()))
    })
    .await
}
