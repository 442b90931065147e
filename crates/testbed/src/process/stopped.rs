//! Waits until a process has really stopped: SIGSTOP takes effect when one thread of it handles the
//! signal, and on a busy machine the others run on until then.

use std::{fs, io, thread, time::Duration};

use anyhow::bail;
use rustix::process::Pid;

/// Half a minute, at least.
const LOOKS_MAX: u32 = 30_000;
const BETWEEN: Duration = Duration::from_millis(1);

/// Returns when no thread of it runs. A process that has ended is stopped, too.
///
/// # Errors
///
/// Fails when it does not stop.
pub(super) fn wait(pid: Pid) -> anyhow::Result<()> {
    for _ in 0..LOOKS_MAX {
        if !runs(pid)? {
            return Ok(());
        }
        thread::sleep(BETWEEN);
    }
    bail!("process {pid:?} does not stop")
}

fn runs(pid: Pid) -> io::Result<bool> {
    let threads = match fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) {
        Ok(threads) => threads,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    for thread in threads {
        match fs::read_to_string(thread?.path().join("stat")) {
            Ok(stat) if !is_stopped(&stat) => return Ok(true),
            Ok(_) => {}
            // It has ended meanwhile.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// By the state in `/proc/PID/task/TID/stat`: stopped, traced, a zombie or dead.
fn is_stopped(stat: &str) -> bool {
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('T' | 't' | 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_a_name_that_may_contain_anything() {
        assert!(is_stopped("12 (a) T (b) T 1 1"));
        assert!(!is_stopped("12 (a) T (b) S 1 1"));
        assert!(!is_stopped(""));
    }
}
