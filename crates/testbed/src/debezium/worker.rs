//! A worker of Kafka Connect standalone, and its connectors as its REST interface shows them.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::jars;
use crate::http::{HttpResponse, get, send};
use crate::ports::free_port;
use crate::process::{Process, ProcessSpec, Signal};
use crate::wait::until_ok;

/// How long JVM and plug-ins may take to start beside other servers.
const START_DEADLINE: Duration = Duration::from_mins(2);

/// A worker answers a request that changes something when it has done it: it connects to
/// PostgreSQL and stops tasks meanwhile.
const ANSWER_DEADLINE: Duration = Duration::from_mins(1);

/// What a worker is started with. Keys and values of its connectors are strings unless a connector
/// says otherwise.
#[derive(Debug, Clone, Default)]
pub struct WorkerOptions {
    bootstrap: String,
    properties: String,
    connectors: Vec<(String, String)>,
}

impl WorkerOptions {
    /// A worker without connectors.
    pub fn new(bootstrap: &str) -> Self {
        Self { bootstrap: bootstrap.to_owned(), ..Self::default() }
    }

    /// Adds lines to the worker's properties.
    #[must_use]
    pub fn properties(mut self, lines: &str) -> Self {
        self.properties.push_str(lines);
        self
    }

    /// Adds a connector, by its name and its properties.
    #[must_use]
    pub fn connector(mut self, name: &str, properties: String) -> Self {
        self.connectors.push((name.to_owned(), properties));
        self
    }
}

/// What the worker says of a connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectorState {
    /// Its task is not started yet.
    Starting,
    /// Its task runs.
    Running,
    /// It was stopped: it has no task.
    Stopped,
    /// It, or its task, has ended, and why.
    Failed(String),
}

/// A worker with its connectors. It ends when this is dropped.
#[derive(Debug)]
pub struct Worker {
    // Before `dir`: fields are dropped in order, and the process has to end before its files are
    // removed.
    process: Process,
    spec: ProcessSpec,
    address: String,
    _dir: TempDir,
}

impl Worker {
    /// Starts a worker, and returns before it answers.
    ///
    /// # Errors
    ///
    /// Fails when the jars are missing or Java cannot be started.
    pub fn start(options: &WorkerOptions) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("debezium-").tempdir()?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let file = |name: &str| dir.path().join(name).display().to_string();
        let mut files = vec![file("worker.properties")];
        let worker = format!(
            "bootstrap.servers={}\n\
             key.converter=org.apache.kafka.connect.storage.StringConverter\n\
             value.converter=org.apache.kafka.connect.storage.StringConverter\n\
             offset.storage.file.filename={}\n\
             plugin.discovery=only_scan\n\
             listeners=http://{address}\n{}",
            options.bootstrap,
            file("offsets"),
            options.properties
        );
        std::fs::write(file("worker.properties"), worker)?;
        for (name, properties) in &options.connectors {
            let path = file(&format!("{name}.connector.properties"));
            std::fs::write(&path, properties)?;
            files.push(path);
        }
        let spec = ProcessSpec::new("java", dir.path().join("log"))
            .args(["-Xms256m", "-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"])
            .args(["-cp", &format!("{}/*", jars()?.display())])
            .arg("org.apache.kafka.connect.cli.ConnectStandalone")
            .args(files);
        Ok(Self { process: Process::start(&spec)?, spec, address, _dir: dir })
    }

    /// Starts it again, with the offsets that it has stored.
    ///
    /// # Errors
    ///
    /// Fails when Java cannot be started.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.process = Process::start(&self.spec)?;
        Ok(())
    }

    /// The URL of its REST interface.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        self.process.output().unwrap_or_default()
    }

    /// Ends it. The exit code is not checked, because it only reflects the signal.
    ///
    /// # Errors
    ///
    /// Fails when it still runs after `deadline`.
    pub async fn stop(&mut self, deadline: Duration) -> anyhow::Result<()> {
        self.process.signal(Signal::TERM)?;
        self.process.wait_exit(deadline).await.map(drop)
    }

    /// Kills it.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be killed.
    pub async fn kill9(&mut self) -> anyhow::Result<()> {
        self.process.kill9().await
    }

    /// Waits until its REST interface answers.
    ///
    /// # Errors
    ///
    /// Fails when it does not answer in time, with the end of its output.
    pub async fn wait_ready(&self) -> anyhow::Result<()> {
        let answers = until_ok(START_DEADLINE, "a worker of Kafka Connect", || async {
            let answer = get(&self.address, "/connectors").await?;
            ensure!(answer.status == 200, "it answers {}", answer.body);
            Ok(())
        });
        answers.await.with_context(|| self.log())
    }

    /// Sends a request to its REST interface.
    ///
    /// # Errors
    ///
    /// Fails when it does not answer, or refuses.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> anyhow::Result<HttpResponse> {
        let answer = send((method, path), &self.address, body, ANSWER_DEADLINE).await?;
        ensure!(answer.status < 300, "{method} {path}: {} {}", answer.status, answer.body);
        Ok(answer)
    }

    /// The state of a connector; `None` while the worker does not know it.
    pub async fn connector(&self, name: &str) -> Option<ConnectorState> {
        let answer = get(&self.address, &format!("/connectors/{name}/status")).await.ok()?;
        let status: Value = serde_json::from_str(&answer.body).ok()?;
        let connector = status.get("connector")?;
        let task = status.pointer("/tasks/0");
        let failed = [Some(connector), task].into_iter().flatten().find(|part| is(part, "FAILED"));
        if let Some(failed) = failed {
            let trace = failed.get("trace").and_then(Value::as_str).unwrap_or_default();
            return Some(ConnectorState::Failed(causes(trace)));
        }
        Some(match task {
            _ if is(connector, "STOPPED") => ConnectorState::Stopped,
            Some(task) if is(task, "RUNNING") => ConnectorState::Running,
            Some(_) | None => ConnectorState::Starting,
        })
    }
}

fn is(part: &Value, state: &str) -> bool {
    part.get("state").and_then(Value::as_str) == Some(state)
}

/// The messages of a stack trace, without its frames.
fn causes(trace: &str) -> String {
    let lines = trace.lines().filter(|line| !line.starts_with(['\t', ' ']));
    lines.collect::<Vec<_>>().join(" | ")
}
