//! What `/proc` tells of processes: memory, CPU time, bytes written, children.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Pid;

/// Resident memory in bytes of any process.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(pid, "VmRSS:")
}

/// The most resident memory in bytes that a process has had since it was started.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn peak_resident_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, name: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .with_context(|| format!("process {pid} has ended"))?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// Bytes that a process has passed to `write` so far, wherever they went; sockets do not count. Can
/// still be asked of a child that has ended and was not yet waited for.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn written_bytes(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/io");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let bytes = text
        .lines()
        .find_map(|line| line.strip_prefix("wchar:"))
        .with_context(|| format!("cannot understand {path}"))?;
    Ok(bytes.trim().parse()?)
}

/// Whether a process has ended, waited for or not.
pub fn has_ended(pid: u32) -> bool {
    i32::try_from(pid).ok().and_then(Pid::from_raw).is_none_or(|pid| !alive(pid))
}

/// CPU time used so far by any process, user and system.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    Ok(time(stat(pid)?.ticks))
}

/// CPU time used so far by a process, its children, and those children of its own that have ended and that it took note
/// of, such as a database server and all of its backends.
///
/// # Errors
///
/// Fails when the process is gone.
pub fn family_cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = stat(pid)?;
    let living: u64 = living_children(pid).map(|(_, child)| child.ticks).sum();
    Ok(time(stat.ticks + stat.ended_children_ticks + living))
}

/// CPU time used so far by the threads of a process that bear this name, as the kernel cuts it: fifteen bytes.
///
/// # Errors
///
/// Fails when the process is gone, or has no such thread.
pub fn thread_cpu_time(pid: u32, name: &str) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/task");
    let tasks = std::fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?;
    let named = |task: &Path| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    tasks
        .filter_map(|task| task.ok().map(|task| task.path()).filter(|task| named(task)))
        .filter_map(|task| Stat::read(&task).ok().map(|stat| time(stat.ticks)))
        .reduce(|sum, thread| sum + thread)
        .with_context(|| format!("process {pid} has no thread {name}"))
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

fn stat(pid: u32) -> anyhow::Result<Stat> {
    Stat::read(Path::new(&format!("/proc/{pid}")))
}

fn living_children(pid: u32) -> impl Iterator<Item = (i32, Stat)> {
    every_process().filter(move |(_, stat)| u32::try_from(stat.parent) == Ok(pid))
}

struct Stat {
    state: char,
    parent: i32,
    ticks: u64,
    /// Of children that have ended and were waited for.
    ended_children_ticks: u64,
}

impl Stat {
    /// Of a process or a thread, whose directory is given.
    fn read(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join("stat");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("cannot understand {}", path.display()))
    }

    /// The command name in parentheses may hold anything, so reading starts after the last one.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            ticks: number(11)? + number(12)?,
            ended_children_ticks: number(13)? + number(14)?,
        })
    }
}

fn every_process() -> impl Iterator<Item = (i32, Stat)> {
    std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, Stat::read(&entry.path()).ok()?))
    })
}

pub(super) fn descendants_of(root: Pid) -> Vec<Pid> {
    let all: Vec<(i32, i32)> = every_process().map(|(pid, stat)| (pid, stat.parent)).collect();
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

/// A zombie holds nothing any more: it waits for its new parent to take note.
pub(super) fn alive(pid: Pid) -> bool {
    let directory = format!("/proc/{}", pid.as_raw_nonzero());
    Stat::read(Path::new(&directory)).is_ok_and(|stat| stat.state != 'Z')
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::wait::eventually;

    #[tokio::test]
    async fn what_an_ended_child_wrote_is_told_until_it_is_waited_for() {
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
    fn the_time_of_one_thread_is_not_that_of_all() {
        let spin = || {
            let own = || time(Stat::read(Path::new("/proc/thread-self")).unwrap().ticks);
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
    fn the_peak_is_no_less_than_what_is_resident() {
        let resident = resident_bytes(std::process::id()).unwrap();
        assert!(peak_resident_bytes(std::process::id()).unwrap() >= resident);
    }

    #[test]
    fn a_command_name_with_parentheses_does_not_confuse() {
        let stat = Stat::parse("12 (a) b) S 5 1 1 0 -1 0 0 0 0 0 30 12 7 2 0").unwrap();
        assert_eq!((stat.state, stat.parent, stat.ticks), ('S', 5, 42));
        assert_eq!(stat.ended_children_ticks, 9);
    }
}
