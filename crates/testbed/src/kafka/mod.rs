//! A throw-away Apache Kafka: real brokers in KRaft mode on free ports.
//!
//! Brokers can be stopped, killed, frozen and started again on the same ports with their data.
//! Session timeouts are short, because a broker killed with SIGKILL can register again only when
//! its old registration has expired. Broker 1 is also the controller, so scenarios that need a
//! partition without leader stop another broker.
//!
//! A client that must go through a proxy needs a broker that *advertises* the proxy. So each broker
//! has a second listener when [`KafkaOptions::advertise`] names one: start the proxy first,
//! advertise its address, then let it forward to [`Broker::proxied_address`]. Readers keep using
//! [`KafkaCluster::bootstrap`].

mod acls;
mod admin;
mod broker;
mod classes;
mod options;

pub(crate) use admin::{client_config, led_partitions};
// For clusters that this crate has not started.
pub use admin::{create_topic, delete_topic, end_offsets};

use std::path::PathBuf;

use anyhow::{Context, ensure};
use tempfile::TempDir;

pub use broker::Broker;
use broker::START_DEADLINE;
pub use options::{Jvm, KafkaOptions};

use crate::scripts;
use crate::wait::until_ok;

/// A Kafka cluster of its own.
#[derive(Debug)]
pub struct KafkaCluster {
    // Before `dir`: fields are dropped in order, and the brokers have to end before their files are
    // removed.
    brokers: Vec<Broker>,
    jars: PathBuf,
    _dir: TempDir,
}

impl KafkaCluster {
    /// Starts a cluster and returns when all its brokers are registered.
    ///
    /// # Errors
    ///
    /// Fails when Kafka cannot be fetched or a broker does not come up.
    pub async fn start(options: KafkaOptions) -> anyhow::Result<Self> {
        ensure!(options.brokers > 0, "a cluster has at least one broker");
        let jars: PathBuf =
            scripts::last_line_of("kafka.sh", &[]).await.context("Apache Kafka is missing")?;
        let dir = tempfile::Builder::new().prefix("kafka-").tempdir()?;
        let brokers = broker::plan(&options, &jars, classes::shared(&jars).await?, dir.path())?;
        let mut kafka = Self { brokers, jars, _dir: dir };
        for broker in &mut kafka.brokers {
            broker.format(&kafka.jars).await?;
        }
        kafka.start_again().await?;
        Ok(kafka)
    }

    /// The version, as it stands in the names of its jars.
    ///
    /// # Errors
    ///
    /// Fails when Kafka cannot be fetched.
    pub async fn version() -> anyhow::Result<String> {
        let jars = scripts::last_line_of("kafka.sh", &[]).await?;
        let name = jars.file_name().context("no name")?.to_string_lossy();
        Ok(name.trim_start_matches("kafka-").to_owned())
    }

    /// Bootstrap addresses for clients that go through no proxy.
    pub fn bootstrap(&self) -> String {
        self.brokers.iter().map(Broker::address).collect::<Vec<_>>().join(",")
    }

    /// One broker.
    ///
    /// # Errors
    ///
    /// Fails when there is no broker of that id.
    pub fn broker(&mut self, id: i32) -> anyhow::Result<&mut Broker> {
        self.brokers
            .iter_mut()
            .find(|broker| broker.id() == id)
            .with_context(|| format!("there is no broker {id}"))
    }

    /// Starts every broker that does not run, with the same ports and data, and returns when all of
    /// them are registered.
    ///
    /// # Errors
    ///
    /// Fails when a broker does not come up.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        for broker in &mut self.brokers {
            broker.launch()?;
        }
        for broker in &mut self.brokers {
            broker.listens(START_DEADLINE).await?;
        }
        let (bootstrap, expected) = (self.bootstrap(), self.brokers.len());
        until_ok(START_DEADLINE, format!("{expected} registered brokers"), async || {
            let found = admin::broker_count(&bootstrap).await?;
            ensure!(found == expected, "{found} of {expected} brokers are registered");
            Ok(())
        })
        .await
    }

    /// Kills every broker with SIGKILL.
    ///
    /// # Errors
    ///
    /// Fails when a broker cannot be killed.
    pub async fn kill9(&mut self) -> anyhow::Result<()> {
        for broker in &mut self.brokers {
            broker.kill9().await?;
        }
        Ok(())
    }

    /// Stops every broker in order, the controller last.
    ///
    /// # Errors
    ///
    /// Fails when a broker does not end.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        for broker in self.brokers.iter_mut().rev() {
            broker.stop().await?;
        }
        Ok(())
    }

    /// Replaces the cluster by an empty one with another id, on the same ports.
    ///
    /// # Errors
    ///
    /// Fails when a broker cannot be killed, or does not come up.
    pub async fn exchange(&mut self) -> anyhow::Result<()> {
        self.kill9().await?;
        for broker in &mut self.brokers {
            broker.exchange(&self.jars).await?;
        }
        self.start_again().await
    }

    /// Freezes every broker with SIGSTOP: connections stay open, and nothing answers.
    ///
    /// # Errors
    ///
    /// Fails when a broker does not run.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.brokers.iter_mut().try_for_each(Broker::pause)
    }

    /// Continues frozen brokers.
    ///
    /// # Errors
    ///
    /// Fails when a broker does not run.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.brokers.iter_mut().try_for_each(Broker::resume)
    }
}
