//! Looks at the parts of a run while it is sampled.

use std::collections::BTreeMap;

use procfs::process::Process;

use super::connections::{ConnectionSource, Connections};
use super::router_status::{RouterStatus, StatusSource};
use crate::figures::float;

/// CPU time in seconds by process or thread.
pub(crate) type CpuSeconds = BTreeMap<u32, f64>;

/// What is looked at, beside the progress and the CPU time of whole processes.
#[derive(Default)]
pub(crate) struct Observed {
    /// `None` for a unix socket, and where the kernel does not show connections.
    pub(crate) connections: Option<ConnectionSource>,
    /// Of a router.
    pub(crate) status: Option<StatusSource>,
}

/// One look.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Look {
    /// Seconds since the reader was started.
    pub(crate) at: f64,
    /// Bytes or records that the reader is done with.
    pub(crate) progress: f64,
    /// CPU time of the processes that decode.
    pub(crate) decoding: CpuSeconds,
    /// CPU time of the threads of the reader, with their names.
    pub(crate) threads: BTreeMap<u32, (String, f64)>,
    /// CPU time of the broker.
    pub(crate) broker: f64,
    /// CPU time of all processes.
    pub(crate) busy: f64,
    pub(crate) connections: Connections,
    pub(crate) status: Option<RouterStatus>,
}

impl Observed {
    /// Adds to a look what is read here. What cannot be read stays away: a run does not fail
    /// because of it.
    pub(crate) fn look(&mut self, reader: u32, look: Look) -> Look {
        let connections = self.connections.as_ref().and_then(|source| source.of(reader).ok());
        let connections = connections.unwrap_or_default();
        let status = self.status.as_mut().and_then(StatusSource::ask);
        Look { threads: threads(reader).unwrap_or_default(), connections, status, ..look }
    }
}

fn threads(pid: u32) -> anyhow::Result<BTreeMap<u32, (String, f64)>> {
    // A thread may end between being listed and being read.
    let stats = Process::new(i32::try_from(pid)?)?.tasks()?;
    let stats = stats.filter_map(|task| task.ok()?.stat().ok());
    let threads = stats.filter_map(|stat| {
        let seconds = float(stat.utime + stat.stime) / float(procfs::ticks_per_second());
        Some((u32::try_from(stat.pid).ok()?, (stat.comm, seconds)))
    });
    Ok(threads.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_of_a_process_is_seen_with_its_name_and_its_cpu_time() {
        let (started, begun) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
            let mut sum = 0_u64;
            let began = std::time::SystemTime::now();
            while began.elapsed().unwrap().as_millis() < 200 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
            started.send(()).unwrap();
            stopped.recv().unwrap_or_default();
            sum
        });
        begun.recv().unwrap();
        let seen = threads(std::process::id()).unwrap();
        let found = seen.values().find(|(name, _)| name == "worker").unwrap();
        assert!(found.1 > 0.0, "{found:?}");
        drop(stop);
        worker.unwrap().join().unwrap();
    }
}
