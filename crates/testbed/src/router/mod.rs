//! The real `outbox-router` binary as a child process, checked from outside: exit code, log, admin
//! endpoint, `/proc`. Only the configuration keys and the names of the endpoints are known here.

mod config;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

pub use config::RouterConfig;

pub use crate::http::HttpResponse;
use crate::http::get;
use crate::ports::free_port;
use crate::process::{Process, ProcessSpec, peak_resident_bytes};
use crate::wait::eventually;

/// The binary under test: `OUTBOX_ROUTER_BIN`, or the one in the build directory that the running
/// test or tool lies in.
///
/// # Errors
///
/// Fails when there is none, saying how to build it.
pub fn binary() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("OUTBOX_ROUTER_BIN") {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe()?;
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join("outbox-router"))
        .find(|file| file.is_file())
        .context("no outbox-router beside this program: build it with `cargo build`, or set OUTBOX_ROUTER_BIN")
}

/// How often the memory of a command is read.
const MEMORY_INTERVAL: Duration = Duration::from_millis(20);

/// A configuration file, and the processes that run with it one after another.
#[derive(Debug)]
pub struct RouterProcess {
    // Before `dir`: fields are dropped in order, and the process has to end before its files are
    // removed.
    process: Option<Process>,
    dir: TempDir,
    binary: Option<PathBuf>,
    admin: String,
    environment: Vec<(String, String)>,
}

impl RouterProcess {
    /// Writes `config`, a TOML text, to a file, and starts nothing yet. The admin endpoint gets a
    /// free port.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn with_config(config: &str) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("router-").tempdir()?;
        let admin = format!("127.0.0.1:{}", free_port()?);
        let environment = vec![("OUTBOX_ROUTER__ADMIN__LISTEN".to_owned(), admin.clone())];
        let router = Self { process: None, dir, binary: None, admin, environment };
        router.set_config(config)?;
        Ok(router)
    }

    /// Like [`with_config`](Self::with_config), and starts the router.
    ///
    /// # Errors
    ///
    /// Fails when the binary cannot be started.
    pub fn start(config: &str) -> anyhow::Result<Self> {
        let mut router = Self::with_config(config)?;
        router.start_again()?;
        Ok(router)
    }

    /// Runs another program than [`binary`] finds.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    fn executable(&self) -> anyhow::Result<PathBuf> {
        self.binary.clone().map_or_else(binary, Ok)
    }

    /// Sets a variable of the environment of every process started from now on.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a variable of the environment for the next starts, or removes it.
    pub fn set_env(&mut self, name: &str, value: Option<&str>) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    /// Replaces the configuration; the next start reads it.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn set_config(&self, config: &str) -> anyhow::Result<()> {
        std::fs::write(self.config_file(), config).context("cannot write the router's file")
    }

    /// Starts `outbox-router run`; its output is appended to the log of earlier runs.
    ///
    /// # Errors
    ///
    /// Fails when it runs already or the binary is missing.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        if let Some(process) = &mut self.process
            && process.try_wait()?.is_none()
        {
            bail!("the router runs already");
        }
        let spec = self.environment.iter().fold(
            ProcessSpec::new(self.executable()?, self.log_file()).args([
                "run",
                "--config",
                &self.config_file().to_string_lossy(),
            ]),
            |spec, (name, value)| spec.env(name, value),
        );
        self.process = Some(Process::start(&spec)?);
        Ok(())
    }

    /// Runs another command of the binary with the same configuration, such as `["setup",
    /// "--apply"]`, until it ends.
    ///
    /// # Errors
    ///
    /// Fails when the binary cannot be started.
    pub async fn command(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.start_command(arguments)?.wait_with_output().await?)
    }

    /// The same as [`Self::command`], and the most resident memory that the process has had, in
    /// bytes. The kernel keeps that figure only while the process lives, so what the process took
    /// in its last milliseconds is not in it.
    ///
    /// # Errors
    ///
    /// Fails when the binary cannot be started, or ended before its memory was read once.
    pub async fn command_with_peak_memory(
        &self,
        arguments: &[&str],
    ) -> anyhow::Result<(Output, u64)> {
        let child = self.start_command(arguments)?;
        let pid = child.id().context("the command has no process id")?;
        let mut output = pin!(child.wait_with_output());
        let mut peak = None;
        loop {
            peak = peak_resident_bytes(pid).ok().or(peak);
            tokio::select! {
                output = &mut output => {
                    return Ok((output?, peak.context("the command ended at once")?));
                }
                () = tokio::time::sleep(MEMORY_INTERVAL) => {}
            }
        }
    }

    /// Starts a command of the binary that is killed when it is dropped.
    ///
    /// # Errors
    ///
    /// Fails when the binary cannot be started.
    pub fn start_command(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let binary = self.executable()?;
        Command::new(&binary)
            .args(arguments)
            .arg("--config")
            .arg(self.config_file())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", binary.display()))
    }

    /// The process of the last start.
    ///
    /// # Errors
    ///
    /// Fails when it was never started.
    pub fn process(&mut self) -> anyhow::Result<&mut Process> {
        self.process.as_mut().context("the router was not started")
    }

    /// The configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.dir.path().join("outbox-router.toml")
    }

    /// The log of all runs.
    pub fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// What was logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// A directory that lives as long as this router, for certificates and the like.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// `host:port` of the admin endpoint.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// Sends SIGTERM: the router drains and ends.
    ///
    /// # Errors
    ///
    /// Fails when it was never started.
    pub fn sigterm(&mut self) -> anyhow::Result<()> {
        self.process()?.signal(Signal::TERM)
    }

    /// Stops it with SIGSTOP: its connections stay open, and it sends nothing.
    ///
    /// # Errors
    ///
    /// Fails when it was never started.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.process()?.signal(Signal::STOP)
    }

    /// Continues it after [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// Fails when it was never started.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.process()?.signal(Signal::CONT)
    }

    /// Kills it with SIGKILL and returns when it is gone.
    ///
    /// # Errors
    ///
    /// Fails when it was never started.
    pub async fn kill9(&mut self) -> anyhow::Result<()> {
        self.process()?.kill9().await
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// Fails when it still runs after `deadline`.
    pub async fn wait_exit(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        self.process()?.wait_exit(deadline).await
    }

    /// `GET path` from the admin endpoint.
    ///
    /// # Errors
    ///
    /// Fails when it does not answer.
    pub async fn get(&self, path: &str) -> anyhow::Result<HttpResponse> {
        get(&self.admin, path).await
    }

    /// `/status.json`, parsed.
    ///
    /// # Errors
    ///
    /// Fails when it does not answer or the answer is no JSON.
    pub async fn status(&self) -> anyhow::Result<Value> {
        let answer = self.get("/status.json").await?;
        serde_json::from_str(&answer.body).context("/status.json is no JSON")
    }

    /// Waits until `/status.json` shows `state`, and returns the whole answer.
    ///
    /// # Errors
    ///
    /// Fails when the state is not reached within `deadline`, or the process has ended; both with
    /// the last lines of the log.
    pub async fn wait_state(&mut self, state: &str, deadline: Duration) -> anyhow::Result<Value> {
        self.wait_status(&format!("state {state}"), deadline, |status| {
            status.get("state").and_then(Value::as_str) == Some(state)
        })
        .await
    }

    /// Waits until `/status.json` fulfils a condition, and returns the whole answer.
    ///
    /// # Errors
    ///
    /// As [`wait_state`](Self::wait_state).
    pub async fn wait_status(
        &mut self,
        what: &str,
        deadline: Duration,
        fulfilled: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let mut process = self.process.take().context("the router was not started")?;
        let last = RefCell::new(Value::Null);
        let found = eventually(deadline, what, || {
            let ended = process.try_wait();
            async {
                if let Some(status) = ended? {
                    bail!("the router ended ({status}) instead of reaching {what}");
                }
                let status = self.status().await.unwrap_or_default();
                last.replace(status.clone());
                Ok(fulfilled(&status).then_some(status))
            }
        })
        .await;
        self.process = Some(process);
        found.with_context(|| {
            format!("last status {}, log:\n{}", last.borrow(), last_lines(&self.log(), 20))
        })
    }

    /// The sum of a metric's series whose labels contain `labels` (such as `state="streaming"`, or
    /// nothing); `None` when there is no such series.
    ///
    /// # Errors
    ///
    /// Fails when `/metrics` does not answer.
    pub async fn metric(&self, name: &str, labels: &str) -> anyhow::Result<Option<f64>> {
        Ok(sum_of_series(&self.get("/metrics").await?.body, name, labels))
    }
}

/// The last so many lines of a log.
pub fn last_lines(log: &str, count: usize) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}

fn sum_of_series(metrics: &str, name: &str, labels: &str) -> Option<f64> {
    metrics
        .lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with('{') || rest.starts_with(' '))
        .filter(|rest| rest.contains(labels))
        // A label's value may contain spaces; the number follows the last brace.
        .filter_map(|rest| rest.rsplit_once('}').map_or(Some(rest), |(_, after)| Some(after)))
        .filter_map(|after| after.split_whitespace().next()?.parse::<f64>().ok())
        .reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests;
