//! A PostgreSQL and a Kafka that the faults of a test share.

use std::ops::Deref;

use testbed::kafka::{KafkaCluster, KafkaOptions};

use super::{ledger::Ledger, place::Place};
use crate::server::Server;

/// The topic of the events that a test would send.
pub(super) const TOPIC: &str = "outbox.event.order";

/// Both servers.
pub(super) struct Pair {
    pub(super) server: Server,
    pub(super) kafka: KafkaCluster,
    pub(super) ledger: Ledger,
}

impl Pair {
    pub(super) async fn start() -> Self {
        let server = Server::with_settings("max_slot_wal_keep_size = '10GB'\nautovacuum = off");
        let kafka = KafkaCluster::start(KafkaOptions::default().with_acls()).await.expect("Kafka");
        kafka.create_topic(TOPIC, 3, &[]).await.expect("a topic");
        Self { server, kafka, ledger: Ledger::default() }
    }

    /// A database of this name, set up by `setup --apply --create-table`.
    pub(super) async fn database(&self, name: &str) -> Database<'_> {
        drop(self.empty_database(name));
        self.database_with_existing(name, &[]).await
    }

    /// Sets up what is in a database already, with more settings for `setup` and `doctor`.
    pub(super) async fn database_with_existing(
        &self,
        name: &str,
        settings: &[&str],
    ) -> Database<'_> {
        let database = self.of(name, settings);
        database.set_up().await;
        database
    }

    /// A database without anything.
    pub(super) fn empty_database(&self, name: &str) -> Database<'_> {
        self.server.sql(&format!("create database {name}"));
        self.of(name, &[])
    }

    fn of(&self, name: &str, settings: &[&str]) -> Database<'_> {
        let host = format!("127.0.0.1:{}", self.server.port);
        let place = Place::new(&self.ledger, &host, name, &self.kafka.bootstrap());
        let slot = format!("postgres.slot={name}");
        Database { server: &self.server, place: place.with(&[&slot]).with(settings) }
    }
}

/// The database of one fault. Dropping it drops its slot, which would be another database's other
/// slot.
pub(super) struct Database<'p> {
    server: &'p Server,
    place: Place<'p>,
}

impl<'p> Deref for Database<'p> {
    type Target = Place<'p>;

    fn deref(&self) -> &Place<'p> {
        &self.place
    }
}

impl Database<'_> {
    /// Runs SQL in this database, as the superuser.
    #[track_caller]
    pub(super) fn sql(&self, text: &str) {
        self.server.script(&format!("\\connect {}\n{text};\n", self.name));
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        let name = &self.place.name;
        self.server.sql(&format!(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots \
             where slot_name = '{name}' and not active"
        ));
    }
}
