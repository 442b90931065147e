//! Memory while the broker is away and transactions keep coming, and how soon all is caught up.
//!
//! The broker is killed, not stopped, and comes back with its data. Nothing may be lost or out of
//! order; duplicates are what an interruption may cost, and are shown.

use std::time::Duration;

use rdkafka::Message as _;
use serde_json::json;
use testbed::kafka::Kafka;
use testbed::process::{peak_resident_bytes, resident_bytes};
use testbed::wait::eventually;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::args::{Args, Mode};
use crate::audit::{Audit, Faults};
use crate::figures::{float, megabytes};
use crate::memory::BOUND;
use crate::reader::{Aim, Reader};
use crate::report::{Limit, Mark, Report, Table};
use crate::scene::Scene;
use crate::shape::Reach;
use crate::topic::{Follower, Reading, Topics};
use crate::writers::Timetable;

const RATE: u64 = 5000;
/// Writing goes on for so long before the broker goes.
const BEFORE: Duration = Duration::from_secs(5);
/// How long catching up may take, beside as long as the broker was away.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a topic may stand still before it counts as read.
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
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut table = Table::new(&[
        "reader",
        "RSS MB: before",
        "at the end of the outage",
        "peak",
        "MB behind",
        "s to catch up",
        "duplicates",
    ]);
    for reader in Reader::routers(readers) {
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
        report.record(&json!({
            "kind": Mode::Outage.name(), "reader": reader.name(), "rate": RATE,
            "outage_seconds": args.outage().as_secs(), "before_rss_megabytes": before,
            "outage_rss_megabytes": during, "peak_rss_megabytes": peak,
            "megabytes_behind": figures.behind_megabytes, "catching_up_seconds": catching_up,
            "duplicates": duplicates,
        }))?;
        let what =
            format!("{}, broker away for {:?}: peak memory, MB", reader.name(), args.outage());
        let limit = Limit::AtMost(BOUND);
        report.mark(Mark { what, limit, aim: Some(25.0), measured: peak.into() });
    }
    let what = format!("broker away for {:?} under {RATE} transactions a second", args.outage());
    report.say(&format!("\noutage, {what}\n{}", table.show()))
}

async fn one(args: &Args, reader: &Reader, kafka: &mut Kafka) -> anyhow::Result<Figures> {
    let topic = format!("outage-{}", reader.slug());
    let scene = Scene::set(args.place(), kafka, "outage", &topic).await?;
    let Scene { stage, topics, bootstrap, slot, .. } = &scene;
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
    let faults = judge(bootstrap, topics, timetable.events).await?;
    topics.delete(bootstrap).await?;
    Ok(Figures {
        resident: [before, during, peak].map(megabytes),
        behind_megabytes: float(behind) / 1e6,
        catching_up,
        faults,
    })
}

/// Reads the topic to its end: what is doubled lies between, so no count tells when to stop.
async fn judge(bootstrap: &str, topics: &Topics, events: u64) -> anyhow::Result<Faults> {
    let (bootstrap, topics) = (bootstrap.to_owned(), topics.clone());
    spawn_blocking(move || {
        let mut audit = Audit::new(events, Reach::default())?;
        let mut records = 0;
        Follower::of(&bootstrap, &topics)?.read_until(SILENCE, |record| {
            audit.note(Some(record.partition()), record.key(), record.payload());
            records += 1;
            Ok(Reading::GoesOn)
        })?;
        Ok(audit.verdict(records).err().unwrap_or_default())
    })
    .await?
}
