//! One page in a real browser.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::wait::eventually;

use crate::page::devtools::DevTools;

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scripts {
    On,
    Off,
}

/// Light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Light,
    Dark,
}

/// A page.
pub(super) struct Browser {
    devtools: DevTools,
    session: String,
    // After the browser, which writes to it.
    _folder: TempDir,
}

impl Browser {
    /// Starts a browser with an empty page.
    pub(super) async fn start(scripts: Scripts) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("browser-").tempdir()?;
        let mut devtools = DevTools::start(folder.path())?;
        let created = devtools.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let created = created.await?;
        let attach = json!({ "targetId": created.get("targetId"), "flatten": true });
        let attached = devtools.call(None, "Target.attachToTarget", attach).await?;
        let session =
            attached.get("sessionId").and_then(Value::as_str).context("no session")?.to_owned();
        let mut browser = Self { devtools, session, _folder: folder };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({})).await?;
        }
        let off = json!({ "value": scripts == Scripts::Off });
        browser.call("Emulation.setScriptExecutionDisabled", off).await?;
        Ok(browser)
    }

    pub(super) async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.devtools.call(Some(&self.session), method, params).await
    }

    /// The size of the window, in CSS pixels.
    pub(super) async fn resize(&mut self, width: u32, height: u32) -> anyhow::Result<()> {
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false
        });
        self.call("Emulation.setDeviceMetricsOverride", params).await.map(drop)
    }

    pub(super) async fn prefer(&mut self, scheme: Scheme) -> anyhow::Result<()> {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).await.map(drop)
    }

    /// Opens an address, and returns when everything is loaded.
    pub(super) async fn open(&mut self, url: &str) -> anyhow::Result<()> {
        self.call("Page.navigate", json!({ "url": url })).await?;
        self.wait(
            "the page",
            "document.readyState === 'complete' && !!document.body.children.length",
        )
        .await
    }

    /// What a script gives; it runs in the page also where the page's own do not.
    pub(super) async fn evaluate(&mut self, script: &str) -> anyhow::Result<Value> {
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", params).await?;
        anyhow::ensure!(answer.get("exceptionDetails").is_none(), "{script}: {answer}");
        Ok(answer.pointer("/result/value").cloned().unwrap_or_default())
    }

    /// The visible text of the first element.
    pub(super) async fn text(&mut self, selector: &str) -> anyhow::Result<String> {
        let script = format!("document.querySelector({selector:?})?.innerText");
        Ok(self.evaluate(&script).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until a script gives `true`; else the error has the page's text.
    pub(super) async fn wait(&mut self, what: &str, script: &str) -> anyhow::Result<()> {
        const DEADLINE: Duration = Duration::from_secs(60);
        let browser = tokio::sync::Mutex::new(&mut *self);
        let awaited = eventually(DEADLINE, what, async || {
            let mut browser = browser.lock().await;
            Ok((browser.evaluate(script).await? == Value::Bool(true)).then_some(()))
        });
        match awaited.await {
            Ok(()) => Ok(()),
            Err(error) => {
                let text = self.text("body").await.unwrap_or_default();
                Err(error.context(format!("the page: {text}")))
            }
        }
    }

    /// Waits for the verdict's word.
    pub(super) async fn wait_verdict(&mut self, word: &str) -> anyhow::Result<()> {
        self.wait(word, &format!("document.querySelector('h1')?.textContent === {word:?}")).await
    }

    /// What the console has shown of errors and warnings, and of refusals by the policy.
    pub(super) fn complaints(&self) -> &[String] {
        &self.devtools.complaints
    }
}
