//! What a router costs that has nothing to do: connected, streaming, and nobody writes.
//!
//! The kernel's accounting by clock ticks is too coarse for a few milliseconds in a minute: the
//! scheduler's own, in nanoseconds and by thread, is read instead.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use testbed::kafka::Kafka;
use testbed::process::resident_bytes;
use tokio::time::{Instant, sleep};

use crate::args::{Args, Mode};
use crate::figures::{float, megabytes};
use crate::reader::{Aim, Reader};
use crate::report::{Limit, Mark, Report, Table};
use crate::scene::Scene;

/// What starting leaves behind is over by then.
const SETTLING: Duration = Duration::from_secs(5);

/// Looks at every router.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut table =
        Table::new(&["reader", "% of a core", "wake-ups/s", "walsender, % of a core", "RSS MB"]);
    for reader in Reader::routers(readers) {
        let topic = format!("idle-{}", reader.slug());
        let scene = Scene::set(args.place(), kafka, "idle", &topic).await?;
        let mut running = scene.start(reader, Aim::Throughput).await?;
        let pid = running.pid()?;
        let holder = scene.stage.postgres.slot(scene.slot).await?.and_then(|slot| slot.active_pid);
        let walsender = u32::try_from(holder.context("nobody is connected to the slot")?)?;
        sleep(SETTLING).await;
        let (began, before) = (Instant::now(), [Used::of(pid)?, Used::of(walsender)?]);
        sleep(args.idle()).await;
        let (seconds, after) =
            (began.elapsed().as_secs_f64(), [Used::of(pid)?, Used::of(walsender)?]);
        let resident = megabytes(resident_bytes(pid)?);
        running.stop().await?;
        scene.topics.delete(&scene.bootstrap).await?;
        let [router, walsender] = std::array::from_fn(|at| match (before.get(at), after.get(at)) {
            (Some(before), Some(after)) => before.until(*after, seconds),
            _ => Load::default(),
        });
        table.row([
            reader.name().to_owned(),
            format!("{:.3}", router.percent),
            format!("{:.1}", router.wake_ups),
            format!("{:.3}", walsender.percent),
            format!("{resident:.1}"),
        ]);
        report.record(&json!({
            "kind": Mode::Idle.name(), "reader": reader.name(), "seconds": seconds,
            "cpu_percent": router.percent, "wake_ups_per_second": router.wake_ups,
            "walsender_cpu_percent": walsender.percent, "rss_megabytes": resident,
        }))?;
        let what = format!("{}: idle CPU, % of a core", reader.name());
        let limit = Limit::AtMost(0.2);
        report.mark(Mark { what, limit, aim: None, measured: router.percent.into() });
    }
    report.say(&format!("\nidle for {:?}\n{}", args.idle(), table.show()))
}

/// What a process has used so far, all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Used {
    nanoseconds: u64,
    wake_ups: u64,
}

/// What a process uses by the second.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    percent: f64,
    wake_ups: f64,
}

impl Used {
    fn of(pid: u32) -> anyhow::Result<Self> {
        let mut sum = Self { nanoseconds: 0, wake_ups: 0 };
        let path = format!("/proc/{pid}/task");
        for thread in std::fs::read_dir(&path).with_context(|| format!("cannot read {path}"))? {
            let thread = thread?.path();
            let read = |name: &str| std::fs::read_to_string(thread.join(name));
            // A thread may end between being listed and being asked.
            let (Ok(schedule), Ok(status)) = (read("schedstat"), read("status")) else { continue };
            sum.nanoseconds += run_time(&schedule).context("cannot understand schedstat")?;
            sum.wake_ups += waits(&status).context("cannot understand status")?;
        }
        Ok(sum)
    }

    fn until(self, later: Self, seconds: f64) -> Load {
        let per_second = |earlier: u64, later: u64| float(later.saturating_sub(earlier)) / seconds;
        Load {
            percent: per_second(self.nanoseconds, later.nanoseconds) / 1e9 * 100.0,
            wake_ups: per_second(self.wake_ups, later.wake_ups),
        }
    }
}

/// `RUN WAITED TIMES`, in nanoseconds.
fn run_time(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

/// How often a thread has slept of its own accord, and so was woken.
fn waits(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_time_on_a_cpu() {
        assert_eq!(run_time("1500 99 7\n"), Some(1500));
        assert_eq!(run_time(""), None);
    }

    #[test]
    fn only_voluntary_switches_are_wake_ups() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t99\n";
        assert_eq!(waits(status), Some(12));
    }

    #[test]
    fn half_a_second_in_ten_is_five_percent_of_a_core() {
        let before = Used { nanoseconds: 1_000_000_000, wake_ups: 10 };
        let load = before.until(Used { nanoseconds: 1_500_000_000, wake_ups: 60 }, 10.0);
        assert!((load.percent - 5.0).abs() < 1e-9);
        assert!((load.wake_ups - 5.0).abs() < 1e-9);
    }
}
