//! Data directories: copied from a template that `initdb` makes once per server build.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::SUPERUSER;
use crate::cache::{self, Identity};
use crate::process::RunAs;

/// Where a cluster's settings are read from, if it is there, after those of `initdb`.
pub const SETTINGS_FILE: &str = "testbed.conf";

/// Room for every scenario, and no wait for a disk.
const DEFAULTS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("wal_level", "logical"),
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("max_wal_size", "4GB"),
    ("max_connections", "200"),
    ("max_wal_senders", "20"),
    ("max_replication_slots", "20"),
    ("max_prepared_transactions", "100"),
    ("dynamic_shared_memory_type", "mmap"),
    ("log_line_prefix", "%m [%p] %a "),
    ("log_replication_commands", "on"),
];

/// The server refuses to run as root, so root runs it as `postgres`.
pub(super) fn run_as() -> anyhow::Result<Option<RunAs>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let fields: Vec<&str> = users
        .lines()
        .find(|line| line.starts_with("postgres:"))
        .context("PostgreSQL does not run as root and there is no user postgres: create it")?
        .split(':')
        .collect();
    let id = |at: usize| -> anyhow::Result<u32> {
        Ok(fields.get(at).context("/etc/passwd is damaged")?.parse()?)
    };
    Ok(Some(RunAs { uid: id(2)?, gid: id(3)? }))
}

/// A temporary directory with a cluster in `data`.
pub(super) async fn create(
    binaries: &Path,
    run_as: Option<RunAs>,
    hba: &[String],
    identity: Identity,
) -> anyhow::Result<TempDir> {
    let binaries = binaries.to_owned();
    let template = spawn_blocking(move || template(&binaries, run_as, identity)).await??;
    let dir = copy_of(&template, run_as).await?;
    let file = dir.path().join("data/pg_hba.conf");
    let trusting = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("{}\n{trusting}", hba.join("\n")))?;
    Ok(dir)
}

/// A temporary directory with a copy of a cluster in `data`.
pub(super) async fn copy_of(cluster: &Path, run_as: Option<RunAs>) -> anyhow::Result<TempDir> {
    let dir = own_dir(None, run_as)?;
    let (cluster, data) = (cluster.to_owned(), dir.path().join("data"));
    spawn_blocking(move || copy(&cluster, &data)).await??;
    Ok(dir)
}

/// Copies a cluster that `initdb` of these programs has made, to a directory that does not exist
/// yet.
pub fn copy_cluster(binaries: &Path, identity: Identity, data: &Path) -> anyhow::Result<()> {
    copy(&template(binaries, run_as()?, identity)?, data)
}

fn copy(cluster: &Path, data: &Path) -> anyhow::Result<()> {
    let copied = Command::new("cp")
        .args(["-a", "--reflink=auto"])
        .args([cluster, data])
        .status()
        .context("cannot run cp")?;
    ensure!(copied.success(), "cannot copy {} to {}", cluster.display(), data.display());
    Ok(())
}

/// Writes the settings of this run. Later lines override earlier ones.
pub(super) fn write_settings<'a>(
    data: &Path,
    settings: impl Iterator<Item = (&'a str, &'a str)>,
) -> anyhow::Result<()> {
    let lines = DEFAULTS.iter().copied().chain(settings).map(|(name, value)| {
        let quoted = value.replace('\'', "''");
        format!("{name} = '{quoted}'\n")
    });
    let file = data.join(SETTINGS_FILE);
    std::fs::write(&file, lines.collect::<String>())
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Writes a file that the server accepts as a private key: owned by its user, and readable by
/// nobody else.
pub(super) fn write_private(
    file: &Path,
    contents: &[u8],
    run_as: Option<RunAs>,
) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", file.display());
    std::fs::write(file, contents).with_context(cannot)?;
    std::fs::set_permissions(file, Permissions::from_mode(0o600)).with_context(cannot)?;
    if let Some(user) = run_as {
        chown(file, Some(user.uid), Some(user.gid)).with_context(cannot)?;
    }
    Ok(())
}

/// A temporary directory that the server's user owns.
pub(super) fn own_dir(parent: Option<&Path>, run_as: Option<RunAs>) -> anyhow::Result<TempDir> {
    let builder = tempfile::Builder::new().prefix("pg-").to_owned();
    let dir = match parent {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    }
    .context("cannot create a temporary directory")?;
    if let Some(user) = run_as {
        chown(dir.path(), Some(user.uid), Some(user.gid))?;
    }
    Ok(dir)
}

/// The template for this build of the server: modification time and inode of its binary name it.
fn template(binaries: &Path, run_as: Option<RunAs>, identity: Identity) -> anyhow::Result<PathBuf> {
    let parent = cache::dir()?;
    std::fs::create_dir_all(&parent)
        .with_context(|| format!("cannot create {}", parent.display()))?;
    let program = std::fs::metadata(binaries.join("postgres"))?;
    let of = identity.of("data");
    let template = parent.join(format!("{of}-{:x}-{:x}", program.mtime(), program.ino()));
    if template.is_dir() {
        return Ok(template);
    }
    let work = own_dir(Some(&parent), run_as)?;
    let data = work.path().join("data");
    let mut initdb = Command::new(binaries.join("initdb"));
    initdb.arg("-D").arg(&data).args(["-U", SUPERUSER]);
    initdb.args(["-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]);
    if let Some(user) = run_as {
        initdb.uid(user.uid).gid(user.gid);
    }
    let made = initdb.output().context("cannot run initdb")?;
    ensure!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
    let conf = data.join("postgresql.conf");
    let text = std::fs::read_to_string(&conf)?;
    std::fs::write(&conf, format!("{text}\ninclude_if_exists = '{SETTINGS_FILE}'\n"))?;
    cache::keep(&data, &template)?;
    Ok(template)
}
