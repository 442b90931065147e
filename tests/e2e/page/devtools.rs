//! The DevTools protocol over a pipe: messages of JSON, each ended by a zero byte. A dozen calls
//! are needed, so this takes the place of a library, all of which bring the whole protocol.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// A browser on a busy machine starts slowly.
const DEADLINE: Duration = Duration::from_secs(60);

/// A browser, and what its pages have complained of.
pub(super) struct DevTools {
    _process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
    /// Errors and warnings of the console, exceptions, and violations of a policy.
    pub(super) complaints: Vec<String>,
}

fn chromium() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("chromium"))
        .find(|file| file.is_file())
        .context("there is no chromium: run scripts/install.sh test")
}

impl DevTools {
    /// Starts a browser with this directory for its files. It ends with this value, or when the
    /// test dies: then its pipe is closed.
    pub(super) fn start(folder: &std::path::Path) -> anyhow::Result<Self> {
        // The browser reads from descriptor 3 and writes to 4. As root it has no sandbox, and the
        // only pages it sees are ours.
        const COMMAND: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut process = Command::new("sh")
            .args(["-c", COMMAND])
            .arg(chromium()?)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--hide-scrollbars"])
            .args(["--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("chromium cannot be started")?;
        let to = process.stdin.take().context("no pipe to the browser")?;
        let from = BufReader::new(process.stdout.take().context("no pipe from the browser")?);
        Ok(Self { _process: process, to, from, last: 0, complaints: Vec::new() })
    }

    /// Calls a method, in a session or of the browser itself, and returns its result.
    pub(super) async fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> anyhow::Result<Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let (Some(session), Some(fields)) = (session, message.as_object_mut()) {
            fields.insert("sessionId".to_owned(), session.into());
        }
        self.to.write_all(format!("{message}\0").as_bytes()).await?;
        let mut answer = timeout(DEADLINE, self.answer(self.last))
            .await
            .with_context(|| format!("the browser did not answer {method}"))??;
        ensure!(answer.get("error").is_none(), "{method}: {answer}");
        Ok(answer.get_mut("result").map(Value::take).unwrap_or_default())
    }

    async fn answer(&mut self, id: u64) -> anyhow::Result<Value> {
        loop {
            let mut text = Vec::new();
            self.from.read_until(0, &mut text).await?;
            ensure!(text.pop() == Some(0), "the browser has ended");
            let message: Value = serde_json::from_slice(&text)?;
            if message.get("id").and_then(Value::as_u64) == Some(id) {
                return Ok(message);
            }
            self.complaints.extend(complaint(&message));
        }
    }
}

/// What an event complains of.
fn complaint(event: &Value) -> Option<String> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    match text("/method")? {
        "Log.entryAdded" => {
            let level = text("/params/entry/level")?;
            matches!(level, "error" | "warning").then(|| {
                let at = text("/params/entry/url").unwrap_or_default();
                format!("{level}: {} {at}", text("/params/entry/text").unwrap_or_default())
            })
        }
        "Runtime.consoleAPICalled" => {
            let kind = text("/params/type")?;
            let said = event.pointer("/params/args").unwrap_or(&Value::Null);
            matches!(kind, "error" | "warning" | "assert").then(|| format!("{kind}: {said}"))
        }
        "Runtime.exceptionThrown" => Some(event.to_string()),
        _ => None,
    }
}
