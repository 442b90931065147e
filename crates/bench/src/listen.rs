//! A consumer that takes the time of every record, and the CPU time that the processes use
//! meanwhile.

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use rdkafka::Message as _;
use serde::Serialize;
use testbed::process::peak_resident_bytes;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use crate::audit::{Audit, member};
use crate::figures::{float, megabytes};
use crate::shape::Distribution;
use crate::throughput::Cpu;
use crate::topic::{RunTopics, TopicReader};
use crate::watch::{CpuMeter, MeasuredProcesses};
use crate::writers::Timetable;

/// What the consumer measured at one rate.
pub(crate) struct LatencySamples {
    /// Nanoseconds, without the warm-up.
    pub(crate) latency: Histogram<u64>,
    pub(crate) audit: Audit,
    /// `None` if no process was measured.
    pub(crate) cost: Option<DeliveryCost>,
}

/// The cost of delivery, without the warm-up.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct DeliveryCost {
    #[serde(flatten)]
    pub(crate) cpu: Cpu,
    /// Cores that other processes kept busy meanwhile.
    pub(crate) others_cores: f64,
    #[serde(rename = "peak_rss_megabytes")]
    pub(crate) peak: f64,
}

/// Begins to consume, and returns when whatever is written next will be received at once.
pub(crate) async fn consume(
    topics: &RunTopics,
    timetable: &Timetable,
    processes: Option<MeasuredProcesses>,
) -> anyhow::Result<JoinHandle<anyhow::Result<LatencySamples>>> {
    let (topic, timetable) = (topics.read_to_end_and_follow().await?, timetable.clone());
    Ok(spawn_blocking(move || follow(&topic, &timetable, processes)))
}

fn follow(
    topic: &TopicReader,
    timetable: &Timetable,
    processes: Option<MeasuredProcesses>,
) -> anyhow::Result<LatencySamples> {
    let warm_up = timetable.rate * timetable.warm_up.as_secs();
    let reader = processes.as_ref().map(|processes| processes.reader);
    let mut meter = processes.map(CpuMeter::new);
    let mut read_meter = || meter.as_mut().map_or(Ok(Cpu::default()), CpuMeter::read);
    let mut latency = Histogram::new(3)?;
    let mut audit = Audit::new(timetable.events, Distribution::default())?;
    let (mut count, mut before, mut began) = (0, Cpu::default(), timetable.epoch);
    topic.read(timetable.delivered(), |record| {
        let now = timetable.epoch.elapsed();
        audit.note(Some(record.partition()), record.key(), record.payload());
        let payload = record.payload().context("a record without a value")?;
        let of = |name: &[u8]| member(payload, name).context("a record of another program");
        if of(b"\"seq\": ")? >= warm_up {
            latency.record(u64::try_from(now.as_nanos())?.saturating_sub(of(b"\"sent\": ")?))?;
        }
        count += 1;
        if count == warm_up {
            (before, began) = (read_meter()?, Instant::now());
        }
        Ok(())
    })?;
    let used = before.until(read_meter()?);
    let cost = |pid| -> anyhow::Result<DeliveryCost> {
        Ok(DeliveryCost {
            cpu: used.per_event(float(timetable.events - warm_up)),
            others_cores: used.others / began.elapsed().as_secs_f64(),
            peak: megabytes(peak_resident_bytes(pid)?),
        })
    };
    ensure!(!latency.is_empty(), "no record arrived after the warm-up");
    Ok(LatencySamples { latency, audit, cost: reader.map(cost).transpose()? })
}
