//! What a router costs that has nothing to do: it is connected and streams, and nothing is written.
//!
//! The kernel's accounting by clock ticks is too coarse for a few milliseconds in a minute, so the
//! scheduler's figures are read, in nanoseconds and by thread.

use std::{path::Path, time::Duration};

use anyhow::{Context, ensure};
use procfs::process::Process;
use serde_json::json;
use testbed::kafka::KafkaCluster;
use testbed::process::resident_bytes;
use testbed::router::RouterProcess;
use tokio::time::{Instant, sleep};

use crate::args::Args;
use crate::bench::Bench;
use crate::figures::{float, megabytes};
use crate::held::table::server_with_table;
use crate::pipeline::BenchPipeline;
use crate::reader::Reader;
use crate::report::Table;
use crate::shape::Distribution;
use crate::targets::{Limit, Target};
use crate::yardstick::Needs;

/// The time after which the work of starting is over.
const START_UP: Duration = Duration::from_secs(5);
const STREAMING_DEADLINE: Duration = Duration::from_secs(30);

/// How often Prometheus asks.
const SCRAPE_EVERY: Duration = Duration::from_secs(15);

/// Rows are kept for an hour, so none is old enough to be deleted.
const RETENTION: &str =
    "[retention]\nmode = \"delete\"\nkeep = \"1h\"\ntime_column = \"created_at\"\n";

/// What the router is configured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// Stream, witness and monitor.
    Usual,
    /// Dead letters, retention and a scrape every 15 s as well.
    All,
}

/// Measures every router.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    let columns =
        ["reader", "parts", "% of a core", "wake-ups/s", "walsender, % of a core", "RSS MB"];
    let mut table = Table::new(&columns);
    for (reader, binary) in Reader::routers(readers) {
        for (parts, name) in [(Parts::Usual, "usual"), (Parts::All, "all")] {
            let pipeline = prepare(args, kafka, (reader, binary), parts).await?;
            let mut router = start(&pipeline, binary, parts).await?;
            let pid = router.process()?.pid();
            let holder = pipeline.server.postgres.slot(pipeline.slot).await?;
            let holder = holder.and_then(|slot| slot.active_pid);
            let walsender = u32::try_from(holder.context("nobody is connected to the slot")?)?;
            sleep(START_UP).await;
            let (began, before) =
                (Instant::now(), (CpuTotals::of(pid)?, CpuTotals::of(walsender)?));
            while let Some(left) = args.idle().checked_sub(began.elapsed()) {
                sleep(left.min(SCRAPE_EVERY)).await;
                if parts == Parts::All {
                    router.get("/metrics").await?;
                }
            }
            let (seconds, after) =
                (began.elapsed().as_secs_f64(), (CpuTotals::of(pid)?, CpuTotals::of(walsender)?));
            let resident = megabytes(resident_bytes(pid)?);
            router.kill9().await?;
            pipeline.topics.delete().await?;
            let used = before.0.until(after.0, seconds);
            let walsender = before.1.until(after.1, seconds);
            table.row([
                reader.name().to_owned(),
                name.to_owned(),
                format!("{:.3}", used.percent),
                format!("{:.1}", used.wake_ups),
                format!("{:.3}", walsender.percent),
                format!("{resident:.1}"),
            ]);
            let line = json!({
                "reader": reader.name(), "parts": name, "seconds": seconds,
                "cpu_percent": used.percent, "wake_ups_per_second": used.wake_ups,
                "walsender_cpu_percent": walsender.percent, "rss_megabytes": resident,
            });
            report.record("idle", line, ())?;
            let what = format!("{}, {name} parts: idle CPU, % of a core", reader.name());
            let target = Target::new(what, Limit::AtMost(0.2), used.percent);
            report.add_target(target.needs(Needs::QuietMachine));
        }
    }
    report.print(&format!("\nidle for {:?}\n{}", args.idle(), table.show()))
}

async fn prepare(
    args: &Args,
    kafka: &KafkaCluster,
    (reader, binary): (&Reader, &Path),
    parts: Parts,
) -> anyhow::Result<BenchPipeline> {
    if parts == Parts::Usual {
        return BenchPipeline::create(args, kafka, "idle", reader).await;
    }
    let server = server_with_table(args.version(), Distribution::default(), binary).await?;
    let time = format!("CREATE INDEX ON {} (created_at)", server.table());
    server.session.batch_execute(&time).await?;
    let topic = format!("idle-all-{}", reader.slug());
    BenchPipeline::on(server, args, kafka, ("idle", &topic)).await
}

/// Starts a router whose beginning is accepted, without which nothing would be removed.
async fn start(
    pipeline: &BenchPipeline,
    binary: &Path,
    parts: Parts,
) -> anyhow::Result<RouterProcess> {
    let config = match parts {
        Parts::Usual => pipeline.router_config(),
        Parts::All => format!("{}\n{RETENTION}", pipeline.router_config()),
    };
    let mut router = RouterProcess::with_config(&config)?.program(binary);
    router.start_again()?;
    router.wait_state("streaming", STREAMING_DEADLINE).await?;
    if parts == Parts::All {
        let accepted = router.command(&["accept", "--yes"]).await?;
        let told = [&accepted.stdout, &accepted.stderr].map(|it| String::from_utf8_lossy(it));
        ensure!(accepted.status.success(), "the beginning cannot be accepted: {}", told.concat());
    }
    Ok(router)
}

/// What all threads of a process have used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTotals {
    nanoseconds: u64,
    wake_ups: u64,
}

/// What a process uses per second.
#[derive(Debug, Clone, Copy)]
struct CpuRates {
    percent: f64,
    wake_ups: f64,
}

impl CpuTotals {
    fn of(pid: u32) -> anyhow::Result<Self> {
        let mut sum = Self { nanoseconds: 0, wake_ups: 0 };
        for thread in Process::new(i32::try_from(pid)?)?.tasks()? {
            let thread = thread?;
            // A thread may end between being listed and being read.
            let (Ok(schedule), Ok(status)) = (thread.schedstat(), thread.status()) else {
                continue;
            };
            sum.nanoseconds += schedule.sum_exec_runtime;
            // Each voluntary context switch is followed by a wake-up.
            sum.wake_ups +=
                status.voluntary_ctxt_switches.context("the kernel counts no switches")?;
        }
        Ok(sum)
    }

    fn until(self, later: Self, seconds: f64) -> CpuRates {
        let per_second = |earlier: u64, later: u64| float(later.saturating_sub(earlier)) / seconds;
        CpuRates {
            percent: per_second(self.nanoseconds, later.nanoseconds) / 1e9 * 100.0,
            wake_ups: per_second(self.wake_ups, later.wake_ups),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_second_of_cpu_time_in_ten_seconds_is_five_percent_of_a_core() {
        let before = CpuTotals { nanoseconds: 1_000_000_000, wake_ups: 10 };
        let load = before.until(CpuTotals { nanoseconds: 1_500_000_000, wake_ups: 60 }, 10.0);
        assert!((load.percent - 5.0).abs() < 1e-9);
        assert!((load.wake_ups - 5.0).abs() < 1e-9);
    }
}
