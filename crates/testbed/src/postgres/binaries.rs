//! Finds the binaries of one major version.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use crate::process::find_program;
use crate::scripts;

/// The directory with `postgres` and `initdb` of `version`.
pub(super) async fn find(version: u16) -> anyhow::Result<PathBuf> {
    let variable = format!("OUTBOX_PG_BIN_{version}");
    if let Some(dir) = std::env::var_os(&variable).map(PathBuf::from) {
        ensure!(
            is_version(&dir, version).await,
            "{variable} is {}, where no PostgreSQL {version} was found",
            dir.display()
        );
        return Ok(dir);
    }
    let on_path = find_program("postgres").and_then(|file| Some(file.parent()?.to_owned()));
    let packaged = PathBuf::from(format!("/usr/lib/postgresql/{version}/bin"));
    for dir in on_path.into_iter().chain([packaged]) {
        if is_version(&dir, version).await {
            return Ok(dir);
        }
    }
    let fetched = scripts::last_line_of("postgres.sh", &[&version.to_string()])
        .await
        .with_context(|| format!("PostgreSQL {version} is missing: set {variable}"))?;
    if is_version(&fetched, version).await {
        Ok(fetched)
    } else {
        bail!("{} holds no PostgreSQL {version}", fetched.display())
    }
}

/// The directory of one release, which is not what is installed: `OUTBOX_PG_BIN_13_21`, for
/// example, or what the script fetches.
pub(super) async fn find_release(version: u16, minor: u16) -> anyhow::Result<PathBuf> {
    let variable = format!("OUTBOX_PG_BIN_{version}_{minor}");
    if let Some(dir) = std::env::var_os(&variable) {
        return Ok(PathBuf::from(dir));
    }
    let release = format!("{version}.{minor}");
    scripts::last_line_of("postgres.sh", &[&release])
        .await
        .with_context(|| format!("PostgreSQL {release} is missing: set {variable}"))
}

async fn is_version(dir: &Path, version: u16) -> bool {
    let program = dir.join("postgres");
    if !dir.join("initdb").is_file() || !program.is_file() {
        return false;
    }
    let output = Command::new(program).arg("--version").output().await;
    output.is_ok_and(|output| {
        // "postgres (PostgreSQL) 15.18 (Debian …)"
        String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .nth(2)
            .and_then(|number| number.split(['.', 'b', 'r']).next())
            .is_some_and(|major| major == version.to_string())
    })
}
