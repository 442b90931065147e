//! What `/proc` shows of processes: memory, CPU time, bytes written, children.

use std::time::Duration;

use anyhow::Context;
use procfs::process::{Process, Stat, Status, all_processes};
use rustix::process::Pid;

/// Resident memory in bytes of any process.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(pid, |status| status.vmrss)
}

/// The most resident memory in bytes that a process has had since it was started, as the kernel
/// counts it: no sampling misses it.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn peak_resident_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(pid, |status| status.vmhwm)
}

/// [`peak_resident_bytes`] without the pages of program and libraries that are resident now. Those
/// of a debug build are more than its data, and how many of them are resident depends on the file
/// system.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn peak_data_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(pid, |status| {
        let mapped = status.rssfile.unwrap_or(0) + status.rssshmem.unwrap_or(0);
        Some(status.vmhwm?.saturating_sub(mapped))
    })
}

fn memory(pid: u32, kib: impl Fn(&Status) -> Option<u64>) -> anyhow::Result<u64> {
    let kib = kib(&process(pid)?.status()?);
    Ok(kib.with_context(|| format!("process {pid} has ended"))? * 1024)
}

fn process(pid: u32) -> anyhow::Result<Process> {
    Ok(Process::new(i32::try_from(pid)?)?)
}

/// Bytes that a process has passed to `write` so far, to files of any kind; sockets do not count.
/// Can still be read of a child that has ended and was not waited for yet.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn written_bytes(pid: u32) -> anyhow::Result<u64> {
    Ok(process(pid)?.io()?.wchar)
}

/// Whether a process has ended. A zombie counts as ended: it holds nothing any more.
pub fn has_ended(pid: u32) -> bool {
    process(pid).and_then(|process| Ok(process.stat()?)).map_or(true, |stat| stat.state == 'Z')
}

/// Whether no thread of a process runs: each is stopped, traced or dead. A process that is gone
/// runs none.
pub(super) fn has_stopped(pid: u32) -> bool {
    let Ok(tasks) = process(pid).and_then(|process| Ok(process.tasks()?)) else { return true };
    tasks
        .flatten()
        .all(|task| task.stat().map_or(true, |stat| matches!(stat.state, 'T' | 't' | 'Z' | 'X')))
}

/// CPU time used so far by any process, user and system.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    Ok(time(ticks(&process(pid)?.stat()?)))
}

/// CPU time used so far by a process, its children, and those of its own children that have ended
/// and that it has waited for, such as a database server and all of its backends.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn family_cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let own = process(pid)?.stat()?;
    let ended = u64::try_from(own.cutime + own.cstime)?;
    let living = every_process()?.filter(|stat| u32::try_from(stat.ppid) == Ok(pid));
    Ok(time(ticks(&own) + ended + living.map(|child| ticks(&child)).sum::<u64>()))
}

/// CPU time used so far by the threads of a process that have this name, of which the kernel keeps
/// fifteen bytes.
///
/// # Errors
///
/// Fails when the process is gone, or has no such thread.
pub fn thread_cpu_time(pid: u32, name: &str) -> anyhow::Result<Duration> {
    // A thread may end between being listed and being read.
    let threads = process(pid)?.tasks()?.filter_map(|task| task.ok()?.stat().ok());
    threads
        .filter(|stat| stat.comm == name)
        .map(|stat| time(ticks(&stat)))
        .reduce(|sum, thread| sum + thread)
        .with_context(|| format!("process {pid} has no thread {name}"))
}

fn ticks(stat: &Stat) -> u64 {
    stat.utime + stat.stime
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / procfs::ticks_per_second())
}

/// Processes that end meanwhile are left out.
fn every_process() -> anyhow::Result<impl Iterator<Item = Stat>> {
    Ok(all_processes()?.filter_map(|process| process.ok()?.stat().ok()))
}

pub(super) fn descendants_of(root: Pid) -> anyhow::Result<Vec<Pid>> {
    let all: Vec<(i32, i32)> = every_process()?.map(|stat| (stat.pid, stat.ppid)).collect();
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    Ok(found.into_iter().skip(1).filter_map(Pid::from_raw).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::wait::eventually;

    #[tokio::test]
    async fn the_written_bytes_of_an_ended_child_can_be_read_until_it_is_waited_for() {
        let mut child = Command::new("head")
            .args(["-c", "1000000", "/dev/zero"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        eventually(Duration::from_secs(10), "the end of head", || {
            let ended = has_ended(pid).then_some(());
            async move { Ok(ended) }
        })
        .await
        .unwrap();
        assert_eq!(written_bytes(pid).unwrap(), 1_000_000);
        child.wait().unwrap();
        written_bytes(pid).unwrap_err();
    }

    #[test]
    fn the_cpu_time_of_a_thread_leaves_out_the_other_threads() {
        let spin = || {
            let own = || thread_cpu_time(std::process::id(), "works").unwrap();
            while own() < Duration::from_millis(50) {}
        };
        let works = std::thread::Builder::new().name("works".to_owned()).spawn(move || {
            spin();
            thread_cpu_time(std::process::id(), "works").unwrap()
        });
        assert!(works.unwrap().join().unwrap() >= Duration::from_millis(50));
        thread_cpu_time(std::process::id(), "works").unwrap_err();
    }

    #[test]
    fn the_peak_of_resident_memory_is_at_least_the_present_value() {
        let resident = resident_bytes(std::process::id()).unwrap();
        assert!(peak_resident_bytes(std::process::id()).unwrap() >= resident);
    }
}
