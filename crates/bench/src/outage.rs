//! Memory while the broker is down and transactions keep coming, and how long catching up takes.
//!
//! The broker is killed, not stopped, and comes back with its data. Nothing may be lost or out of
//! order. Duplicates are allowed after an interruption, and are shown.

use std::time::Duration;

use rdkafka::Message as _;
use serde_json::json;
use testbed::kafka::KafkaCluster;
use testbed::process::{peak_resident_bytes, resident_bytes};
use testbed::wait::eventually;
use tokio::time::{Instant, sleep};

use crate::args::Args;
use crate::audit::{AnomalyCounts, Audit};
use crate::bench::Bench;
use crate::figures::{float, megabytes};
use crate::memory::BOUND;
use crate::pipeline::BenchPipeline;
use crate::reader::Reader;
use crate::report::Table;
use crate::server::TuningGoal;
use crate::shape::Distribution;
use crate::targets::{Limit, Target};
use crate::topic::{ReadNext, RunTopics, blocking};
use crate::writers::Timetable;

const RATE: u64 = 5000;
/// How long writing goes on before the broker is killed.
const BEFORE: Duration = Duration::from_secs(5);
/// How long catching up may take, in addition to the length of the outage.
const NO_PROGRESS_MAX: Duration = Duration::from_mins(2);
/// How long a topic may receive nothing before it counts as read.
const SILENCE: Duration = Duration::from_secs(5);

struct OutageFigures {
    /// Resident memory before the outage, at its end, and at its highest.
    resident: [f64; 3],
    behind_megabytes: f64,
    /// From the broker's return until everything was confirmed.
    catching_up: Duration,
    anomalies: AnomalyCounts,
}

/// Measures every router.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    let mut table = Table::new(&[
        "reader",
        "RSS MB: before",
        "at the end of the outage",
        "peak",
        "MB behind",
        "s to catch up",
        "duplicates",
    ]);
    for (reader, _) in Reader::routers(readers) {
        let figures = measure_router(args, reader, kafka).await?;
        let AnomalyCounts { duplicates, .. } = figures.anomalies;
        if figures.anomalies != (AnomalyCounts { duplicates, ..AnomalyCounts::default() }) {
            report.anomaly(format!("outage, {}: {}", reader.name(), figures.anomalies))?;
            continue;
        }
        let [before, during, peak] = figures.resident;
        let catching_up = figures.catching_up.as_secs_f64();
        table.row([
            reader.name().to_owned(),
            format!("{before:.1}"),
            format!("{during:.1}"),
            format!("{peak:.1}"),
            format!("{:.0}", figures.behind_megabytes),
            format!("{catching_up:.1}"),
            duplicates.to_string(),
        ]);
        let line = json!({
            "reader": reader.name(), "rate": RATE, "outage_seconds": args.outage().as_secs(),
            "before_rss_megabytes": before, "outage_rss_megabytes": during,
            "peak_rss_megabytes": peak, "megabytes_behind": figures.behind_megabytes,
            "catching_up_seconds": catching_up, "duplicates": duplicates,
        });
        report.record("outage", line, ())?;
        let what =
            format!("{}, broker down for {:?}: peak memory, MB", reader.name(), args.outage());
        report.add_target(Target::new(what, Limit::AtMost(BOUND), peak).aim(25.0));
    }
    let what = format!("broker down for {:?} at {RATE} transactions a second", args.outage());
    report.print(&format!("\noutage, {what}\n{}", table.show()))
}

async fn measure_router(
    args: &Args,
    reader: &Reader,
    kafka: &mut KafkaCluster,
) -> anyhow::Result<OutageFigures> {
    let pipeline = BenchPipeline::create(args, kafka, "outage", reader).await?;
    let BenchPipeline { server, topics, slot, .. } = &pipeline;
    let mut running = pipeline.start(reader, TuningGoal::Throughput).await?;
    let pid = running.pid()?;
    let timetable = Timetable::lasting(RATE, BEFORE + args.outage());
    let writing = pipeline.write(&timetable);
    sleep(BEFORE).await;
    let before = resident_bytes(pid)?;
    kafka.kill9().await?;
    writing.await??;
    let during = resident_bytes(pid)?;
    let end = server.postgres.current_wal_lsn().await?;
    let behind = u64::from(end).saturating_sub(server.postgres.confirmed(slot).await?.into());
    kafka.start_again().await?;
    let back = Instant::now();
    eventually(NO_PROGRESS_MAX + args.outage(), "everything to be confirmed", async || {
        Ok((server.postgres.confirmed(slot).await? >= end).then_some(()))
    })
    .await?;
    let catching_up = back.elapsed();
    let peak = peak_resident_bytes(pid)?;
    running.stop().await?;
    let anomalies = check_delivery(topics, timetable.events).await?;
    topics.delete().await?;
    Ok(OutageFigures {
        resident: [before, during, peak].map(megabytes),
        behind_megabytes: float(behind) / 1e6,
        catching_up,
        anomalies,
    })
}

/// Reads the topic to its end. Duplicates lie in between, so no count tells when to stop.
async fn check_delivery(topics: &RunTopics, events: u64) -> anyhow::Result<AnomalyCounts> {
    let topics = topics.clone();
    blocking(move || {
        let mut audit = Audit::new(events, Distribution::default())?;
        let mut records = 0;
        topics.follow()?.read_until(SILENCE, |record| {
            audit.note(Some(record.partition()), record.key(), record.payload());
            records += 1;
            Ok(ReadNext::Continue)
        })?;
        Ok(audit.result(records).err().unwrap_or_default())
    })
    .await
}
