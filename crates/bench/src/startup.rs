//! From the start of the process to the first record that a consumer gets, with one row waiting.

use anyhow::Context;
use serde_json::json;
use testbed::kafka::Kafka;
use testbed::router::Router;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::args::{Args, Mode};
use crate::figures::{Spread, millis};
use crate::reader::{Aim, Reader, stop};
use crate::report::{Limit, Mark, Report, Table};
use crate::scene::Scene;
use crate::topic::Follower;

/// Starts every router as often as there are runs, and once before.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut table = Table::new(&["reader", "start to first record, ms: min median max"]);
    for reader in readers {
        let Reader::Router { name, binary } = reader else { continue };
        let topic = format!("start-{}", reader.slug());
        let scene = Scene::set(args.place(), kafka, "start", &topic).await?;
        let config = scene.stage.router_config(scene.way(Aim::Throughput));
        let mut router = Router::with_config(&config)?.program(binary);
        let mut times = Vec::new();
        for turn in 0..=args.runs {
            let time = start_once(&scene, &mut router, turn).await?;
            report.record(&json!({ "kind": Mode::Start.name(), "reader": name, "run": turn,
                "warm_up": turn == 0, "first_ms": time }))?;
            if turn > 0 {
                times.push(time);
            }
        }
        scene.stage.drop_slot(scene.slot).await?;
        let spread = Spread::of(times).context("no runs")?;
        table.row([name.clone(), spread.show(1.0)]);
        let what = format!("{name}: start to first record, ms");
        let limit = Limit::AtMost(500.0);
        report.mark(Mark { what, limit, aim: Some(200.0), measured: spread });
    }
    report.say(&format!("\nstart\n{}", table.show()))
}

/// Milliseconds from the start to the arrival of the row written before it.
async fn start_once(scene: &Scene, router: &mut Router, turn: u32) -> anyhow::Result<f64> {
    let session = scene.stage.postgres.connect().await?;
    session.execute(&scene.stage.insert_row(turn), &[]).await?;
    let (bootstrap, topics) = (scene.bootstrap.clone(), scene.topics.clone());
    let before = u64::from(turn);
    // Those of earlier turns are read first, so that the new one is received the moment it is there.
    let follower = spawn_blocking(move || -> anyhow::Result<Follower> {
        let follower = Follower::of(&bootstrap, &topics)?;
        follower.read(before, |_| Ok(()))?;
        follower.settle()?;
        Ok(follower)
    })
    .await??;
    let started = Instant::now();
    router.start_again()?;
    let arrived = spawn_blocking(move || -> anyhow::Result<Option<f64>> {
        let mut arrived = None;
        follower.read(1, |_| {
            arrived = Some(millis(started.elapsed()));
            Ok(())
        })?;
        Ok(arrived)
    })
    .await??;
    let arrived =
        arrived.with_context(|| format!("the row never arrived, log:\n{}", router.log()))?;
    stop(router).await?;
    Ok(arrived)
}
