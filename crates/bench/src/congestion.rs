//! The congestion control under which a backlog is drained.
//!
//! PostgreSQL has no setting for it: a connection gets the one that the system names when the
//! server accepts it (`net.ipv4.tcp_congestion_control`). So it is set for the whole machine, or
//! for the network namespace that the bench runs in, and set back at the end: after an error and
//! after Ctrl-C, too. Only a bench that is killed with SIGKILL leaves it as it is. What stays until
//! the next start of the machine is that every user may choose what was set once
//! (`tcp_allowed_congestion_control`).

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

const SETTING: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The system's setting.
#[derive(Debug)]
pub(crate) struct CongestionSetting {
    file: PathBuf,
    original: String,
}

/// Dropping this sets the original back.
#[derive(Debug)]
pub(crate) struct InForce<'s>(&'s CongestionSetting);

impl CongestionSetting {
    /// Makes sure that each of `wanted` can be set.
    ///
    /// # Errors
    ///
    /// Fails where the setting may not be written, or the kernel does not have one of them.
    pub(crate) fn for_all(wanted: &[String]) -> anyhow::Result<Self> {
        let setting = Self::open(Path::new(SETTING))?;
        let available = read(Path::new(AVAILABLE))?;
        for name in wanted {
            ensure!(
                available.split_whitespace().any(|known| known == name),
                "--congestion {name}: the kernel has {available}; another one may be in a module, \
                 which `modprobe tcp_{name}` loads"
            );
            // The kernel gives some of them to the first network namespace alone.
            setting.put_in_force(Some(name))?;
        }
        Ok(setting)
    }

    fn open(file: &Path) -> anyhow::Result<Self> {
        let setting = Self { file: file.to_owned(), original: read(file)? };
        // The same again: it changes nothing, and shows whether another one can be written.
        setting.write(&setting.original)?;
        Ok(setting)
    }

    /// Puts one in force for the connections that are accepted from now on; the original one where
    /// none is chosen.
    pub(crate) fn put_in_force(&self, name: Option<&str>) -> anyhow::Result<InForce<'_>> {
        let in_force = InForce(self);
        self.write(name.unwrap_or(&self.original))?;
        Ok(in_force)
    }

    fn write(&self, name: &str) -> anyhow::Result<()> {
        let written = File::options()
            .write(true)
            .truncate(true)
            .open(&self.file)
            .and_then(|mut file| file.write_all(name.as_bytes()));
        written.with_context(|| {
            format!(
                "--congestion has to write {}, and may not write \"{name}\": run as root; in a \
                 network namespace choose from net.ipv4.tcp_allowed_congestion_control of the \
                 machine; or leave the option out",
                self.file.display()
            )
        })
    }

    /// For people.
    pub(crate) fn describe(&self) -> String {
        format!(
            "while a backlog is drained, net.ipv4.tcp_congestion_control is changed for everything \
             that runs here, and then set to {original} again (after a SIGKILL: sysctl -w \
             net.ipv4.tcp_congestion_control={original})",
            original = self.original
        )
    }
}

impl Drop for InForce<'_> {
    fn drop(&mut self) {
        // An error could not be handled here; `describe` has said what to do.
        self.0.write(&self.0.original).unwrap_or_default();
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    Ok(text.with_context(|| format!("cannot read {}", file.display()))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(content: &str) -> (tempfile::NamedTempFile, CongestionSetting) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        let setting = CongestionSetting::open(file.path()).unwrap();
        (file, setting)
    }

    #[test]
    fn what_was_set_before_is_set_again_after_a_run_and_after_an_error() {
        let (file, setting) = setting("bbr\n");
        let now = || read(file.path()).unwrap();
        let in_force = setting.put_in_force(Some("cubic")).unwrap();
        assert_eq!(now(), "cubic");
        drop(in_force);
        assert_eq!(now(), "bbr");
        let failed = || -> anyhow::Result<()> {
            let _in_force = setting.put_in_force(Some("reno"))?;
            assert_eq!(now(), "reno");
            anyhow::bail!("a run fails")
        };
        failed().unwrap_err();
        assert_eq!(now(), "bbr");
        let _in_force = setting.put_in_force(None).unwrap();
        assert_eq!(now(), "bbr");
    }

    #[tokio::test]
    async fn what_was_set_before_is_set_again_when_a_run_is_interrupted() {
        let (file, setting) = setting("bbr");
        let run = async {
            let _in_force = setting.put_in_force(Some("cubic")).unwrap();
            assert_eq!(read(file.path()).unwrap(), "cubic");
            std::future::pending::<()>().await;
        };
        tokio::time::timeout(std::time::Duration::from_millis(1), run).await.unwrap_err();
        assert_eq!(read(file.path()).unwrap(), "bbr");
    }

    #[test]
    fn a_setting_that_cannot_be_written_is_refused_with_its_file_and_what_to_do() {
        let (file, setting) = setting("bbr");
        let path = file.path().display().to_string();
        file.close().unwrap();
        let error = setting.put_in_force(Some("cubic")).unwrap_err().to_string();
        assert!(error.contains(&path) && error.contains("run as root"), "{error}");
        let missing = CongestionSetting::open(&setting.file).unwrap_err().to_string();
        assert!(missing.contains(&path), "{missing}");
    }

    #[test]
    fn one_that_the_kernel_does_not_have_is_refused_with_those_that_it_has() {
        let error = CongestionSetting::for_all(&["no-such".to_owned()]).unwrap_err();
        let error = format!("{error:#}");
        // As another user than root, the file is refused first.
        assert!(error.contains("the kernel has") || error.contains("run as root"), "{error}");
    }
}
