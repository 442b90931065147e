//! The process itself, under the names that Prometheus' client libraries use. Read from /proc at
//! each scrape; where there is no /proc, the series are absent.

use procfs::{ProcResult, process::Process};

use super::exposition::{Page, Type};
use crate::monitor::rates::number;

/// What `/proc/self` says.
struct Usage {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    threads: u64,
    start_seconds: f64,
    open_files: u64,
    files_max: Option<u64>,
}

pub(crate) fn metrics(page: &mut Page) {
    let Ok(usage) = read() else { return };
    page.family("process_cpu_seconds_total", Type::Counter, "User and system CPU time.")
        .float(&[], usage.cpu_seconds);
    page.gauge("process_resident_memory_bytes", "Resident memory.", usage.resident_bytes);
    page.gauge("process_virtual_memory_bytes", "Virtual memory.", usage.virtual_bytes);
    page.gauge("process_threads", "Threads.", usage.threads);
    page.gauge_float(
        "process_start_time_seconds",
        "When the process started.",
        usage.start_seconds,
    );
    page.gauge("process_open_fds", "Open file descriptors.", usage.open_files);
    if let Some(most) = usage.files_max {
        page.gauge("process_max_fds", "Most file descriptors that may be open.", most);
    }
}

fn read() -> ProcResult<Usage> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let ticks = number(procfs::ticks_per_second());
    let boot = number(procfs::boot_time_secs()?);
    Ok(Usage {
        cpu_seconds: number(stat.utime.saturating_add(stat.stime)) / ticks,
        resident_bytes: stat.rss.saturating_mul(procfs::page_size()),
        virtual_bytes: stat.vsize,
        threads: u64::try_from(stat.num_threads).unwrap_or_default(),
        start_seconds: boot + number(stat.starttime) / ticks,
        open_files: u64::try_from(process.fd_count()?).unwrap_or(u64::MAX),
        files_max: match process.limits()?.max_open_files.soft_limit {
            procfs::process::LimitValue::Value(most) => Some(most),
            procfs::process::LimitValue::Unlimited => None,
        },
    })
}
