//! A server with a polled table, and what a worker is made of.

use std::{collections::BTreeMap, time::Duration};

use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};
use relay::{
    ErrorPolicy, HoldKeys, OnError, OnFailed, OutboxTable, Outboxes, TableName, Timestamp,
    polling::{LeaseLength, Poller, PollerSettings, RetryPolicy},
};
use testbed::postgres::{DATABASE, DatabaseSession, PostgresOptions, PostgresServer};
use tokio::sync::watch;
use uuid::Uuid;

use super::{
    super::{Worker, WorkerParts},
    at_work::AtWork,
};
use crate::{
    kafka::KafkaSettings,
    polling::{
        clock::LeaseClock,
        report::WorkerReport,
        sql::{
            Database, LeaseTable, MarkConfig, RowScope, SqlSettings, StreamNames, TableConfig,
            setup::{self, Deletes},
        },
    },
    postgres::{ConnInfo, Session},
    shell::{Endpoint, Running},
    tap::{self, TapShows},
};

/// The topic of every row.
const TOPIC: &str = "outbox.event.order";

/// The role that the worker connects as.
const ROLE: &str = "router";

/// A published row has a time, and so has an abandoned one. Attempts are counted by the worker.
pub(super) const TIMES: &str = "published_at timestamptz, abandoned_at timestamptz";

/// The table counts attempts itself, and says when the next one follows.
pub(super) const ATTEMPTS: &str = "attempts int not null default 0, last_error text, \
    available_at timestamptz not null default now(), published_at timestamptz, \
    abandoned_at timestamptz";

/// Refuses every mark, until [`TAKE_MARKS`].
pub(super) const REFUSE_MARKS: &str = "\
    create function refuse() returns trigger language plpgsql as \
    $$ begin raise exception 'no mark today'; end $$; \
    create trigger refuses before update on outbox for each row execute function refuse()";

/// See [`REFUSE_MARKS`].
pub(super) const TAKE_MARKS: &str = "drop trigger refuses on outbox";

/// Gives every shard to another worker, for an hour.
pub(super) const TAKE_SHARDS: &str = "update outbox_router.lease set holder = gen_random_uuid(), \
    request = request + 1, expires_at = now() + interval '1 hour'";

/// How many rows are marked as published.
pub(super) const PUBLISHED: &str = "select count(*) from outbox where published_at is not null";

/// The server, and a session of its superuser.
pub(super) struct Fixture {
    server: PostgresServer,
    session: DatabaseSession,
}

impl Fixture {
    /// A server with an empty outbox that has these columns beside those of an event, and what
    /// `setup` makes for it.
    pub(super) async fn new(marks: &str) -> Self {
        let version = std::env::var("OUTBOX_PG_VERSION").unwrap_or_else(|_| "15".to_owned());
        let options = PostgresOptions::version(version.parse().unwrap());
        let server = PostgresServer::start(options).await.unwrap();
        let session = server.connect().await.unwrap();
        let fixture = Self { server, session };
        let table = format!(
            "create role {ROLE} login; \
             create table outbox (id bigint primary key generated always as identity, \
             aggregate_type text not null default 'order', aggregate_id text, \
             event_type text not null default 'OrderPlaced', payload jsonb, headers jsonb, \
             created_at timestamptz not null default now(), {marks})"
        );
        fixture.run(&table).await;
        let grants = setup::grant_statements(&name(), ROLE, Deletes::No);
        for statement in grants.into_iter().chain(setup::lease_statements(Some(ROLE))) {
            fixture.run(&statement.sql).await;
        }
        fixture
    }

    /// Runs statements as the superuser.
    pub(super) async fn run(&self, sql: &str) {
        self.session.batch_execute(sql).await.unwrap();
    }

    /// Another session of the superuser.
    pub(super) async fn another_session(&self) -> DatabaseSession {
        self.server.connect().await.unwrap()
    }

    /// The number that a query returns.
    pub(super) async fn number(&self, query: &str) -> i64 {
        self.session.query_one(query, &[]).await.unwrap().get(0)
    }

    /// A worker that polls the table.
    pub(super) fn worker(&self, settings: PollerSettings, kafka: KafkaSettings) -> AtWork {
        let url = format!("{}?sslmode=disable", self.server.url(ROLE, DATABASE));
        start(&url, settings, kafka)
    }
}

/// A worker whose PostgreSQL is found by this URL.
pub(super) fn start(url: &str, settings: PollerSettings, kafka: KafkaSettings) -> AtWork {
    let endpoint = Endpoint {
        conninfo: ConnInfo::resolve(Some(url), &|_: &str| None).unwrap(),
        application_name: "shop".to_owned(),
        session: Session::Shared,
    };
    let clock = LeaseClock::start();
    let lease = settings.lease;
    let sql = sql_settings(&settings);
    let leases =
        LeaseTable::new(endpoint.clone(), vec![name()], sql.worker, "shop".to_owned(), sql.lease);
    let poller = Poller::new(settings, clock.now().at);
    let (reports, seen) = watch::channel(WorkerReport::first(poller.report(clock.now().at)));
    let (stop, shutdown) = watch::channel(Running::On);
    let worker = Worker::new(WorkerParts {
        poller,
        clock,
        database: Database::new(endpoint, vec![table()], sql),
        leases,
        lease,
        listener: None,
        kafka,
        reports,
        shutdown,
        tap: tap::taps(TapShows::Metadata).1,
    });
    AtWork::new(worker, seen, stop)
}

/// Rows are read often, and attempts follow each other only after many such readings.
pub(super) fn settings() -> PollerSettings {
    PollerSettings {
        outboxes: Outboxes { tables: vec![table().outbox], ..Outboxes::default() },
        batch: 100,
        interval: Duration::from_millis(20),
        lease: LeaseLength::new(Duration::from_secs(10)),
        retry: RetryPolicy {
            max_attempts: 3,
            base_delay: Duration::from_millis(400),
            multiplier: 1,
            jitter: 0,
            ..RetryPolicy::default()
        },
        on_error: ErrorPolicy { bad_row: OnError::DeadLetter, ..ErrorPolicy::default() },
        hold_keys: HoldKeys::Yes,
        keys_max: 100,
        row_bytes: 1 << 20,
        shutdown_limit: Duration::from_secs(1),
        on_failed: OnFailed::Stay,
        seed: 1,
    }
}

/// Leases that are not renewed while a test runs: what another worker has taken, a worker learns by
/// its marks alone.
pub(super) fn with_long_leases() -> PollerSettings {
    PollerSettings { lease: LeaseLength::new(Duration::from_secs(300)), ..settings() }
}

/// A cluster that has the topic.
pub(super) fn cluster() -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 1, 1).unwrap();
    cluster
}

/// How a producer reaches these brokers.
pub(super) fn kafka_at(bootstrap_servers: String) -> KafkaSettings {
    KafkaSettings {
        client_id: "outbox-router".to_owned(),
        bootstrap_servers,
        properties: BTreeMap::new(),
        create_topics: None,
        timestamp: Timestamp::Commit,
        window_bytes: 32 << 20,
        row_bytes: 1 << 20,
        statistics: None,
        give_up_after: Some(settings().lease.message_timeout()),
    }
}

/// Nobody listens there.
pub(super) fn kafka_that_is_away() -> KafkaSettings {
    kafka_at("127.0.0.1:1".to_owned())
}

fn name() -> TableName {
    TableName { schema: "public".to_owned(), name: "outbox".to_owned() }
}

fn table() -> TableConfig {
    let outbox = OutboxTable::with_defaults(name());
    TableConfig { outbox, order_by: Vec::new(), mark: MarkConfig::default() }
}

fn sql_settings(settings: &PollerSettings) -> SqlSettings {
    SqlSettings {
        worker: Uuid::new_v4(),
        name: "shop".to_owned(),
        lease: settings.lease.whole(),
        hold_keys: settings.hold_keys,
        row_bytes: settings.row_bytes,
        keep_bytes: 32 << 20,
        on_error: settings.on_error,
        scope: RowScope::All,
        stream: StreamNames { slot: "shop".to_owned(), publication: "shop".to_owned() },
    }
}
