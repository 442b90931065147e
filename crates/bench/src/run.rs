//! One run of one reader over a backlog, and the check of what it delivered.

use anyhow::{Context, ensure};
use rdkafka::{Message as _, TopicPartitionList};
use serde::Serialize;
use testbed::kafka::Kafka;
use testbed::process::{Process, Spec, peak_resident_bytes};
use tokio::time::Instant;

use crate::audit::Audit;
use crate::choices::Socket;
use crate::figures::megabytes;
use crate::reader::{Reader, Running, STOP_DEADLINE};
use crate::series::{Measured, Sample, measure};
use crate::stage::{Aim, PUBLICATION, Stage, Task, Way, pg_recvlogical};
use crate::topic::{Topics, blocking};
use crate::watch::{Cast, Fault, Gauge, Holder, watch};

/// The figures of a run without anomaly.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Run {
    #[serde(flatten)]
    pub(crate) measured: Measured,
    /// Megabytes of payload a second; the other parts of a record are not counted.
    #[serde(rename = "payload_megabytes_per_second")]
    pub(crate) payload: f64,
    /// Of a process that delivers: pg_recvlogical has ended before it could be read.
    #[serde(rename = "peak_rss_megabytes")]
    pub(crate) peak: Option<f64>,
}

impl Run {
    fn of(samples: &[Sample], task: Task, peak: Option<f64>) -> anyhow::Result<Self> {
        let measured = measure(samples, task.events).context("too few events to measure")?;
        let payload = measured.events_per_second * task.value_bytes / 1e6;
        Ok(Self { measured, payload, peak })
    }
}

/// Runs `reader` over a fresh copy of the origin slot.
pub(crate) async fn run(
    (reader, socket): (&Reader, Socket),
    stage: &Stage,
    kafka: &mut Kafka,
    task: Task,
    name: &str,
) -> anyhow::Result<Result<Run, Fault>> {
    let slot = name.replace('-', "_");
    stage.copy_slot(&slot).await?;
    let outcome = if reader.delivers() {
        deliver((reader, socket), stage, kafka, task, (&slot, name)).await
    } else {
        receive(stage, socket, kafka, task, &slot).await
    };
    let outcome = outcome.with_context(|| format!("run {name} of {}", reader.name()))?;
    stage.drop_slot(&slot).await?;
    Ok(outcome)
}

async fn receive(
    stage: &Stage,
    socket: Socket,
    kafka: &mut Kafka,
    task: Task,
    slot: &str,
) -> anyhow::Result<Result<Run, Fault>> {
    let log = tempfile::NamedTempFile::new()?;
    let spec = Spec::new(pg_recvlogical()?, log.path())
        .args(["--dbname", &stage.conninfo(socket), "--slot", slot])
        .args(["--start", "--no-loop", "--fsync-interval", "0", "--file", "/dev/null"])
        .args(["--option", "proto_version=1"])
        .args(["--option", &format!("publication_names={PUBLICATION}")])
        .args(["--endpos", &task.end.to_string()]);
    let started = Instant::now();
    let mut process = Process::start(&spec)?;
    let cast = cast(stage, slot, kafka, process.pid()).await?;
    let samples = match blocking(move || watch(&Gauge::Written, cast, started)).await? {
        Ok(samples) => samples,
        Err(fault) => return Ok(Err(fault)),
    };
    let status = process.wait_exit(STOP_DEADLINE).await?;
    ensure!(status.success(), "pg_recvlogical failed: {}", process.output()?);
    Ok(Ok(Run::of(&samples, task, None)?))
}

async fn deliver(
    (reader, socket): (&Reader, Socket),
    stage: &Stage,
    kafka: &mut Kafka,
    task: Task,
    (slot, name): (&str, &str),
) -> anyhow::Result<Result<Run, Fault>> {
    let topics = Topics::create(&kafka.bootstrap(), name, task.reach).await?;
    let ends = topics.ends().await?;
    let (ends, positions, before) = blocking(move || {
        let (positions, before) = (ends.positions()?, ends.records()?);
        Ok((ends, positions, before))
    })
    .await?;
    let way = Way { socket, slot, topics: &topics, aim: Aim::Throughput };
    let started = Instant::now();
    let mut running = Running::start(reader, stage, way)?;
    let pid = running.pid()?;
    let cast = cast(stage, slot, kafka, pid).await?;
    let gauge = Gauge::Records { ends, before, expected: task.events };
    let samples = match blocking(move || watch(&gauge, cast, started)).await? {
        Ok(samples) => samples,
        Err(fault) => return Ok(Err(format!("{fault}; its log:\n{}", running.log()))),
    };
    let peak = megabytes(peak_resident_bytes(pid)?);
    running.stop().await?;
    let confirmed = stage.confirmed(slot).await?;
    let verdict = judge(&topics, positions, before, task).await?;
    topics.delete().await?;
    if reader.is_router() && confirmed < task.end {
        return Ok(Err(format!("confirmed {confirmed} instead of {} or later", task.end)));
    }
    match verdict {
        Ok(()) => Ok(Ok(Run::of(&samples, task, Some(peak))?)),
        Err(fault) => Ok(Err(fault)),
    }
}

/// The processes of a run of `reader` from `slot`.
pub(crate) async fn cast(
    stage: &Stage,
    slot: &str,
    kafka: &mut Kafka,
    reader: u32,
) -> anyhow::Result<Cast> {
    Ok(Cast {
        reader,
        postmaster: stage.postgres.process()?.pid(),
        broker: kafka.broker(1)?.process()?.pid(),
        holder: Holder::of(stage, slot).await?,
    })
}

/// Reads what a run has written since topics ended at `start`, of which `before` records were
/// there, and checks it.
async fn judge(
    topics: &Topics,
    start: TopicPartitionList,
    before: u64,
    task: Task,
) -> anyhow::Result<Result<(), Fault>> {
    let records = topics.records().await? - before;
    let topics = topics.clone();
    blocking(move || {
        let mut audit = Audit::new(task.events, task.reach)?;
        topics.follow_from(&start)?.read(task.events, |record| {
            audit.note(topics.place(record), record.key(), record.payload());
            Ok(())
        })?;
        Ok(audit.verdict(records).map_err(|faults| faults.to_string()))
    })
    .await
}
