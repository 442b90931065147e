//! What the figures were taken on, and who else was at work there.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::process::Command;

/// Cores that others may keep busy before a run says more about them than about the readers.
pub(crate) const NEIGHBOURS: f64 = 0.1;

/// Hardware and kernel.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    /// Decides over TCP how many messages a walsender may send one by one before it has to gather them.
    pub(crate) congestion_control: String,
    pub(crate) load_average: f64,
}

impl Machine {
    pub(crate) fn look() -> anyhow::Result<Self> {
        Ok(Self {
            cpu: field("/proc/cpuinfo", "model name")?,
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: field("/proc/meminfo", "MemTotal")?
                .trim_end_matches(" kB")
                .parse::<u64>()?
                .div_ceil(1024 * 1024),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control")?
                .trim()
                .to_owned(),
            load_average: load_average()?,
        })
    }

    pub(crate) fn json(&self) -> Value {
        let Self { cpu, cores, memory_gib, kernel, congestion_control, load_average } = self;
        json!({ "kind": "machine", "cpu": cpu, "cores": cores, "memory_gib": memory_gib,
                "kernel": kernel, "congestion_control": congestion_control,
                "load_average": load_average })
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))
}

/// The value of `NAME : VALUE`.
fn field(path: &str, name: &str) -> anyhow::Result<String> {
    read(path)?
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))
        .map(|value| value.trim().to_owned())
        .with_context(|| format!("{path} has no {name}"))
}

fn load_average() -> anyhow::Result<f64> {
    let text = read("/proc/loadavg")?;
    Ok(text.split_whitespace().next().context("/proc/loadavg is empty")?.parse()?)
}

/// CPU time that all processes together have used since the machine was started, what the host
/// withheld included.
pub(crate) fn busy_time() -> anyhow::Result<Duration> {
    let text = read("/proc/stat")?;
    let line = text.lines().next().context("/proc/stat is empty")?;
    let ticks = busy_ticks(line).context("cannot understand /proc/stat")?;
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// Cores that are kept busy, looked at for so long.
pub(crate) async fn busy_cores(time: Duration) -> anyhow::Result<f64> {
    let before = busy_time()?;
    tokio::time::sleep(time).await;
    Ok(busy_time()?.saturating_sub(before).as_secs_f64() / time.as_secs_f64())
}

/// `cpu user nice system idle iowait irq softirq steal guest …`; guests are counted as users too.
fn busy_ticks(line: &str) -> Option<u64> {
    let fields: Result<Vec<u64>, _> =
        line.strip_prefix("cpu ")?.split_whitespace().take(8).map(str::parse).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = *fields.ok()? else {
        return None;
    };
    Some(user + nice + system + irq + softirq + steal)
}

/// What the router says of its version, and the beginning of its SHA-256: builds of one version differ.
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
    use super::*;

    #[test]
    fn idle_time_and_waiting_for_disks_are_not_busy() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 99 0"), Some(63));
        assert_eq!(busy_ticks("cpu0 1 2 4 1000 2000 8 16 32 99 0"), None);
    }
}
