//! A fixture: one PostgreSQL with an outbox, a publication and a slot, one Kafka with the topics,
//! and a router between them.

use anyhow::Context;
use serde_json::Value;
use testbed::checker::LateReplays;
use testbed::commit_tracker::CommitTracker;
use testbed::kafka::KafkaOptions;
use testbed::load::{Journal, Load, Preset, RunningLoad, Schema};
use testbed::postgres::{
    DATABASE, DatabaseSession, PostgresOptions, PostgresServer, SUPERUSER, create_slot,
};
use testbed::proxy::Proxy;
use testbed::router::{RouterConfig, RouterProcess, last_lines};
use testbed::truth::{Format, Mapping};
use testbed::wait::eventually;

use crate::kafka::{FixtureKafka, topic_prefix};
use crate::{LONG_DEADLINE, PUBLICATION, ROLE, SLOT, postgres_version};

/// Where a connection that can be disturbed is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NetworkPath {
    Direct,
    Proxied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitTracking {
    Off,
    On,
}

/// What PostgreSQL has before the router comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Database {
    Empty,
    Prepared,
}

/// What is special about a fixture.
#[derive(Debug)]
pub struct FixtureBuilder {
    schema: Schema,
    database: Database,
    format: Format,
    partitions: Option<i32>,
    postgres: PostgresOptions,
    postgres_link: NetworkPath,
    own_kafka: Option<KafkaOptions>,
    kafka_link: NetworkPath,
    config: RouterConfig,
    commit_tracking: CommitTracking,
}

impl FixtureBuilder {
    /// Another outbox table than `public.outbox` of the preset `default`.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = schema;
        self
    }

    /// Leaves the database empty: no outbox, no role, no publication, no slot.
    #[must_use]
    pub fn empty_database(mut self) -> Self {
        self.database = Database::Empty;
        self
    }

    /// The record format; plain unless set.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Partitions of each topic: three unless set.
    #[must_use]
    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = Some(count);
        self
    }

    /// Makes no topic.
    #[must_use]
    pub fn without_topics(mut self) -> Self {
        self.partitions = None;
        self
    }

    /// A setting of PostgreSQL.
    #[must_use]
    pub fn postgres(mut self, name: &str, value: &str) -> Self {
        self.postgres = self.postgres.set(name, value);
        self
    }

    /// A server with another system identifier than those of other scenarios.
    #[must_use]
    pub fn another_identity(mut self) -> Self {
        self.postgres = self.postgres.another_identity();
        self
    }

    /// A line of `pg_hba.conf` before those that trust everybody.
    #[must_use]
    pub fn hba(mut self, line: &str) -> Self {
        self.postgres = self.postgres.hba(line);
        self
    }

    /// Lets the router reach PostgreSQL through [`Fixture::postgres_proxy`].
    #[must_use]
    pub fn proxied_postgres(mut self) -> Self {
        self.postgres_link = NetworkPath::Proxied;
        self
    }

    /// A Kafka that no other scenario uses.
    #[must_use]
    pub fn own_kafka(mut self, options: KafkaOptions) -> Self {
        self.own_kafka = Some(options);
        self
    }

    /// A Kafka of its own, of one broker, which the router reaches through
    /// [`Fixture::kafka_proxy`].
    #[must_use]
    pub fn proxied_kafka(mut self) -> Self {
        self.kafka_link = NetworkPath::Proxied;
        self
    }

    /// Sets a key of the router's configuration.
    #[must_use]
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        self.config.set(path, value);
        self
    }

    /// Sets a key of `[[outbox]]`.
    #[must_use]
    pub fn set_outbox(mut self, path: &str, value: impl Into<Value>) -> Self {
        self.config.set_outbox(path, value);
        self
    }

    /// Watches commits from the start, for [`Fixture::check_confirmed_events_are_in_kafka`].
    #[must_use]
    pub fn track_commits(mut self) -> Self {
        self.commit_tracking = CommitTracking::On;
        self
    }

    /// Sets everything up, and starts the router.
    ///
    /// # Errors
    ///
    /// Fails when a server is missing or the router does not get to stream.
    pub async fn start(self) -> anyhow::Result<Fixture> {
        let mut fixture = self.prepare().await?;
        fixture.restart().await?;
        Ok(fixture)
    }

    /// Sets everything up; the router is not started.
    ///
    /// # Errors
    ///
    /// Fails when a server is missing.
    pub async fn prepare(self) -> anyhow::Result<Fixture> {
        let (kafka, postgres) =
            tokio::try_join!(start_kafka(self.own_kafka, self.kafka_link), async {
                let postgres = PostgresServer::start(self.postgres).await?;
                match self.database {
                    Database::Empty => {}
                    Database::Prepared => prepare_database(&postgres, &self.schema).await?,
                }
                anyhow::Ok(postgres)
            })?;
        let (kafka, kafka_proxy) = kafka;
        let mapping = Mapping { topic_prefix: topic_prefix(), format: self.format };
        let topics = topic_names(&self.schema, &mapping);
        if let Some(partitions) = self.partitions {
            for topic in &topics {
                kafka.create_topic(topic, partitions, &[]).await?;
            }
        }
        let commit_tracker = match self.commit_tracking {
            CommitTracking::Off => None,
            CommitTracking::On => {
                Some(CommitTracker::create(&*postgres.connect().await?, "commits").await?)
            }
        };
        let postgres_proxy = match self.postgres_link {
            NetworkPath::Direct => None,
            NetworkPath::Proxied => Some(Proxy::start(postgres.address())?),
        };
        let port = postgres_proxy.as_ref().map_or(postgres.port(), Proxy::port);
        let bootstrap = kafka_proxy.as_ref().map_or_else(|| kafka.bootstrap(), Proxy::address);
        let mut config = base(port, &bootstrap, &self.schema, &mapping);
        config.add(self.config);
        Ok(Fixture {
            router: RouterProcess::with_config(&config.to_string())?,
            postgres_proxy,
            kafka_proxy,
            postgres,
            kafka,
            config,
            schema: self.schema,
            mapping,
            topics,
            commit_tracker,
            journals: Vec::new(),
            late_replays: LateReplays::Forbidden,
        })
    }
}

/// Everything that a scenario has. Fields are dropped in order: the router first.
#[derive(Debug)]
pub struct Fixture {
    /// The process under test.
    pub router: RouterProcess,
    /// The source.
    pub postgres: PostgresServer,
    /// The destination.
    pub kafka: FixtureKafka,
    /// What the router's file says; [`rewrite_config`](Self::rewrite_config) after a change.
    pub config: RouterConfig,
    /// The outbox.
    pub schema: Schema,
    /// How its rows become records.
    pub mapping: Mapping,
    /// The topics that are checked.
    pub topics: Vec<String>,
    /// Whether two routers were alive at once, which the checker must know.
    pub late_replays: LateReplays,
    pub(crate) postgres_proxy: Option<Proxy>,
    pub(crate) kafka_proxy: Option<Proxy>,
    pub(crate) commit_tracker: Option<CommitTracker>,
    pub(crate) journals: Vec<Journal>,
}

impl Fixture {
    /// The usual one: `public.outbox` of the preset `default`, one aggregate type, a topic of three
    /// partitions on the shared Kafka.
    ///
    /// # Panics
    ///
    /// Panics when `OUTBOX_PG_VERSION` is no number.
    #[expect(clippy::expect_used, reason = "a wrong environment ends the whole suite")]
    pub fn builder() -> FixtureBuilder {
        FixtureBuilder {
            schema: Schema::new(Preset::Default),
            database: Database::Prepared,
            format: Format::Plain,
            partitions: Some(3),
            postgres: PostgresOptions::version(postgres_version().expect("a major version")),
            postgres_link: NetworkPath::Direct,
            own_kafka: None,
            kafka_link: NetworkPath::Direct,
            config: RouterConfig::default(),
            commit_tracking: CommitTracking::Off,
        }
    }

    /// A superuser's session in the outbox's database.
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be reached.
    pub async fn session(&self) -> anyhow::Result<DatabaseSession> {
        self.postgres.connect().await
    }

    /// Starts writers on the outbox.
    pub fn load(&self, load: Load) -> RunningLoad {
        load.start(&self.postgres.url(SUPERUSER, DATABASE), &self.schema)
    }

    /// Keeps what writers know: ids that were rolled back may be in no topic.
    pub fn note(&mut self, journal: Journal) {
        self.journals.push(journal);
    }

    /// The connection between the router and PostgreSQL.
    ///
    /// # Errors
    ///
    /// Fails if the builder put no proxy there.
    pub fn postgres_proxy(&self) -> anyhow::Result<&Proxy> {
        self.postgres_proxy
            .as_ref()
            .context("there is no proxy: call `proxied_postgres` on the builder")
    }

    /// The connections between the router and Kafka.
    ///
    /// # Errors
    ///
    /// Fails if the builder put no proxy there.
    pub fn kafka_proxy(&self) -> anyhow::Result<&Proxy> {
        self.kafka_proxy.as_ref().context("there is no proxy: call `proxied_kafka` on the builder")
    }

    /// Writes the router's file again, for its next start.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn rewrite_config(&self) -> anyhow::Result<()> {
        self.router.set_config(&self.config.to_string())
    }

    /// A copy of the server takes over, promoted: as a standby without what was committed since.
    ///
    /// # Errors
    ///
    /// Fails when it does not come up.
    pub async fn fail_over_to(&mut self, copy: PostgresServer) -> anyhow::Result<()> {
        self.replace_postgres(copy).await?;
        self.postgres.start_promoted().await
    }

    /// Loses the server, and starts a copy of its files in its place, on the same timeline.
    ///
    /// # Errors
    ///
    /// Fails when the copy does not start.
    pub async fn restore_from(&mut self, copy: PostgresServer) -> anyhow::Result<()> {
        self.replace_postgres(copy).await?;
        self.postgres.start_again().await
    }

    async fn replace_postgres(&mut self, copy: PostgresServer) -> anyhow::Result<()> {
        self.postgres.kill9().await?;
        drop(std::mem::replace(&mut self.postgres, copy));
        self.config.set("postgres.url", self.postgres.url(ROLE, DATABASE));
        self.rewrite_config()
    }

    /// Types a command, and puts the disk of the only broker back to how it is now, once the first
    /// topic has more than so many records. Returns the exit code, and what the command said.
    ///
    /// # Errors
    ///
    /// Fails when Kafka is shared, or does not come up; or no such records come.
    pub async fn taken_back_during(
        &mut self,
        line: &[&str],
        records: i64,
    ) -> anyhow::Result<(Option<i32>, String)> {
        let broker = self.kafka.owned()?.broker(1)?;
        broker.stop().await?;
        broker.copy_disk()?;
        broker.start_again().await?;
        let run = self.router.start_command(line)?;
        let topic = self.topics.first().context("the fixture has no topic")?;
        eventually(LONG_DEADLINE, "records of the run", async || {
            let ends = self.kafka.end_offsets(topic).await?;
            Ok((ends.iter().sum::<i64>() > records).then_some(()))
        })
        .await?;
        let broker = self.kafka.owned()?.broker(1)?;
        broker.kill9().await?;
        broker.put_disk_back()?;
        broker.start_again().await?;
        let ended = run.wait_with_output().await?;
        let [out, err] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
        Ok((ended.status.code(), format!("{out}{err}")))
    }

    /// Starts the router, for the first time or again, and returns when it streams.
    ///
    /// # Errors
    ///
    /// Fails when it runs already or does not get to stream.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.router.start_again()?;
        self.wait_streaming().await
    }
}

impl Drop for Fixture {
    #[expect(clippy::print_stderr, reason = "the harness of a test, which captures it")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- configuration\n{}", self.config);
            eprintln!("--- the router's log\n{}", last_lines(&self.router.log(), 40));
            let log = std::fs::read_to_string(self.postgres.log()).unwrap_or_default();
            eprintln!("--- PostgreSQL's log\n{}", last_lines(&log, 40));
        }
    }
}

async fn start_kafka(
    own: Option<KafkaOptions>,
    link: NetworkPath,
) -> anyhow::Result<(FixtureKafka, Option<Proxy>)> {
    match (link, own) {
        (NetworkPath::Direct, None) => Ok((FixtureKafka::shared().await?, None)),
        (NetworkPath::Direct, Some(options)) => Ok((FixtureKafka::own(options).await?, None)),
        (NetworkPath::Proxied, own) => {
            // The proxy comes first: the broker has to know what to advertise.
            let proxy = Proxy::start("127.0.0.1:1")?;
            let options = own.unwrap_or_default().advertise(proxy.address());
            let mut broker = FixtureKafka::own(options).await?;
            proxy.set_target(broker.owned()?.broker(1)?.proxied_address()?);
            Ok((broker, Some(proxy)))
        }
    }
}

/// The publication is made before the slot: a slot decodes with the catalog of its time.
async fn prepare_database(postgres: &PostgresServer, schema: &Schema) -> anyhow::Result<()> {
    let session = postgres.connect().await?;
    schema.create(&session).await?;
    session
        .batch_execute(&format!(
            "CREATE ROLE {ROLE} LOGIN REPLICATION;
             CREATE PUBLICATION {PUBLICATION} FOR TABLE {} \
             WITH (publish = 'insert', publish_via_partition_root = true);",
            schema.table
        ))
        .await
        .context("cannot create role and publication")?;
    create_slot(&session, SLOT, "pgoutput").await
}

fn topic_names(schema: &Schema, mapping: &Mapping) -> Vec<String> {
    schema.types.iter().map(|name| format!("{}{name}", mapping.topic_prefix)).collect()
}

/// The configuration of every fixture; a scenario's own keys replace these.
fn base(port: u16, bootstrap: &str, schema: &Schema, mapping: &Mapping) -> RouterConfig {
    let mut config = RouterConfig::default();
    config
        .set("postgres.url", format!("postgres://{ROLE}@127.0.0.1:{port}/{DATABASE}"))
        .set("postgres.slot", SLOT)
        .set("postgres.publication", PUBLICATION)
        .set("kafka.bootstrap_servers", bootstrap)
        // Fixtures share a cluster, and all have the same name, database and slot.
        .set("kafka.state_topic", format!("{}router-state", mapping.topic_prefix))
        .set("log.format", "text")
        .set_outbox("table", schema.table.as_str())
        .set_outbox("topic", format!("{}${{aggregate_type}}", mapping.topic_prefix));
    if mapping.format == Format::Debezium {
        config.set_outbox("format", "debezium");
    }
    config
}
