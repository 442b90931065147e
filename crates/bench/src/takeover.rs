//! From the death of the holder to a record of its standby: two routers on one slot, and the one that
//! holds it is killed.
//!
//! The row whose arrival stops the clock is committed only when the holder is gone, so nobody but the
//! standby can have delivered it. The clock runs from just before the kill.

use std::time::Duration;

use anyhow::Context;
use rdkafka::Message as _;
use serde_json::json;
use testbed::kafka::Kafka;
use testbed::router::Router;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::args::{Args, Mode};
use crate::audit::member;
use crate::figures::{Spread, millis};
use crate::reader::{Aim, Reader, stop};
use crate::report::{Limit, Mark, Report, Table};
use crate::scene::Scene;
use crate::topic::{Follower, Reading};

const PATIENCE: Duration = Duration::from_secs(60);

/// Kills a holder as often as there are runs.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut table =
        Table::new(&["reader", "kill to first record of the standby, ms: min median max"]);
    for reader in Reader::routers(readers) {
        let Reader::Router { name, binary } = reader else { continue };
        let topic = format!("takeover-{}", reader.slug());
        let scene = Scene::set(args.place(), kafka, "takeover", &topic).await?;
        let config = scene.stage.router_config(scene.way(Aim::Throughput));
        let mut holder = Router::with_config(&config)?.program(binary);
        let mut standby = Router::with_config(&config)?.program(binary);
        holder.start_again()?;
        holder.wait_state("streaming", PATIENCE).await?;
        let mut times = Vec::new();
        for turn in 1..=args.runs {
            standby.start_again()?;
            standby.wait_state("standby", PATIENCE).await?;
            let time = take_over(&scene, &mut holder, turn).await;
            let time = time.with_context(|| format!("log of the standby:\n{}", standby.log()))?;
            report.record(&json!({
                "kind": Mode::Takeover.name(), "reader": name, "run": turn, "first_ms": time,
            }))?;
            times.push(time);
            std::mem::swap(&mut holder, &mut standby);
        }
        stop(&mut holder).await?;
        scene.topics.delete(&scene.bootstrap).await?;
        let spread = Spread::of(times).context("no runs")?;
        table.row([name.clone(), spread.show(1.0)]);
        // The worst is what somebody waits for.
        let what = format!("{name}: takeover after kill -9, ms");
        let limit = Limit::AtMost(2000.0);
        report.mark(Mark { what, limit, aim: Some(500.0), measured: spread.max.into() });
    }
    report.say(&format!("\ntakeover by a standby\n{}", table.show()))
}

/// Milliseconds from the kill to the arrival of the row written right after it.
async fn take_over(scene: &Scene, holder: &mut Router, turn: u32) -> anyhow::Result<f64> {
    let session = scene.stage.postgres.connect().await?;
    let insert = session.prepare(&scene.stage.insert_row(turn)).await?;
    let follower = {
        let (bootstrap, topics) = (scene.bootstrap.clone(), scene.topics.clone());
        spawn_blocking(move || -> anyhow::Result<Follower> {
            let follower = Follower::of(&bootstrap, &topics)?;
            // Those of earlier turns are read first, so that the new one is received the moment it is there.
            follower.read_until(Duration::from_secs(1), |_| Ok(Reading::GoesOn))?;
            Ok(follower)
        })
        .await??
    };
    let killed = Instant::now();
    holder.kill9().await?;
    session.execute(&insert, &[]).await?;
    let arrived = spawn_blocking(move || -> anyhow::Result<Option<f64>> {
        let mut arrived = None;
        follower.read_until(PATIENCE, |record| {
            let seq = record.payload().and_then(|payload| member(payload, b"\"seq\": "));
            if seq != Some(u64::from(turn)) {
                return Ok(Reading::GoesOn);
            }
            arrived = Some(millis(killed.elapsed()));
            Ok(Reading::IsDone)
        })?;
        Ok(arrived)
    })
    .await??;
    arrived.context("the row never arrived")
}
