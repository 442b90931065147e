//! The machine that the figures were taken on, and the load that other processes put on it.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use procfs::{CpuInfo, Current as _, CurrentSI as _, KernelStats, LoadAverage, Meminfo};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use testbed::process::cpu_time;
use tokio::process::Command;

/// Cores that other processes may keep busy before a run counts as disturbed.
pub(crate) const OTHER_CORES_MAX: f64 = 0.1;

/// Hardware and kernel.
#[derive(Debug, Serialize)]
pub(crate) struct MachineInfo {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    /// TCP congestion control, which decides how many messages a walsender may send one by one
    /// before it has to gather them.
    pub(crate) congestion_control: String,
    pub(crate) load_average: f64,
}

impl MachineInfo {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let cpu = CpuInfo::current()?;
        Ok(Self {
            cpu: cpu.model_name(0).context("the kernel does not name the CPU")?.to_owned(),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: Meminfo::current()?.mem_total.div_ceil(1024 * 1024 * 1024),
            kernel: setting("kernel/osrelease")?,
            congestion_control: setting("net/ipv4/tcp_congestion_control")?,
            load_average: LoadAverage::current()?.one.into(),
        })
    }
}

fn setting(name: &str) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(Path::new("/proc/sys").join(name));
    Ok(text.with_context(|| format!("cannot read the kernel's {name}"))?.trim().to_owned())
}

/// CPU time that all processes together have used since the machine was started, including what the
/// hypervisor withheld (steal).
pub(crate) fn busy_time() -> anyhow::Result<Duration> {
    Ok(busy_time_in(&KernelStats::current()?))
}

fn busy_time_in(stats: &KernelStats) -> Duration {
    // Neither idle nor waiting for disks. Guest time is contained in user time already.
    let cpu = &stats.total;
    let newer = [cpu.irq, cpu.softirq, cpu.steal].into_iter().flatten().sum::<u64>();
    let ticks = cpu.user + cpu.nice + cpu.system + newer;
    Duration::from_millis(ticks * 1000 / procfs::ticks_per_second())
}

/// Cores of the machine, whether or not this process may use them all: [`busy_time`] is that of
/// all.
pub(crate) fn cores() -> anyhow::Result<u32> {
    Ok(u32::try_from(KernelStats::current()?.cpu_time.len())?)
}

/// Cores that are kept busy, measured for this time, by others than this process and those given.
pub(crate) async fn busy_cores(time: Duration, but: &[u32]) -> anyhow::Result<f64> {
    let read = || -> anyhow::Result<Duration> {
        let mut ours = cpu_time(std::process::id())?;
        for pid in but {
            ours += cpu_time(*pid)?;
        }
        Ok(busy_time()?.saturating_sub(ours))
    };
    let before = read()?;
    tokio::time::sleep(time).await;
    Ok(read()?.saturating_sub(before).as_secs_f64() / time.as_secs_f64())
}

/// The version that the router prints, and the beginning of its binary's SHA-256, because builds of
/// one version differ.
pub(crate) async fn router_version(binary: &Path) -> anyhow::Result<String> {
    let output = Command::new(binary)
        .arg("--version")
        .output()
        .await
        .with_context(|| format!("cannot run {}", binary.display()))?;
    let contents = std::fs::read(binary)?;
    let digest: String =
        Sha256::digest(&contents).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}, sha256 {digest}…", String::from_utf8_lossy(&output.stdout).trim()))
}

#[cfg(test)]
mod tests {
    use procfs::FromBufReadSI as _;

    use super::*;

    #[test]
    fn idle_time_and_waiting_for_disks_are_not_busy_and_guest_time_counts_once() {
        // user nice system idle iowait irq softirq steal guest guest_nice (proc(5), /proc/stat)
        let stat = "cpu  1 2 4 1000 2000 8 16 32 1 2\nctxt 1\nbtime 1\nprocesses 1\n";
        let stats =
            KernelStats::from_buf_read(stat.as_bytes(), procfs::current_system_info()).unwrap();
        let ticks = 1 + 2 + 4 + 8 + 16 + 32;
        let expected = Duration::from_millis(ticks * 1000 / procfs::ticks_per_second());
        assert_eq!(busy_time_in(&stats), expected);
    }
}
