//! The scripts of the repository that fetch servers, called when a server is not on the machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::process::Command;

/// Runs `scripts/NAME ARGUMENTS` and gives the last line it printed.
pub(crate) async fn last_line_of(name: &str, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name);
    let output = Command::new(&script)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .await
        .with_context(|| format!("cannot run {}", script.display()))?;
    ensure!(output.status.success(), "scripts/{name} {} failed", arguments.join(" "));
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().with_context(|| format!("scripts/{name} printed nothing"))?;
    Ok(PathBuf::from(line))
}

/// Where fetched servers and prepared data directories are kept: the rule of the scripts.
pub(crate) fn cache_dir() -> anyhow::Result<PathBuf> {
    if let Some(dir) = std::env::var_os("OUTBOX_CACHE") {
        return Ok(PathBuf::from(dir));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/cache/outbox-router"));
    }
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set: set OUTBOX_CACHE to a directory")?;
    Ok(base.join("outbox-router"))
}
