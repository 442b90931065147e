//! The cache directory: servers that were fetched, and data directories that are prepared once and
//! copied for every start.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The system identifier of PostgreSQL, or the cluster id of Kafka. Servers of one identity share a
/// template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// That of every server for which no other one is asked.
    Usual,
    /// A second one.
    Other,
}

impl Identity {
    /// The name of the template for this identity, where that of the usual one is `usual`.
    pub(crate) const fn of(self, usual: &'static str) -> &'static str {
        match self {
            Self::Usual => usual,
            Self::Other => "other",
        }
    }
}

/// The directory, by the same rule as in scripts/fetching.sh.
pub(crate) fn dir() -> anyhow::Result<PathBuf> {
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

/// Renames `made`, which is within the cache, to the template. If another process was first, its
/// template is kept: both are alike.
pub(crate) fn keep(made: &Path, template: &Path) -> anyhow::Result<()> {
    match std::fs::rename(made, template) {
        Ok(()) => Ok(()),
        Err(_) if template.exists() => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot keep {}", template.display())),
    }
}
