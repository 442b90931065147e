//! One run of one reader over a backlog, and the judgement of what it delivered.

use anyhow::{Context, ensure};
use rdkafka::{Message as _, TopicPartitionList};
use testbed::kafka::Kafka;
use testbed::process::{Process, Spec, peak_resident_bytes};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::args::Socket;
use crate::audit::Audit;
use crate::reader::{Aim, Reader, Running, STOP_DEADLINE, Way};
use crate::series::{Measured, measure};
use crate::stage::{PUBLICATION, Stage, Task, pg_recvlogical};
use crate::topic::{Ends, Follower, Topics};
use crate::watch::{Cast, Gauge, Holder, watch};

/// A run that was faultless.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) measured: Measured,
    /// Of what delivers: pg_recvlogical has ended by the time it is done.
    pub(crate) peak_bytes: Option<u64>,
    /// Of a payload, on average.
    pub(crate) value_bytes: f64,
}

impl Run {
    /// Of payload alone: what else a record carries is not counted.
    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.measured.events_per_second * self.value_bytes / 1e6
    }
}

/// What was wrong with a run: it has no figures.
pub(crate) type Fault = String;

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
    let outcome = match reader {
        Reader::PgRecvlogical => receive(stage, socket, kafka, task, &slot).await,
        Reader::Router { .. } | Reader::Debezium(_) => {
            deliver((reader, socket), stage, kafka, task, (&slot, name)).await
        }
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
    let samples = match spawn_blocking(move || watch(&Gauge::Written, cast, started)).await?? {
        Ok(samples) => samples,
        Err(fault) => return Ok(Err(fault)),
    };
    let status = process.wait_exit(STOP_DEADLINE).await?;
    ensure!(status.success(), "pg_recvlogical failed: {}", process.output()?);
    let measured = measure(&samples, task.events).context("too few events to measure")?;
    Ok(Ok(Run { measured, peak_bytes: None, value_bytes: task.value_bytes }))
}

async fn deliver(
    (reader, socket): (&Reader, Socket),
    stage: &Stage,
    kafka: &mut Kafka,
    task: Task,
    (slot, name): (&str, &str),
) -> anyhow::Result<Result<Run, Fault>> {
    let (bootstrap, topics) = (kafka.bootstrap(), Topics::of(name, task.reach));
    topics.create(&bootstrap).await?;
    let (ends, start) = {
        let (bootstrap, topics) = (bootstrap.clone(), topics.clone());
        spawn_blocking(move || -> anyhow::Result<_> {
            let ends = Ends::of(&bootstrap, &topics)?;
            let start = Start { positions: ends.positions()?, records: ends.records()? };
            Ok((ends, start))
        })
        .await??
    };
    let way =
        Way { socket, slot, route: topics.route(), bootstrap: &bootstrap, aim: Aim::Throughput };
    let started = Instant::now();
    let mut running = Running::start(reader, stage, way)?;
    let pid = running.pid()?;
    let cast = cast(stage, slot, kafka, pid).await?;
    let gauge = Gauge::Records { ends, before: start.records, expected: task.events };
    let samples = match spawn_blocking(move || watch(&gauge, cast, started)).await?? {
        Ok(samples) => samples,
        Err(fault) => return Ok(Err(format!("{fault}; its log:\n{}", running.log()))),
    };
    let peak_bytes = Some(peak_resident_bytes(pid)?);
    running.stop().await?;
    let confirmed = stage.postgres.slot(slot).await?.and_then(|slot| slot.confirmed_flush_lsn);
    let verdict = judge(&bootstrap, &topics, start, task).await?;
    topics.delete(&bootstrap).await?;
    if reader.is_router() && confirmed < Some(task.end) {
        return Ok(Err(format!("confirmed {confirmed:?} instead of {} or later", task.end)));
    }
    if let Err(fault) = verdict {
        return Ok(Err(fault));
    }
    let measured = measure(&samples, task.events).context("too few events to measure")?;
    Ok(Ok(Run { measured, peak_bytes, value_bytes: task.value_bytes }))
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

/// Where topics ended before a run.
struct Start {
    positions: TopicPartitionList,
    records: u64,
}

/// Reads what a run has written, and judges it.
async fn judge(
    bootstrap: &str,
    topics: &Topics,
    start: Start,
    task: Task,
) -> anyhow::Result<Result<(), Fault>> {
    let (bootstrap, topics) = (bootstrap.to_owned(), topics.clone());
    spawn_blocking(move || {
        let mut audit = Audit::new(task.events, task.reach)?;
        Follower::from(&bootstrap, &start.positions)?.read(task.events, |record| {
            audit.note(topics.place(record), record.key(), record.payload());
            Ok(())
        })?;
        let records = Ends::of(&bootstrap, &topics)?.records()? - start.records;
        Ok(audit.verdict(records).map_err(|faults| faults.to_string()))
    })
    .await?
}
