//! One run of one reader over a backlog, and the judgement of what it delivered.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use rdkafka::Message as _;
use testbed::kafka::Kafka;
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::process::{Process, Spec, peak_resident_bytes};
use testbed::router::Router;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tokio_postgres::types::PgLsn;

use crate::audit::Audit;
use crate::series::{Measured, measure};
use crate::stage::{KEYS, PUBLICATION, Stage, pg_recvlogical};
use crate::topic::{Ends, Follower, PARTITIONS};
use crate::watch::{Cast, Gauge, watch};

/// How long a router that has acked everything may take to stop.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// Who reads.
#[derive(Debug, Clone)]
pub(crate) enum Reader {
    /// `pg_recvlogical` into nothing: what everything is compared with.
    PgRecvlogical,
    /// A build of the router.
    Router { name: String, binary: PathBuf },
}

impl Reader {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::PgRecvlogical => "pg_recvlogical",
            Self::Router { name, .. } => name,
        }
    }
}

/// A backlog to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) events: u64,
    /// The position behind it.
    pub(crate) end: PgLsn,
}

/// A run that was faultless.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) measured: Measured,
    /// Of a router: pg_recvlogical has ended by the time it is done.
    pub(crate) peak_bytes: Option<u64>,
}

/// What was wrong with a run: it has no figures.
pub(crate) type Fault = String;

/// Runs `reader` over a fresh copy of the origin slot.
pub(crate) async fn run(
    reader: &Reader,
    stage: &Stage,
    kafka: &mut Kafka,
    task: Task,
    name: &str,
) -> anyhow::Result<Result<Run, Fault>> {
    let slot = name.replace('-', "_");
    stage.copy_slot(&slot).await?;
    let outcome = match reader {
        Reader::PgRecvlogical => receive(stage, kafka, task, &slot).await,
        Reader::Router { binary, .. } => route(binary, stage, kafka, task, (&slot, name)).await,
    };
    let outcome = outcome.with_context(|| format!("run {name} of {}", reader.name()))?;
    stage.drop_slot(&slot).await?;
    Ok(outcome)
}

async fn receive(
    stage: &Stage,
    kafka: &mut Kafka,
    task: Task,
    slot: &str,
) -> anyhow::Result<Result<Run, Fault>> {
    let log = tempfile::NamedTempFile::new()?;
    let spec = Spec::new(pg_recvlogical()?, log.path())
        .args(["--host", &stage.host(), "--port", &stage.postgres.port().to_string()])
        .args(["--username", SUPERUSER, "--dbname", DATABASE, "--slot", slot])
        .args(["--start", "--no-loop", "--fsync-interval", "0", "--file", "/dev/null"])
        .args(["--option", "proto_version=1"])
        .args(["--option", &format!("publication_names={PUBLICATION}")])
        .args(["--endpos", &task.end.to_string()]);
    let started = Instant::now();
    let mut process = Process::start(&spec)?;
    let cast = cast(stage, kafka, process.pid())?;
    let samples = match spawn_blocking(move || watch(&Gauge::Written, cast, started)).await?? {
        Ok(samples) => samples,
        Err(fault) => return Ok(Err(fault)),
    };
    let status = process.wait_exit(STOP_DEADLINE).await?;
    ensure!(status.success(), "pg_recvlogical failed: {}", process.output()?);
    let measured = measure(&samples, task.events).context("too few events to measure")?;
    Ok(Ok(Run { measured, peak_bytes: None }))
}

async fn route(
    binary: &Path,
    stage: &Stage,
    kafka: &mut Kafka,
    task: Task,
    (slot, topic): (&str, &str),
) -> anyhow::Result<Result<Run, Fault>> {
    kafka.create_topic(topic, PARTITIONS, &[]).await?;
    let bootstrap = kafka.bootstrap();
    let ends = {
        let (bootstrap, topic) = (bootstrap.clone(), topic.to_owned());
        spawn_blocking(move || Ends::of(&bootstrap, &topic)).await??
    };
    let config = stage.router_config(slot, topic, &bootstrap);
    let mut router = Router::with_config(&config)?.program(binary);
    let started = Instant::now();
    router.start_again()?;
    let cast = cast(stage, kafka, router.process()?.pid())?;
    let gauge = Gauge::Topic(ends, task.events);
    let samples = match spawn_blocking(move || watch(&gauge, cast, started)).await?? {
        Ok(samples) => samples,
        Err(fault) => return Ok(Err(format!("{fault}; its log:\n{}", router.log()))),
    };
    let peak_bytes = Some(peak_resident_bytes(cast.reader)?);
    stop(&mut router).await?;
    let confirmed = stage.postgres.slot(slot).await?.and_then(|slot| slot.confirmed_flush_lsn);
    let verdict = judge(&bootstrap, topic, task.events).await?;
    kafka.delete_topic(topic).await?;
    if confirmed < Some(task.end) {
        return Ok(Err(format!("confirmed {confirmed:?} instead of {} or later", task.end)));
    }
    if let Err(fault) = verdict {
        return Ok(Err(fault));
    }
    let measured = measure(&samples, task.events).context("too few events to measure")?;
    Ok(Ok(Run { measured, peak_bytes }))
}

/// The processes of a run of `reader`.
pub(crate) fn cast(stage: &Stage, kafka: &mut Kafka, reader: u32) -> anyhow::Result<Cast> {
    Ok(Cast {
        reader,
        postmaster: stage.postgres.process()?.pid(),
        broker: kafka.broker(1)?.process()?.pid(),
    })
}

/// Lets a router drain and end.
pub(crate) async fn stop(router: &mut Router) -> anyhow::Result<()> {
    router.sigterm()?;
    let status = router.wait_exit(STOP_DEADLINE).await?;
    ensure!(status.success(), "the router ended with {status}, log:\n{}", router.log());
    Ok(())
}

/// Reads a topic from its start and judges it.
async fn judge(bootstrap: &str, topic: &str, events: u64) -> anyhow::Result<Result<(), Fault>> {
    let (bootstrap, topic) = (bootstrap.to_owned(), topic.to_owned());
    spawn_blocking(move || {
        let mut audit = Audit::new(events, KEYS)?;
        Follower::of(&bootstrap, &topic)?.read(events, |record| {
            audit.note(record.partition(), record.key(), record.payload());
            Ok(())
        })?;
        let records = Ends::of(&bootstrap, &topic)?.records()?;
        Ok(audit.verdict(records).map_err(|faults| faults.to_string()))
    })
    .await?
}
