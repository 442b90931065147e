//! The servers that all rounds share: one PostgreSQL, with a database for each round, and one
//! broker, with topics for each round.

use testbed::kafka::{KafkaCluster, KafkaOptions};
use testbed::postgres::{DatabaseSession, PostgresOptions, PostgresServer, SUPERUSER};
use testbed::proxy::Proxy;

use crate::table::ROLE;

/// Fields are dropped in order: the proxies first.
pub(crate) struct Servers {
    /// Between the router and PostgreSQL.
    pub(crate) postgres_proxy: Proxy,
    /// Between the router and the broker.
    pub(crate) kafka_proxy: Proxy,
    pub(crate) postgres: PostgresServer,
    pub(crate) kafka: KafkaCluster,
}

impl Servers {
    pub(crate) async fn start(version: u16) -> anyhow::Result<Self> {
        // The proxy comes first, because the broker has to know what to advertise.
        let kafka_proxy = Proxy::start("127.0.0.1:1")?;
        let broker = KafkaOptions::default().advertise(kafka_proxy.address());
        let server = PostgresOptions::version(version).set("max_worker_processes", "4");
        let (mut kafka, postgres) =
            tokio::try_join!(KafkaCluster::start(broker), PostgresServer::start(server))?;
        kafka_proxy.set_target(kafka.broker(1)?.proxied_address()?);
        let postgres_proxy = Proxy::start(postgres.address())?;
        let session = postgres.connect().await?;
        session.batch_execute(&format!("create role {ROLE} login replication")).await?;
        Ok(Self { postgres_proxy, kafka_proxy, postgres, kafka })
    }

    /// A superuser's session in a round's database.
    pub(crate) async fn session(&self, database: &str) -> anyhow::Result<DatabaseSession> {
        self.postgres.connect_to(database).await
    }

    /// Where a superuser's session in a round's database is had.
    pub(crate) fn admin_url(&self, database: &str) -> String {
        self.postgres.url(SUPERUSER, database)
    }
}
