//! A connector of Debezium on a worker of Kafka Connect, as a team has one that publishes its
//! outbox.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use e2e::Fixture;
use serde_json::{Value, json};
use testbed::debezium::{ConnectorState, Worker, WorkerOptions};
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::wait::eventually;

/// The connector's name.
pub(super) const NAME: &str = "outbox-connector";

/// A task starts within seconds, on a machine that is busy with other things.
const TASK_DEADLINE: Duration = Duration::from_secs(90);

/// The worker, and the file with the connector's configuration.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) worker: Worker,
    config: Value,
}

impl Connector {
    /// Starts a worker without connectors, with its defaults: it stores offsets every 60 seconds.
    pub(super) async fn on_a_worker(fixture: &Fixture, config: Value) -> anyhow::Result<Self> {
        let worker = Worker::start(&WorkerOptions::new(&fixture.kafka.bootstrap()))?;
        worker.wait_ready().await?;
        Ok(Self { worker, config })
    }

    /// Creates the connector, in the state `RUNNING` or `STOPPED`.
    pub(super) async fn create(&self, state: &str) -> anyhow::Result<()> {
        let body = json!({ "name": NAME, "config": self.config, "initial_state": state });
        self.worker.send("POST", "/connectors", Some(&body.to_string())).await.map(drop)
    }

    /// The file that a team keeps in its repository.
    pub(super) fn file(&self, dir: &Path) -> anyhow::Result<PathBuf> {
        let path = dir.join("connector.json");
        let body = json!({ "name": NAME, "config": self.config });
        std::fs::write(&path, format!("{body:#}"))?;
        Ok(path)
    }

    /// Stops or resumes it.
    pub(super) async fn put(&self, action: &str) -> anyhow::Result<()> {
        let path = format!("/connectors/{NAME}/{action}");
        self.worker.send("PUT", &path, None).await.map(drop)
    }

    /// Deletes what it has stored; it must be stopped.
    pub(super) async fn forget_offsets(&self) -> anyhow::Result<()> {
        let path = format!("/connectors/{NAME}/offsets");
        self.worker.send("DELETE", &path, None).await.map(drop)
    }

    /// Sets a property, of a connector that exists and of one that is created later.
    pub(super) async fn configure(&mut self, name: &str, value: &str) -> anyhow::Result<()> {
        let config = self.config.as_object_mut().context("a configuration is an object")?;
        config.insert(name.to_owned(), value.into());
        let path = format!("/connectors/{NAME}/config");
        self.worker.send("PUT", &path, Some(&self.config.to_string())).await.map(drop)
    }

    /// Waits until the connector is in a state; one that has failed ends the wait.
    pub(super) async fn wait(&self, wanted: &ConnectorState) -> anyhow::Result<()> {
        let what = format!("the connector to be {wanted:?}");
        let waited =
            eventually(TASK_DEADLINE, what, async || match self.worker.connector(NAME).await {
                Some(ConnectorState::Failed(why)) => bail!("the connector has failed: {why}"),
                state => Ok((state.as_ref() == Some(wanted)).then_some(())),
            });
        waited.await.with_context(|| self.worker.log())
    }
}

/// The configuration that tutorials show: the connector makes slot and publication itself, so the
/// publication is for all tables.
pub(super) fn tutorial(fixture: &Fixture) -> Value {
    json!({
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": fixture.postgres.port().to_string(),
        "database.user": SUPERUSER,
        "database.password": "unused",
        "database.dbname": DATABASE,
        "database.sslmode": "disable",
        "topic.prefix": "shop",
        "slot.name": e2e::SLOT,
        "publication.name": e2e::PUBLICATION,
        "table.include.list": "public.outbox",
        "tombstones.on.delete": "false",
        "extended.headers.enabled": "false",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.route.topic.replacement":
            format!("{}${{routedByValue}}", fixture.mapping.topic_prefix),
    })
}
