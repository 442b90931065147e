//! What a killed postmaster leaves on the machine: the System V shared memory segment that locks
//! its data directory.
//!
//! The next start in the same directory removes it, and so does an orderly shutdown. If neither
//! happens, the segment stays, and the kernel allows `kernel.shmmni` of them. Files of dynamic
//! shared memory stay as well, unless they lie in the data directory (`dynamic_shared_memory_type =
//! mmap`).

use std::path::Path;
use std::process::{Command, Stdio};

/// The line of `postmaster.pid` that holds the segment's key and identifier
/// (`LOCK_FILE_LINE_SHMEM_KEY` in PostgreSQL's `miscadmin.h`, which counts from 1).
const LINE_OF_SEGMENT: usize = 7;

/// Removes the segment of the server that ran in `data_dir`, unless the server did so itself. The
/// server must be gone.
pub(super) fn remove(data_dir: &Path) {
    if let Some(segment) = segment(data_dir) {
        // An error means that the segment is gone already, and a caller that drops a server could
        // not handle it.
        let ipcrm = Command::new("ipcrm").args(["-m", &segment]).stderr(Stdio::null()).status();
        drop(ipcrm);
    }
}

/// The identifier in the lock file; None after an orderly shutdown, which removes that file.
fn segment(data_dir: &Path) -> Option<String> {
    let lock = std::fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
    lock.lines().nth(LINE_OF_SEGMENT - 1)?.split_whitespace().nth(1).map(str::to_owned)
}
