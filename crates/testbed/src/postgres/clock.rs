//! A wrong clock for the processes of one server, by libfaketime. A machine's clock cannot be set
//! for one test, and time namespaces of Linux have no wall clock.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

const LIBRARY: &str = "faketime/libfaketime.so.1";

/// What has to be in the environment of the server; nothing for the machine's own time.
pub(super) fn environment(ahead: Duration) -> anyhow::Result<Vec<(&'static str, String)>> {
    if ahead.is_zero() {
        return Ok(Vec::new());
    }
    let library = library().context("libfaketime is missing: run scripts/install.sh test")?;
    let one = || "1".to_owned();
    Ok(vec![
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", format!("+{}s", ahead.as_secs())),
        // Time limits of the server are measured by the monotonic clock, which stays right.
        ("FAKETIME_DONT_FAKE_MONOTONIC", one()),
        // Shared memory is for a clock that several processes stop together, and would be left over
        // when one is killed.
        ("FAKETIME_DISABLE_SHM", one()),
    ])
}

/// Where packages put it: `/usr/lib/ARCHITECTURE/faketime`, or without the architecture.
fn library() -> Option<PathBuf> {
    let lib = Path::new("/usr/lib");
    let below = std::fs::read_dir(lib).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    std::iter::once(lib.to_owned())
        .chain(below)
        .map(|dir| dir.join(LIBRARY))
        .find(|file| file.is_file())
}
