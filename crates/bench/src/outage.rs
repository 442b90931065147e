//! Memory while the broker is down and transactions keep coming, and how long catching up takes.
//!
//! The broker is killed, not stopped, and comes back with its data. Nothing may be lost or out of
//! order. Duplicates are allowed after an interruption, and are shown.

use std::time::Duration;

use rdkafka::Message as _;
use serde_json::json;
use testbed::kafka::Kafka;
use testbed::process::{peak_resident_bytes, resident_bytes};
use testbed::wait::eventually;
use tokio::time::{Instant, sleep};

use crate::args::Args;
use crate::audit::{Audit, Faults};
use crate::bench::Bench;
use crate::figures::{float, megabytes};
use crate::memory::BOUND;
use crate::reader::Reader;
use crate::report::{Limit, Table};
use crate::scene::Scene;
use crate::shape::Reach;
use crate::stage::Aim;
use crate::topic::{Reading, Topics, blocking};
use crate::writers::Timetable;

const RATE: u64 = 5000;
/// How long writing goes on before the broker is killed.
const BEFORE: Duration = Duration::from_secs(5);
/// How long catching up may take, in addition to the length of the outage.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a topic may receive nothing before it counts as read.
const SILENCE: Duration = Duration::from_secs(5);

struct Figures {
    /// Resident memory before the outage, at its end, and at its highest.
    resident: [f64; 3],
    behind_megabytes: f64,
    /// From the broker's return until everything was confirmed.
    catching_up: Duration,
    faults: Faults,
}

/// Measures every router.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report } = bench;
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
        let figures = one(args, reader, kafka).await?;
        let Faults { duplicates, .. } = figures.faults;
        if figures.faults != (Faults { duplicates, ..Faults::default() }) {
            report.fault(format!("outage, {}: {}", reader.name(), figures.faults))?;
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
            format!("{}, broker away for {:?}: peak memory, MB", reader.name(), args.outage());
        report.mark(what, Limit::AtMost(BOUND), Some(25.0), peak);
    }
    let what = format!("broker away for {:?} under {RATE} transactions a second", args.outage());
    report.say(&format!("\noutage, {what}\n{}", table.show()))
}

async fn one(args: &Args, reader: &Reader, kafka: &mut Kafka) -> anyhow::Result<Figures> {
    let scene = Scene::set(args, kafka, "outage", reader).await?;
    let Scene { stage, topics, slot, .. } = &scene;
    let mut running = scene.start(reader, Aim::Throughput).await?;
    let pid = running.pid()?;
    let timetable = Timetable::lasting(RATE, BEFORE + args.outage());
    let writing = scene.write(&timetable);
    sleep(BEFORE).await;
    let before = resident_bytes(pid)?;
    kafka.kill9().await?;
    writing.await??;
    let during = resident_bytes(pid)?;
    let end = stage.postgres.current_wal_lsn().await?;
    let behind = u64::from(end).saturating_sub(stage.confirmed(slot).await?.into());
    kafka.start_again().await?;
    let back = Instant::now();
    eventually(PATIENCE + args.outage(), "everything to be confirmed", async || {
        Ok((stage.confirmed(slot).await? >= end).then_some(()))
    })
    .await?;
    let catching_up = back.elapsed();
    let peak = peak_resident_bytes(pid)?;
    running.stop().await?;
    let faults = judge(topics, timetable.events).await?;
    topics.delete().await?;
    Ok(Figures {
        resident: [before, during, peak].map(megabytes),
        behind_megabytes: float(behind) / 1e6,
        catching_up,
        faults,
    })
}

/// Reads the topic to its end. Duplicates lie in between, so no count tells when to stop.
async fn judge(topics: &Topics, events: u64) -> anyhow::Result<Faults> {
    let topics = topics.clone();
    blocking(move || {
        let mut audit = Audit::new(events, Reach::default())?;
        let mut records = 0;
        topics.follow()?.read_until(SILENCE, |record| {
            audit.note(Some(record.partition()), record.key(), record.payload());
            records += 1;
            Ok(Reading::GoesOn)
        })?;
        Ok(audit.verdict(records).err().unwrap_or_default())
    })
    .await
}
