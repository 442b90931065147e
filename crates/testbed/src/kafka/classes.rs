//! Kafka's classes as the JVM maps them from a file ("Class Data Sharing" in the manual of Java's
//! virtual machine): a broker that starts with them needs about half of the CPU time. One broker
//! writes the file when it ends, once for each build of Java.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tokio::sync::OnceCell;

use super::broker::{self, START_DEADLINE};
use super::options::KafkaOptions;
use crate::cache;
use crate::process::find_program;

/// The flag by which a JVM uses the file, which is written if it is not there.
pub(super) async fn shared(jars: &Path) -> anyhow::Result<&'static str> {
    static FLAG: OnceCell<String> = OnceCell::const_new();
    let flag =
        async || anyhow::Ok(format!("-XX:SharedArchiveFile={}", file(jars).await?.display()));
    Ok(FLAG.get_or_try_init(flag).await?)
}

async fn file(jars: &Path) -> anyhow::Result<PathBuf> {
    let name = jars.file_name().context("no name")?.to_string_lossy();
    let java = std::fs::metadata(find_program("java").context("java is missing")?)?;
    let (mtime, ino) = (java.mtime(), java.ino());
    let file = cache::dir()?.join(format!("{name}-classes-{mtime:x}-{ino:x}.jsa"));
    if !file.is_file() {
        let work = tempfile::Builder::new().prefix(".classes-").tempdir_in(cache::dir()?)?;
        let made = work.path().join("classes.jsa");
        write(jars, work.path(), &made).await.context("cannot write Kafka's classes")?;
        cache::keep(&made, &file)?;
    }
    Ok(file)
}

/// Starts a broker and stops it.
async fn write(jars: &Path, dir: &Path, file: &Path) -> anyhow::Result<()> {
    let flag = format!("-XX:ArchiveClassesAtExit={}", file.display());
    for mut broker in broker::plan(&KafkaOptions::default(), jars, &flag, dir)? {
        broker.format(jars).await?;
        broker.launch()?;
        broker.listens(START_DEADLINE).await?;
        broker.stop().await?;
    }
    Ok(())
}
