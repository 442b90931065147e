//! How soon a waiting row arrives: with a router that is started, and with a standby whose holder
//! is killed.
//!
//! The row of a start is committed before the start. The row of a takeover is committed only when
//! the holder is gone, so only the standby can have delivered it. The clock starts just before the
//! kill.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rdkafka::Message as _;
use serde_json::json;
use testbed::router::RouterProcess;
use tokio::time::Instant;

use crate::audit::member;
use crate::bench::Bench;
use crate::figures::{Spread, millis};
use crate::pipeline::BenchPipeline;
use crate::reader::{Reader, stop};
use crate::report::Table;
use crate::targets::{Limit, Target};
use crate::topic::{ReadNext, TopicReader, blocking};
use crate::yardstick::Needs;

const NO_PROGRESS_MAX: Duration = Duration::from_secs(60);

/// Starts every router once per run, after one start that is not counted.
pub(crate) async fn starts(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    let mut table = Table::new(&["reader", "start to first record, ms: min median max"]);
    for (reader, binary) in Reader::routers(readers) {
        let pipeline = BenchPipeline::create(args, kafka, "start", reader).await?;
        let mut router = configured(&pipeline, binary)?;
        let mut times = Vec::new();
        for turn in 0..=args.runs {
            let time = start(&pipeline, &mut router, turn).await?;
            let line = json!({ "reader": reader.name(), "run": turn, "warm_up": turn == 0 });
            report.record("start", line, json!({ "first_ms": time }))?;
            times.extend((turn > 0).then_some(time));
        }
        pipeline.server.drop_slot(pipeline.slot).await?;
        let spread = Spread::of(times).context("no runs")?;
        table.row([reader.name().to_owned(), spread.show(1.0)]);
        let what = format!("{}: start to first record, ms", reader.name());
        let target = Target::new(what, Limit::AtMost(500.0), spread).aim(200.0);
        report.add_target(target.needs(Needs::FastMachine));
    }
    report.print(&format!("\nstart\n{}", table.show()))
}

/// Milliseconds from a router's start until a row arrives that waits for it. Stops the router.
pub(crate) async fn start(
    pipeline: &BenchPipeline,
    router: &mut RouterProcess,
    turn: u32,
) -> anyhow::Result<f64> {
    let session = pipeline.server.postgres.connect().await?;
    session.execute(&pipeline.server.insert_row(turn), &[]).await?;
    let topic = pipeline.topics.read_to_end_and_follow().await?;
    let started = Instant::now();
    router.start_again()?;
    let time = arrival(topic, turn, started).await;
    let time = time.with_context(|| format!("log:\n{}", router.log()))?;
    stop(router).await?;
    Ok(time)
}

/// Kills a holder once per run, after one kill that is not counted.
pub(crate) async fn takeovers(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    let mut table =
        Table::new(&["reader", "kill to first record of the standby, ms: min median max"]);
    for (reader, binary) in Reader::routers(readers) {
        let pipeline = BenchPipeline::create(args, kafka, "takeover", reader).await?;
        let (mut holder, mut standby) =
            (configured(&pipeline, binary)?, configured(&pipeline, binary)?);
        holder.start_again()?;
        holder.wait_state("streaming", NO_PROGRESS_MAX).await?;
        let mut times = Vec::new();
        for turn in 1..=args.runs {
            standby.start_again()?;
            standby.wait_state("standby", NO_PROGRESS_MAX).await?;
            let session = pipeline.server.postgres.connect().await?;
            let insert = session.prepare(&pipeline.server.insert_row(turn)).await?;
            let topic = pipeline.topics.read_to_end_and_follow().await?;
            let killed = Instant::now();
            holder.kill9().await?;
            session.execute(&insert, &[]).await?;
            let time = arrival(topic, turn, killed).await;
            let time = time.with_context(|| format!("log of the standby:\n{}", standby.log()))?;
            let line = json!({ "reader": reader.name(), "run": turn });
            report.record("takeover", line, json!({ "first_ms": time }))?;
            times.push(time);
            std::mem::swap(&mut holder, &mut standby);
        }
        stop(&mut holder).await?;
        pipeline.topics.delete().await?;
        let spread = Spread::of(times).context("no runs")?;
        table.row([reader.name().to_owned(), spread.show(1.0)]);
        // The worst run counts: a user may have to wait that long.
        let what = format!("{}: takeover after kill -9, ms", reader.name());
        let target = Target::new(what, Limit::AtMost(2000.0), spread.max).aim(500.0);
        report.add_target(target.needs(Needs::FastMachine));
    }
    report.print(&format!("\ntakeover by a standby\n{}", table.show()))
}

/// A router that is not started yet.
pub(crate) fn configured(pipeline: &BenchPipeline, binary: &Path) -> anyhow::Result<RouterProcess> {
    Ok(RouterProcess::with_config(&pipeline.router_config())?.program(binary))
}

/// Milliseconds from `since` until row `turn` arrives. Rows of earlier turns are read and skipped,
/// so that this row is received as soon as it is in Kafka.
async fn arrival(topic: TopicReader, turn: u32, since: Instant) -> anyhow::Result<f64> {
    blocking(move || {
        let mut arrived = None;
        topic.read_until(NO_PROGRESS_MAX, |record| {
            let seq = record.payload().and_then(|payload| member(payload, b"\"seq\": "));
            if seq != Some(u64::from(turn)) {
                return Ok(ReadNext::Continue);
            }
            arrived = Some(millis(since.elapsed()));
            Ok(ReadNext::Stop)
        })?;
        arrived.context("the row did not arrive")
    })
    .await
}
