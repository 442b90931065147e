//! The real Debezium: Kafka Connect standalone with a connector for each case.

use serde_json::Value;
use tempfile::TempDir;
use testbed::debezium;
use testbed::http::get;
use testbed::ports::free_port;
use testbed::process::{Process, ProcessSpec};

use crate::case::Case;
use crate::ours::PARTITIONS;

/// A worker with its connectors. It ends when this is dropped.
pub(crate) struct Worker {
    // Before `dir`: fields are dropped in order, and the process has to end before its files are
    // removed.
    process: Process,
    _dir: TempDir,
    address: String,
}

impl Worker {
    pub(crate) fn start(bootstrap: &str, port: u16, cases: &[Case]) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("debezium-").tempdir()?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let file = |name: &str| dir.path().join(name).display().to_string();
        // A row that is refused is left out, so that the others of its case are seen.
        let more = format!(
            "errors.tolerance=all\nerrors.log.enable=true\n\
             topic.creation.default.replication.factor=1\n\
             topic.creation.default.partitions={PARTITIONS}\n"
        );
        let worker = file("worker.properties");
        std::fs::write(&worker, worker_properties(bootstrap, &address, &file("offsets")))?;
        let mut files = vec![worker];
        for case in cases {
            let path = file(&format!("{}.properties", case.name));
            std::fs::write(&path, case.properties(port) + &more)?;
            files.push(path);
        }
        let spec = ProcessSpec::new("java", dir.path().join("log"))
            .args(["-Xms256m", "-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"])
            .args(["-cp", &format!("{}/*", debezium::jars()?.display())])
            .arg("org.apache.kafka.connect.cli.ConnectStandalone")
            .args(files);
        Ok(Self { process: Process::start(&spec)?, _dir: dir, address })
    }

    pub(crate) fn log(&self) -> String {
        self.process.output().unwrap_or_default()
    }

    /// Whether a case's task runs; `None` while it does not exist yet. Else why it has ended.
    pub(crate) async fn failure(&self, case: &Case) -> Option<Result<(), String>> {
        let path = format!("/connectors/{}/status", case.name);
        let answer = get(&self.address, &path).await.ok()?;
        let status: Value = serde_json::from_str(&answer.body).ok()?;
        let parts = [status.pointer("/connector"), status.pointer("/tasks/0")];
        let state = |part: &Value| part.get("state").and_then(Value::as_str).map(str::to_owned);
        for part in parts.into_iter().flatten() {
            if state(part).as_deref() == Some("FAILED") {
                let trace = part.get("trace").and_then(Value::as_str).unwrap_or_default();
                return Some(Err(causes(trace)));
            }
        }
        let task = status.pointer("/tasks/0").and_then(state)?;
        (task == "RUNNING").then_some(Ok(()))
    }
}

/// The messages of a stack trace, without its frames.
fn causes(trace: &str) -> String {
    let lines = trace.lines().filter(|line| !line.starts_with(['\t', ' ']));
    lines.collect::<Vec<_>>().join(" | ")
}

fn worker_properties(bootstrap: &str, address: &str, offsets: &str) -> String {
    format!(
        "bootstrap.servers={bootstrap}\n\
         key.converter=org.apache.kafka.connect.storage.StringConverter\n\
         value.converter=org.apache.kafka.connect.storage.StringConverter\n\
         offset.storage.file.filename={offsets}\n\
         plugin.discovery=only_scan\n\
         listeners=http://{address}\n"
    )
}
