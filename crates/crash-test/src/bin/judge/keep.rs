//! The logs of a round that found something.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::figures::Outcome;
use crate::pipeline::Pipeline;
use crate::scenario::Scenario;
use crate::servers::Servers;

/// Copies the router's log, its file, what was typed, and PostgreSQL's log, and writes down every
/// finding.
pub(crate) fn keep(
    servers: &Servers,
    pipeline: &Pipeline,
    scenario: &Scenario,
    outcome: Option<&Outcome>,
    parent: &Path,
) -> anyhow::Result<PathBuf> {
    let dir = parent.join(format!("{}-{}", scenario.play, scenario.seed));
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (from, name) in [
        (pipeline.router.log_file(), "router.log"),
        (pipeline.router.config_file(), "outbox-router.toml"),
        (pipeline.typed_log(), "typed.log"),
        (servers.postgres.log(), "postgres.log"),
    ] {
        if from.exists() {
            std::fs::copy(&from, dir.join(name))?;
        }
    }
    let findings = outcome.iter().flat_map(|outcome| &outcome.findings);
    let text: String = findings.map(|finding| format!("{finding}\n")).collect();
    std::fs::write(dir.join("findings.txt"), format!("{scenario}\n{text}"))?;
    Ok(dir)
}
