//! A real Prometheus that scrapes routers and evaluates rules, and is asked what fires, as a person
//! on call is told.
//!
//! The program is the one of Debian's package `prometheus`, which `scripts/install.sh test`
//! installs.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::http::get;
use crate::ports::free_port;
use crate::process::{Process, ProcessSpec, find_program};
use crate::wait::until_ok;

const START_DEADLINE: Duration = Duration::from_secs(60);

/// An alert that is pending or fires.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActiveAlert {
    /// Its name.
    pub name: String,
    /// The label `pipeline`, which is empty where it has none.
    pub pipeline: String,
    /// Whether it fires, and is not only pending.
    pub fires: bool,
}

/// A Prometheus of its own. It ends when this is dropped.
#[derive(Debug)]
pub struct Prometheus {
    // Before `dir`: fields are dropped in order, and the process has to end before its files are
    // removed.
    process: Process,
    address: String,
    _dir: TempDir,
}

impl Prometheus {
    /// Starts one that scrapes these targets (`host:port`) and evaluates these rules (the text of a
    /// rule file), both once in `interval`, and returns when it answers.
    ///
    /// # Errors
    ///
    /// Fails when the program is missing, or does not accept the rules.
    pub async fn start(
        rules: &str,
        targets: &[String],
        interval: Duration,
    ) -> anyhow::Result<Self> {
        let program = find_program("prometheus")
            .context("no prometheus in PATH: run scripts/install.sh test")?;
        let dir = tempfile::Builder::new().prefix("prometheus-").tempdir()?;
        let file = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(file("rules.yml"), rules)?;
        let every = format!("{}ms", interval.as_millis());
        let config = format!(
            "global: {{scrape_interval: {every}, scrape_timeout: {every}, \
             evaluation_interval: {every}}}\n\
             rule_files: [rules.yml]\n\
             scrape_configs:\n  - job_name: outbox-router\n    \
             static_configs: [{{targets: {}}}]\n",
            serde_json::to_string(targets)?
        );
        std::fs::write(file("prometheus.yml"), config)?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let spec = ProcessSpec::new(program, dir.path().join("log"))
            .arg(format!("--config.file={}", file("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", file("data")))
            .arg(format!("--web.listen-address={address}"));
        let prometheus = Self { process: Process::start(&spec)?, address, _dir: dir };
        let answers = until_ok(START_DEADLINE, "Prometheus", || async {
            let answer = get(&prometheus.address, "/-/ready").await?;
            ensure!(answer.status == 200, "it answers {}", answer.body);
            Ok(())
        });
        answers.await.with_context(|| prometheus.process.output().unwrap_or_default())?;
        Ok(prometheus)
    }

    /// Every alert that is pending or fires now.
    ///
    /// # Errors
    ///
    /// Fails when it does not answer.
    pub async fn alerts(&self) -> anyhow::Result<Vec<ActiveAlert>> {
        let data = self.ask("/api/v1/alerts").await?;
        let alerts = data.get("alerts").and_then(Value::as_array).context("no alerts")?;
        let mut alerts: Vec<ActiveAlert> = alerts
            .iter()
            .map(|alert| {
                let text = |pointer| alert.pointer(pointer).and_then(Value::as_str);
                let owned = |pointer| text(pointer).unwrap_or_default().to_owned();
                ActiveAlert {
                    name: owned("/labels/alertname"),
                    pipeline: owned("/labels/pipeline"),
                    fires: text("/state") == Some("firing"),
                }
            })
            .collect();
        alerts.sort();
        Ok(alerts)
    }

    /// What a query gives now: each element with its labels and its value.
    ///
    /// # Errors
    ///
    /// Fails when it does not answer, or does not accept the query.
    pub async fn query(&self, query: &str) -> anyhow::Result<Vec<(Value, f64)>> {
        let data = self.ask(&format!("/api/v1/query?query={}", encoded(query))).await?;
        let result = data.get("result").and_then(Value::as_array).context("no result")?;
        result
            .iter()
            .map(|element| {
                let value = element.pointer("/value/1").and_then(Value::as_str);
                let value = value.context("an element without a value")?.parse()?;
                Ok((element.get("metric").cloned().unwrap_or_default(), value))
            })
            .collect()
    }

    async fn ask(&self, path: &str) -> anyhow::Result<Value> {
        let answer = get(&self.address, path).await?;
        let body: Value = serde_json::from_str(&answer.body)
            .with_context(|| format!("{path}: {}", answer.body))?;
        ensure!(answer.status == 200, "{path}: {body}");
        body.get("data").cloned().with_context(|| format!("{path}: {body}"))
    }
}

/// A query as a URL takes it.
fn encoded(query: &str) -> String {
    let mut encoded = String::new();
    for byte in query.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_rule_fires_and_a_query_gives_labels_and_value() {
        let rules = "groups: [{name: g, rules: [{alert: Down, \
                     expr: 'max by (pipeline) (label_replace(up, \"pipeline\", \"p\", \"\", \"\")) \
                     == 0'}]}]";
        let nobody = format!("127.0.0.1:{}", free_port().unwrap());
        let prometheus = Prometheus::start(rules, &[nobody], Duration::from_secs(1)).await.unwrap();
        let wanted = ActiveAlert { name: "Down".into(), pipeline: "p".into(), fires: true };
        until_ok(START_DEADLINE, "an alert", || async {
            let alerts = prometheus.alerts().await?;
            ensure!(alerts.contains(&wanted), "{alerts:?}");
            Ok(())
        })
        .await
        .unwrap();
        let result =
            prometheus.query("max by (job) (up{job=\"outbox-router\"}) + 1").await.unwrap();
        assert_eq!(result, [(serde_json::json!({"job": "outbox-router"}), 1.0)]);
        assert!(prometheus.query("max by (").await.is_err());
    }
}
