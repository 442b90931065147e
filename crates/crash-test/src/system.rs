//! The servers, the writers, and the router that is killed.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use testbed::kafka::{KafkaCluster, KafkaOptions};
use testbed::load::{Load, Preset, RunningLoad, Schema};
use testbed::postgres::{
    DATABASE, DatabaseSession, PostgresOptions, PostgresServer, SUPERUSER, create_slot,
};
use testbed::proxy::Proxy;
use testbed::router::{RouterConfig, RouterProcess};
use testbed::tail::{EndOffsets, Tail};
use testbed::tap::Tap;
use testbed::truth::Mapping;
use testbed::wait::eventually;
use tokio_postgres::types::PgLsn;

use crate::observer;
use crate::state_topic::{self, NAME, SLOT, StateTopicReader};
use crate::tally::SlotPersistence;

/// Aggregate types, each with a topic of its own.
const TYPES: [&str; 2] = ["order", "invoice"];
/// The broker of each partition of an event topic.
const EVENTS_ON: [i32; 3] = [1; 3];
/// The broker of the state topic: another one, because a router reads that topic before each
/// session, also while the broker of the events does not respond.
const STATE_ON: [i32; 1] = [2];
/// The topic of dead letters. Its responses can be held with those of the events.
const LETTERS: &str = "crash-test.dead-letters";
const LETTERS_ON: [i32; 1] = [1];
/// The router's `limits.window_events`: small, so that it really limits the duplicates.
pub(crate) const WINDOW_EVENTS: usize = 300;
/// The window in bytes of a router whose queue is to run full: two windows must be more than a
/// window and a row.
pub(crate) const NARROW_BYTES: u64 = 256 * 1024;

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// How the router reaches Kafka, and how much it may have in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setup {
    /// Directly.
    Direct,
    /// Through the proxies; the one before the broker of the events can hold responses.
    Proxied,
    /// Through the proxies, with a window of a few rows.
    Narrow,
}

/// What a router is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It sends what is new to every topic.
    Flowing,
    /// It has ended.
    Ended,
}

/// Fields are dropped in order: the router first, the servers last.
pub(crate) struct TestSystem {
    pub(crate) router: RouterProcess,
    /// `None` when they were stopped.
    pub(crate) writers: Option<RunningLoad>,
    pub(crate) tail: Tail,
    pub(crate) state: StateTopicReader,
    /// The topic of dead letters.
    pub(crate) letters: Tail,
    pub(crate) session: DatabaseSession,
    /// Before the broker of the events.
    pub(crate) proxy: Proxy,
    /// Before the broker of the state topic. It forwards everything.
    state_proxy: Proxy,
    /// Between the router and PostgreSQL.
    pub(crate) tap: Tap,
    pub(crate) postgres: PostgresServer,
    pub(crate) kafka: KafkaCluster,
    pub(crate) schema: Schema,
    pub(crate) mapping: Mapping,
    pub(crate) topics: Vec<String>,
    /// Length of the log when the router was last started, in bytes.
    log_before: usize,
    version: u16,
}

impl TestSystem {
    /// Starts everything but the router.
    pub(crate) async fn build(version: u16, seed: u64) -> anyhow::Result<Self> {
        // The proxies come first, because the brokers have to know what to advertise.
        let (proxy, state_proxy) = (Proxy::start("127.0.0.1:1")?, Proxy::start("127.0.0.1:1")?);
        let brokers = KafkaOptions::default()
            .brokers(2)
            .advertise(proxy.address())
            .advertise(state_proxy.address());
        let (mut kafka, postgres) = tokio::try_join!(
            KafkaCluster::start(brokers),
            PostgresServer::start(PostgresOptions::version(version))
        )?;
        let tap = Tap::start(postgres.address()).await?;
        proxy.set_target(kafka.broker(1)?.proxied_address()?);
        state_proxy.set_target(kafka.broker(2)?.proxied_address()?);
        let mapping = Mapping::default();
        let topics: Vec<String> =
            TYPES.map(|name| format!("{}{name}", mapping.topic_prefix)).into();
        for topic in &topics {
            kafka.create_topic_on(topic, &EVENTS_ON).await?;
        }
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        let tail = Tail::open(&kafka.bootstrap(), &names)?;
        kafka.create_topic_on(state_topic::TOPIC, &STATE_ON).await?;
        kafka.set_topic(state_topic::TOPIC, &[("cleanup.policy", "compact")]).await?;
        let state = StateTopicReader::open(&kafka.bootstrap())?;
        kafka.create_topic_on(LETTERS, &LETTERS_ON).await?;
        let letters = Tail::open(&kafka.bootstrap(), &[LETTERS])?;
        let schema = Schema::new(Preset::Default).types(&TYPES).aggregates(60);
        let session = postgres.connect().await?;
        prepare(&session, &schema).await?;
        let load = Load { writers: 6, think: Duration::from_millis(8), seed, ..Load::default() };
        let writers = Some(load.start(&postgres.url(SUPERUSER, DATABASE), &schema));
        let router = RouterProcess::with_config("")?;
        let system = Self {
            router,
            writers,
            tail,
            state,
            letters,
            session,
            proxy,
            state_proxy,
            tap,
            postgres,
            kafka,
            schema,
            mapping,
            topics,
            log_before: 0,
            version,
        };
        system.make_tables().await?;
        Ok(system)
    }

    /// Makes the tables of dead letters, as a person would.
    async fn make_tables(&self) -> anyhow::Result<()> {
        self.router.set_config(&self.config(Setup::Direct))?;
        let url = self.postgres.url(SUPERUSER, DATABASE);
        let setup = ["setup", "--apply", "--dead-letters", "--skip-kafka", "--admin-url", &url];
        let output = self.router.command(&setup).await?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "setup made no tables of dead letters: {text}");
        Ok(())
    }

    /// Starts the router.
    pub(crate) fn start(&mut self, setup: Setup) -> anyhow::Result<()> {
        self.router.set_config(&self.config(setup))?;
        self.log_before = self.router.log().len();
        self.router.start_again()
    }

    /// The router's log since its last start.
    pub(crate) fn log_since_start(&self) -> String {
        self.router.log().get(self.log_before..).unwrap_or_default().to_owned()
    }

    /// Sessions that the router has lost since its last start, without the last session.
    pub(crate) fn sessions_lost(&self) -> usize {
        self.log_since_start().matches(" connected slot=").count().saturating_sub(1)
    }

    fn config(&self, setup: Setup) -> String {
        let bootstrap = match setup {
            Setup::Direct => self.kafka.bootstrap(),
            Setup::Proxied | Setup::Narrow => {
                format!("{},{}", self.proxy.address(), self.state_proxy.address())
            }
        };
        let mut config = RouterConfig::default();
        config
            .set("name", NAME)
            .set(
                "postgres.url",
                format!("postgres://{SLOT}@127.0.0.1:{}/{DATABASE}", self.tap.port()),
            )
            .set("postgres.slot", SLOT)
            .set("postgres.publication", SLOT)
            .set("kafka.bootstrap_servers", bootstrap)
            .set("kafka.state_topic", state_topic::TOPIC)
            .set("on_error.bad_row", "dead_letter")
            .set("dead_letters.topic", LETTERS)
            .set("limits.window_events", WINDOW_EVENTS)
            .set("log.format", "text")
            .set_outbox("table", self.schema.table.as_str())
            .set_outbox("topic", format!("{}${{aggregate_type}}", self.mapping.topic_prefix));
        if setup == Setup::Narrow {
            config
                .set("limits.window_bytes", format!("{}KiB", NARROW_BYTES / 1024))
                .set("limits.row_bytes", "64KiB");
        }
        config.to_string()
    }

    /// Waits until nothing of a dead router is at work in the server any more: a request whose
    /// answer it did not wait for may still be.
    pub(crate) async fn wait_requests_ended(&self) -> anyhow::Result<()> {
        let query = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = $1)";
        eventually(DEADLINE, "the end of the router's sessions", async || {
            let row = self.session.query_one(query, &[&SLOT]).await?;
            Ok((!row.get::<_, bool>(0)).then_some(()))
        })
        .await
    }

    /// Waits until the router sends what is new to every topic.
    pub(crate) async fn wait_flowing(&mut self) -> anyhow::Result<()> {
        let flow = self.wait_flowing_or_ended().await?;
        ensure!(flow == Flow::Flowing, "the router ended; its log:\n{}", self.log_since_start());
        Ok(())
    }

    /// [`wait_flowing`](Self::wait_flowing) for a router that may end instead.
    pub(crate) async fn wait_flowing_or_ended(&mut self) -> anyhow::Result<Flow> {
        let before = self.tail.ends()?;
        eventually(DEADLINE, "new records in every topic", || {
            let flow = self.flow_since(&before);
            async move { flow }
        })
        .await
    }

    /// Waits until the witness has moved on, or the router has ended.
    pub(crate) async fn wait_witness_moved_or_ended(&mut self) -> anyhow::Result<()> {
        let before = self.state.position()?;
        eventually(DEADLINE, "a new position of the witness", || {
            let moved = self.has_witness_moved(before);
            async move { moved }
        })
        .await
    }

    fn has_witness_moved(&mut self, before: Option<PgLsn>) -> anyhow::Result<Option<()>> {
        let has_ended = self.router.process()?.try_wait()?.is_some();
        Ok((has_ended || self.state.position()? > before).then_some(()))
    }

    fn flow_since(&mut self, before: &EndOffsets) -> anyhow::Result<Option<Flow>> {
        if self.router.process()?.try_wait()?.is_some() {
            return Ok(Some(Flow::Ended));
        }
        let now = self.tail.ends()?;
        let grew = |topic: &String| now.records_of(topic) > before.records_of(topic);
        Ok(self.topics.iter().all(grew).then_some(Flow::Flowing))
    }

    /// Whether a slot keeps its position when the server is stopped in order: before PostgreSQL 17
    /// nothing saves it then.
    pub(crate) const fn slot_persistence(&self) -> SlotPersistence {
        if self.version < 17 { SlotPersistence::Lost } else { SlotPersistence::Kept }
    }

    /// One number of the router's `/status.json`.
    pub(crate) async fn status_number(&self, pointer: &str) -> anyhow::Result<Option<u64>> {
        let status = self.router.status().await.unwrap_or_default();
        Ok(status.pointer(pointer).and_then(Value::as_u64))
    }
}

/// Creates tables, publication and slots. In a hundredth of the rows is a value that PostgreSQL
/// cannot print without a warning, which the walsender sends to the router in the middle of the
/// stream.
async fn prepare(session: &DatabaseSession, schema: &Schema) -> anyhow::Result<()> {
    schema.create(session).await?;
    session
        .batch_execute(&format!(
            "CREATE TABLE testbed.other (n int8);
             CREATE CAST (bytea AS xml) WITHOUT FUNCTION;
             ALTER TABLE {table} ADD COLUMN note xml;
             ALTER TABLE {table} ALTER COLUMN note SET DEFAULT \
                 CASE WHEN random() < 0.01 THEN ('<?xml'::bytea)::xml END;
             CREATE ROLE {SLOT} LOGIN REPLICATION;
             CREATE PUBLICATION {SLOT} FOR TABLE {table} \
                 WITH (publish = 'insert', publish_via_partition_root = true);",
            table = schema.table
        ))
        .await
        .context("cannot prepare the database")?;
    create_slot(session, SLOT, "pgoutput").await?;
    observer::create(session).await
}
