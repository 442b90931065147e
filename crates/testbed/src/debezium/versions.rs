//! Where the jars of Debezium and Kafka Connect are, and which versions they have.

use std::path::PathBuf;

use anyhow::Context;

/// The directory of the jars: `OUTBOX_DEBEZIUM`, which is what `scripts/debezium.sh` prints.
///
/// # Errors
///
/// Fails when the variable is not set.
pub fn jars() -> anyhow::Result<PathBuf> {
    std::env::var_os("OUTBOX_DEBEZIUM")
        .map(PathBuf::from)
        .context("Debezium is missing: set OUTBOX_DEBEZIUM to what scripts/debezium.sh prints")
}

/// Versions of the connector and of Connect, from the names of their jars.
///
/// # Errors
///
/// Fails when the jars cannot be listed.
pub fn versions() -> anyhow::Result<String> {
    let jars = jars()?;
    let files = std::fs::read_dir(&jars)
        .with_context(|| format!("cannot read {}", jars.display()))?
        .filter_map(|file| file.ok()?.file_name().into_string().ok())
        .collect::<Vec<String>>();
    let version = |artifact: &str| {
        let found = files.iter().find_map(|file| file.strip_prefix(artifact));
        found.map_or("?", |rest| rest.trim_end_matches(".jar")).to_owned()
    };
    Ok(format!(
        "Debezium {} on Kafka Connect {}",
        version("debezium-connector-postgres-"),
        version("connect-runtime-")
    ))
}
