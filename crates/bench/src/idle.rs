//! What a router costs that has nothing to do: it is connected and streams, and nothing is written.
//!
//! The kernel's accounting by clock ticks is too coarse for a few milliseconds in a minute, so the
//! scheduler's figures are read, in nanoseconds and by thread.

use std::time::Duration;

use anyhow::Context;
use procfs::process::Process;
use serde_json::json;
use testbed::process::resident_bytes;
use tokio::time::{Instant, sleep};

use crate::bench::Bench;
use crate::figures::{float, megabytes};
use crate::pipeline::BenchPipeline;
use crate::reader::Reader;
use crate::report::{Limit, Table};
use crate::server::TuningGoal;

/// The time after which the work of starting is over.
const START_UP: Duration = Duration::from_secs(5);

/// Measures every router.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report } = bench;
    let mut table =
        Table::new(&["reader", "% of a core", "wake-ups/s", "walsender, % of a core", "RSS MB"]);
    for (reader, _) in Reader::routers(readers) {
        let pipeline = BenchPipeline::create(args, kafka, "idle", reader).await?;
        let mut running = pipeline.start(reader, TuningGoal::Throughput).await?;
        let pid = running.pid()?;
        let holder =
            pipeline.server.postgres.slot(pipeline.slot).await?.and_then(|slot| slot.active_pid);
        let walsender = u32::try_from(holder.context("nobody is connected to the slot")?)?;
        sleep(START_UP).await;
        let (began, before) = (Instant::now(), (CpuTotals::of(pid)?, CpuTotals::of(walsender)?));
        sleep(args.idle()).await;
        let (seconds, after) =
            (began.elapsed().as_secs_f64(), (CpuTotals::of(pid)?, CpuTotals::of(walsender)?));
        let resident = megabytes(resident_bytes(pid)?);
        running.stop().await?;
        pipeline.topics.delete().await?;
        let router = before.0.until(after.0, seconds);
        let walsender = before.1.until(after.1, seconds);
        table.row([
            reader.name().to_owned(),
            format!("{:.3}", router.percent),
            format!("{:.1}", router.wake_ups),
            format!("{:.3}", walsender.percent),
            format!("{resident:.1}"),
        ]);
        let line = json!({
            "reader": reader.name(), "seconds": seconds, "cpu_percent": router.percent,
            "wake_ups_per_second": router.wake_ups, "walsender_cpu_percent": walsender.percent,
            "rss_megabytes": resident,
        });
        report.record("idle", line, ())?;
        let what = format!("{}: idle CPU, % of a core", reader.name());
        report.add_target(what, Limit::AtMost(0.2), None, router.percent);
    }
    report.print(&format!("\nidle for {:?}\n{}", args.idle(), table.show()))
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
