//! The Kafka of the demo: librdkafka's mock cluster in this process, an Apache Kafka that is
//! started, or an existing cluster.

use std::time::Duration;

use anyhow::Context;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use testbed::kafka::{self, KafkaCluster, KafkaOptions};
use testbed::proxy::{Proxy, ProxyMode};

use crate::args::{Args, OwnBroker};

/// Enough to distribute keys, and few enough to read.
pub(crate) const PARTITIONS: i32 = 6;

/// The only broker of a mock cluster.
const MOCK_BROKER: i32 = 1;

/// A broker, and the means to stop it.
pub(crate) enum DemoKafka {
    /// In this process and in memory.
    Embedded(MockCluster<'static, DefaultProducerContext>),
    /// A process that the demo has started; the router reaches it through the proxy.
    Apache {
        /// The cluster.
        kafka: Box<KafkaCluster>,
        /// What it advertises to the router.
        proxy: Proxy,
    },
    /// An existing cluster: the demo does not interrupt it.
    Given(String),
}

impl DemoKafka {
    /// Starts the broker that was asked for, or none.
    pub(crate) async fn open(args: &Args) -> anyhow::Result<Self> {
        if let Some(bootstrap) = &args.kafka {
            return Ok(Self::Given(bootstrap.clone()));
        }
        match args.broker {
            OwnBroker::Embedded => {
                let cluster = MockCluster::new(1).context("cannot start the embedded broker")?;
                Ok(Self::Embedded(cluster))
            }
            OwnBroker::Apache => {
                // The proxy comes first, because the broker has to know what to advertise.
                let proxy = Proxy::start("127.0.0.1:1")?;
                let options = KafkaOptions::default().advertise(proxy.address());
                let mut kafka = Box::new(KafkaCluster::start(options).await?);
                proxy.set_target(kafka.broker(1)?.proxied_address()?);
                Ok(Self::Apache { kafka, proxy })
            }
        }
    }

    /// What it is, for people.
    pub(crate) fn description(&self) -> &'static str {
        match self {
            Self::Embedded(_) => {
                "embedded: librdkafka's mock cluster, inside this process, in memory\n\
                 (--real-kafka starts an Apache Kafka, --kafka HOST:PORT uses yours)"
            }
            Self::Apache { .. } => "Apache Kafka, temporary; the router connects through a proxy",
            Self::Given(_) => "yours; the demo uses topics of its own and deletes them at the end",
        }
    }

    /// The router's `bootstrap.servers`.
    pub(crate) fn bootstrap(&self) -> String {
        match self {
            Self::Embedded(cluster) => cluster.bootstrap_servers(),
            Self::Apache { proxy, .. } => proxy.address(),
            Self::Given(bootstrap) => bootstrap.clone(),
        }
    }

    /// The consumer's `bootstrap.servers`: no proxy stands before it, because the consumer is not
    /// what is tested.
    pub(crate) fn bootstrap_of_consumer(&self) -> String {
        match self {
            Self::Apache { kafka, .. } => kafka.bootstrap(),
            Self::Embedded(_) | Self::Given(_) => self.bootstrap(),
        }
    }

    /// Creates a topic. The mock cluster has no admin API, so it is created in the cluster object.
    pub(crate) async fn create_topic(&self, name: &str) -> anyhow::Result<()> {
        match self {
            Self::Embedded(cluster) => cluster
                .create_topic(name, PARTITIONS, 1)
                .with_context(|| format!("cannot create topic \"{name}\"")),
            Self::Apache { kafka, .. } => kafka.create_topic(name, PARTITIONS, &[]).await,
            Self::Given(bootstrap) => {
                // One replica is enough for half a minute, also where the cluster asks for two.
                let configs = [("min.insync.replicas", "1")];
                kafka::create_topic(bootstrap, name, PARTITIONS, &configs).await.with_context(
                    || {
                        format!(
                            "cannot create topic \"{name}\" on {bootstrap}: does Kafka listen there, \
                             and may its clients create topics?"
                        )
                    },
                )
            }
        }
    }

    /// Creates the state topic in the mock cluster; on other clusters the product's `setup` creates
    /// it.
    pub(crate) fn provide_state_topic(&self, name: &str) -> anyhow::Result<()> {
        match self {
            Self::Embedded(cluster) => cluster
                .create_topic(name, 1, 1)
                .with_context(|| format!("cannot create topic \"{name}\"")),
            Self::Apache { .. } | Self::Given(_) => Ok(()),
        }
    }

    /// How long the router is cut off from the broker; `None` for an existing cluster.
    pub(crate) fn outage(&self) -> Option<Duration> {
        match self {
            Self::Embedded(_) | Self::Apache { .. } => Some(Duration::from_secs(6)),
            Self::Given(_) => None,
        }
    }

    /// Closes every connection and refuses new ones.
    pub(crate) async fn disconnect(&self) -> anyhow::Result<()> {
        match self {
            Self::Embedded(cluster) => Ok(cluster.broker_down(MOCK_BROKER)?),
            Self::Apache { proxy, .. } => {
                proxy.set(ProxyMode::Refuse).await?;
                proxy.cut();
                Ok(())
            }
            Self::Given(_) => Ok(()),
        }
    }

    /// Takes connections again.
    pub(crate) async fn reconnect(&self) -> anyhow::Result<()> {
        match self {
            Self::Embedded(cluster) => Ok(cluster.broker_up(MOCK_BROKER)?),
            Self::Apache { proxy, .. } => proxy.set(ProxyMode::Forward).await,
            Self::Given(_) => Ok(()),
        }
    }
}
