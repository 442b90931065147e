//! Calls the scripts of the repository that fetch servers, when a server is not on the machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::process::Command;

/// Runs `scripts/NAME ARGUMENTS` and returns the last line of its output.
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
