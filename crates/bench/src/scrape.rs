//! How long a scrape of `/metrics` takes when as many topics are shown one by one as can be, and
//! what it costs the router.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use testbed::process::cpu_time;
use testbed::router::RouterProcess;
use testbed::wait::eventually;
use tokio::time::{Instant, sleep};

use crate::bench::Bench;
use crate::figures::{Spread, float, millis};
use crate::pipeline::BenchPipeline;
use crate::reader::Reader;
use crate::report::Table;
use crate::server::BenchServer;
use crate::shape::{Distribution, Shape};
use crate::targets::{Limit, Target};
use crate::yardstick::Needs;

const TOPICS: u64 = 100;
const EVENTS: u64 = 20_000;
const SCRAPES: u32 = 500;
const DEADLINE: Duration = Duration::from_secs(60);

/// Measures every router.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    let columns = ["reader", "ms: min median max", "CPU ms", "KiB"];
    let mut table = Table::new(&columns);
    for (reader, binary) in Reader::routers(readers) {
        let distribution = Distribution { topics: TOPICS, ..Distribution::default() };
        let server = BenchServer::start(args.version(), distribution).await?;
        server.write_backlog(Shape::BATCHED, EVENTS).await?;
        let topic = format!("scrape-{}", reader.slug());
        let pipeline = BenchPipeline::on(server, args, kafka, ("scrape", &topic)).await?;
        let mut router = RouterProcess::with_config(&pipeline.router_config())?.program(binary);
        router.start_again()?;
        eventually(DEADLINE, "the events to be acknowledged", async || {
            let page = router.get("/metrics").await;
            Ok(page.is_ok_and(|page| acked(&page.body) >= EVENTS).then_some(()))
        })
        .await?;
        let pid = router.process()?.pid();
        let (before, mut times, mut bytes) = (cpu_time(pid)?, Vec::new(), 0);
        for _ in 0..SCRAPES {
            let begun = Instant::now();
            let page = router.get("/metrics").await?;
            times.push(millis(begun.elapsed()));
            bytes = page.body.len();
            ensure!(page.body.matches("_total{").count() > 100, "a hundred topics are shown");
            // Scrapes that follow each other at once would find everything in the caches.
            sleep(Duration::from_millis(10)).await;
        }
        let cpu = millis(cpu_time(pid)?.saturating_sub(before)) / f64::from(SCRAPES);
        router.kill9().await?;
        pipeline.topics.delete().await?;
        let Some(spread) = Spread::of(times.iter().copied()) else { continue };
        let kibibytes = float(u64::try_from(bytes)?) / 1024.0;
        table.row([
            reader.name().to_owned(),
            spread.show_fine(),
            format!("{cpu:.2}"),
            format!("{kibibytes:.0}"),
        ]);
        let line = json!({ "reader": reader.name(), "topics": TOPICS, "scrapes": SCRAPES,
            "median_ms": spread.median, "max_ms": spread.max, "cpu_ms": cpu, "bytes": bytes });
        report.record("scrape", line, ())?;
        let what = format!("{}: scrape of {TOPICS} topics, median ms", reader.name());
        let target = Target::new(what, Limit::AtMost(5.0), spread.median);
        report.add_target(target.needs(Needs::FastMachine));
    }
    report.print(&format!("\n{SCRAPES} scrapes of {TOPICS} topics\n{}", table.show()))
}

/// The events of all topics together.
fn acked(page: &str) -> u64 {
    let lines = page.lines().filter(|line| line.starts_with("outbox_events_total{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_summed_over_topics() {
        let page = "# TYPE outbox_events_total counter\n\
            outbox_events_total{topic=\"a\",result=\"acked\"} 3\n\
            outbox_events_total{topic=\"_other\",result=\"acked\"} 4\noutbox_leader{} 1\n";
        assert_eq!(acked(page), 7);
    }
}
