//! Everything that the demo needs: PostgreSQL with an outbox, a broker with the topic, a consumer
//! that reads from the start, the router, and writers.

use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::kafka;
use testbed::load::{Load, PayloadBytes, Preset, RunningLoad, Schema};
use testbed::postgres::{DATABASE, DatabaseSession, PostgresOptions, PostgresServer, SUPERUSER};
use testbed::reader::{ConsumedRecord, Follower};
use testbed::router::{RouterConfig, RouterProcess};
use testbed::truth::{Mapping, Truth};
use testbed::wait::eventually;
use uuid::Uuid;

use crate::args::Args;
use crate::kafka::DemoKafka;

/// Name of the slot, of the publication, and of the role that the router connects as.
pub(crate) const SLOT: &str = "outbox_router";

/// Aggregate type of every event; the topic is named after it.
const AGGREGATE_TYPE: &str = "order";

/// Connections that write.
pub(crate) const WRITERS: usize = 4;

const SOON: Duration = Duration::from_secs(60);

/// What was created on an existing cluster.
#[derive(Debug, Default)]
pub(crate) struct CreatedTopics {
    /// Bootstrap servers and name of each topic.
    topics: Vec<(String, String)>,
}

impl CreatedTopics {
    /// Deletes the topics.
    pub(crate) async fn delete(self) -> anyhow::Result<()> {
        for (bootstrap, topic) in self.topics {
            kafka::delete_topic(&bootstrap, &topic)
                .await
                .with_context(|| format!("topic \"{topic}\" remains on {bootstrap}: delete it"))?;
        }
        Ok(())
    }
}

/// The servers, the consumer and the router. Fields are dropped in order: the router first, the
/// servers last.
pub(crate) struct DemoSystem {
    pub(crate) router: RouterProcess,
    pub(crate) session: DatabaseSession,
    consumer: Option<Follower>,
    pub(crate) broker: DemoKafka,
    pub(crate) postgres: PostgresServer,
    pub(crate) topic: String,
    mapping: Mapping,
    schema: Schema,
}

impl DemoSystem {
    /// Starts the servers, lets the product's own `setup` prepare PostgreSQL, and attaches the
    /// consumer. The router does not run yet.
    pub(crate) async fn build(
        args: &Args,
        created_topics: &mut CreatedTopics,
    ) -> anyhow::Result<Self> {
        let version = PostgresOptions::version(args.postgres_version);
        let (broker, postgres) =
            tokio::try_join!(DemoKafka::open(args), PostgresServer::start(version))?;
        let topic_prefix = match &broker {
            // A name of its own: it must be neither a topic of the cluster's owner nor one of an
            // earlier demo.
            DemoKafka::Given(_) => format!("outbox-demo-{}.", Uuid::new_v4().simple()),
            DemoKafka::Embedded(_) | DemoKafka::Apache { .. } => Mapping::default().topic_prefix,
        };
        let topic = format!("{topic_prefix}{AGGREGATE_TYPE}");
        let state_topic = state_topic(&topic_prefix);
        broker.create_topic(&topic).await?;
        broker.provide_state_topic(&state_topic)?;
        if let DemoKafka::Given(bootstrap) = &broker {
            let both = [topic.clone(), state_topic].map(|topic| (bootstrap.clone(), topic));
            created_topics.topics.extend(both);
        }
        let consumer = Follower::start(&broker.bootstrap_of_consumer(), &[&topic])
            .await
            .context("cannot attach the consumer")?;
        let router = RouterProcess::with_config(&config(&postgres, &broker, &topic_prefix))?;
        set_up(&router, &postgres).await?;
        let schema = Schema::new(Preset::Default).types(&[AGGREGATE_TYPE]).aggregates(200);
        let session = postgres.connect().await?;
        schema.create_bookkeeping(&session).await?;
        let mapping = Mapping { topic_prefix, ..Mapping::default() };
        let consumer = Some(consumer);
        Ok(Self { router, session, consumer, broker, postgres, topic, mapping, schema })
    }

    /// Starts the writers, at a low rate, because this is no measurement.
    pub(crate) fn write(&self) -> RunningLoad {
        let load = Load {
            writers: WRITERS,
            think: Duration::from_millis(4),
            payload: PayloadBytes { min: 20, max: 300 },
            ..Load::default()
        };
        load.start(&self.postgres.url(SUPERUSER, DATABASE), &self.schema)
    }

    /// Everything that was committed, from the table that each transaction writes beside its
    /// events.
    pub(crate) async fn truth(&self) -> anyhow::Result<Truth> {
        Truth::from_committed(&self.session, &self.mapping).await
    }

    /// Everything that is in Kafka now, once the consumer has reached the end of every partition.
    /// The consumer ends then.
    pub(crate) async fn drain_consumer(&mut self) -> anyhow::Result<Vec<ConsumedRecord>> {
        let consumer = self.consumer.take().context("the consumer was drained before")?;
        let bootstrap = self.broker.bootstrap_of_consumer();
        let ends = kafka::end_offsets(&bootstrap, &self.topic).await?;
        let there = usize::try_from(ends.iter().sum::<i64>())?;
        let read = eventually(SOON, format!("{there} records at the consumer"), async || {
            Ok((consumer.count() >= there).then_some(()))
        })
        .await;
        // An error of the consumer says more than the timeout.
        let seen = consumer.stop().await?;
        read?;
        Ok(seen)
    }
}

/// The state topic of the router; the product's `setup` creates it.
fn state_topic(topic_prefix: &str) -> String {
    format!("{topic_prefix}router-state")
}

/// The router's configuration: what a person would write, with readings that are updated often.
fn config(postgres: &PostgresServer, broker: &DemoKafka, topic_prefix: &str) -> String {
    let mut config = RouterConfig::default();
    config
        .set("name", "demo")
        .set("postgres.url", postgres.url(SLOT, DATABASE))
        .set("kafka.bootstrap_servers", broker.bootstrap())
        .set("kafka.state_topic", state_topic(topic_prefix))
        .set("monitor.interval", "250ms")
        .set("log.format", "text")
        .set_outbox("table", "public.outbox")
        .set_outbox("topic", format!("{topic_prefix}${{aggregate_type}}"));
    config.to_string()
}

/// Creates table, role, publication and slot by the product's own command.
async fn set_up(router: &RouterProcess, postgres: &PostgresServer) -> anyhow::Result<()> {
    let admin = postgres.url(SUPERUSER, DATABASE);
    let arguments =
        ["setup", "--apply", "--create-table", "--role", SLOT, "--admin-url", admin.as_str()];
    let output = router.command(&arguments).await?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "outbox-router setup failed: {}", stderr.trim());
    Ok(())
}
