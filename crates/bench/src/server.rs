//! A separate PostgreSQL for each load, and one Kafka for all of them.
//!
//! Every run reads the same WAL: one slot, `origin`, is created before the load, and each run gets
//! a copy of it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::load::{Backlog, Preset, Schema, backlog};
use testbed::postgres::{
    DATABASE, DatabaseSession, PostgresOptions, PostgresServer, SUPERUSER, create_slot,
};
use testbed::router::RouterConfig;
use testbed::wait::until_ok;
use tokio_postgres::types::PgLsn;
use uuid::Uuid;

use crate::audit::Audit;
use crate::choices::Socket;
use crate::figures::float;
use crate::shape::{Distribution, Shape};
use crate::topic::RunTopics;
use crate::writers::POISON;

pub(crate) const PUBLICATION: &str = "bench";

const ORIGIN: &str = "origin";
/// A slot that starts behind the rows that cannot be delivered.
const BEHIND_POISON: &str = "behind_poison";

/// Background work that comes and goes must not fall into one run and not into the next.
const SETTINGS: &[(&str, &str)] = &[
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1h"),
    ("max_wal_size", "64GB"),
    ("synchronous_commit", "on"),
];

/// A backlog to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrittenBacklog {
    pub(crate) events: u64,
    /// The position after its last event.
    pub(crate) end: PgLsn,
    /// Bytes of a payload, on average.
    pub(crate) value_bytes: f64,
    pub(crate) distribution: Distribution,
    /// The slot that starts before its first event.
    pub(crate) origin: &'static str,
    /// The number of its first event.
    pub(crate) first: u64,
    /// Events whose numbers are multiples of this are held: before the first event stands a row
    /// that cannot be delivered of each of their keys.
    pub(crate) held_every: Option<u64>,
}

impl WrittenBacklog {
    /// How many events are delivered; the others are held.
    pub(crate) fn delivered(&self) -> u64 {
        let before = |number: u64| self.held_every.map_or(0, |every| number.div_ceil(every));
        self.events - (before(self.first + self.events) - before(self.first))
    }

    /// Rows that cannot be delivered.
    pub(crate) fn letters(&self) -> u64 {
        self.held_every.map_or(0, |every| self.first / every)
    }

    /// Expects all of it.
    pub(crate) fn audit(&self) -> anyhow::Result<Audit> {
        let mut audit = Audit::new(self.first + self.events, self.distribution)?;
        let is_letter =
            |number: u64| self.held_every.is_some_and(|every| number.is_multiple_of(every));
        audit.leave_out((0..self.first).filter(|number| !is_letter(*number)))?;
        Ok(audit)
    }
}

/// What the routers of a server do about a row that cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadRows {
    Halt,
    DeadLetter,
}

/// A server that writes logs its running transactions every 15 s (`LOG_SNAPSHOT_INTERVAL_MS` in
/// bgwriter.c), and a slot's `restart_lsn` moves with these records. The bench writes in seconds
/// what an application writes in minutes, so it asks for them itself: after as many events as
/// 5,000/s are in 15 s. PostgreSQL 15 has no function for it.
const STRETCH_EVENTS: u64 = 75_000;
const LOG_RUNNING_TRANSACTIONS: &str = "DO $$ BEGIN \
    IF current_setting('server_version_num')::int >= 160000 THEN \
        PERFORM pg_log_standby_snapshot(); \
    END IF; END $$";

/// What a peer that can be tuned is tuned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TuningGoal {
    Throughput,
    Latency,
}

/// What is read, and into which topics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReaderSettings<'a> {
    pub(crate) socket: Socket,
    pub(crate) slot: &'a str,
    pub(crate) topics: &'a RunTopics,
    pub(crate) goal: TuningGoal,
}

/// A PostgreSQL with an outbox table, its publication and the slot `origin`.
pub(crate) struct BenchServer {
    pub(crate) postgres: PostgresServer,
    pub(crate) bad_rows: BadRows,
    pub(crate) session: DatabaseSession,
    schema: Schema,
    pub(crate) distribution: Distribution,
    /// The `name` in the configuration of the routers that read from it.
    name: String,
}

impl BenchServer {
    pub(crate) async fn start(version: u16, distribution: Distribution) -> anyhow::Result<Self> {
        Self::with_table(version, distribution, (Preset::Debezium, BadRows::Halt)).await
    }

    /// The same, with an outbox table that has headers.
    pub(crate) async fn with_headers(
        version: u16,
        distribution: Distribution,
        bad_rows: BadRows,
    ) -> anyhow::Result<Self> {
        Self::with_table(version, distribution, (Preset::Default, bad_rows)).await
    }

    async fn with_table(
        version: u16,
        distribution: Distribution,
        (preset, bad_rows): (Preset, BadRows),
    ) -> anyhow::Result<Self> {
        let options =
            SETTINGS.iter().fold(PostgresOptions::version(version), |options, (name, value)| {
                options.set(name, value)
            });
        let mut postgres = PostgresServer::start(options).await?;
        encrypt(&mut postgres).await?;
        let session = postgres.connect().await?;
        let types = distribution.types();
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        let schema =
            Schema::new(preset).aggregates(i32::try_from(distribution.keys)?).types(&types);
        schema.create(&session).await?;
        session
            .batch_execute(&format!(
                "CREATE PUBLICATION {PUBLICATION} FOR TABLE {} WITH (publish = 'insert')",
                schema.table
            ))
            .await?;
        create_slot(&session, ORIGIN, "pgoutput").await?;
        let name = format!("bench-{}", Uuid::new_v4());
        Ok(Self { postgres, bad_rows, session, schema, distribution, name })
    }

    /// Writes a backlog.
    pub(crate) async fn write_backlog(
        &self,
        shape: Shape,
        events: u64,
    ) -> anyhow::Result<WrittenBacklog> {
        self.write_events(shape, events, 0).await
    }

    /// Writes a row that cannot be delivered of so many keys, evenly distributed over all, and a
    /// backlog behind them. Returns the backlog with them and without them.
    pub(crate) async fn write_poisoned_backlog(
        &self,
        shape: Shape,
        events: u64,
        poisoned: u64,
    ) -> anyhow::Result<(WrittenBacklog, WrittenBacklog)> {
        let Distribution { keys, .. } = self.distribution;
        ensure!(keys.is_multiple_of(poisoned), "{poisoned} keys cannot be distributed over {keys}");
        let every = keys / poisoned;
        let sql = format!(
            "INSERT INTO {} SELECT gen_random_uuid(), 'order', 'order-' || n, 'bench', \
             jsonb_build_object('seq', n, 'x', ''), {POISON} \
             FROM generate_series(0, {keys}::int8 - 1, {every}) n",
            self.schema.table
        );
        self.session.batch_execute(&sql).await.context("cannot write poisoned rows")?;
        create_slot(&self.session, BEHIND_POISON, "pgoutput").await?;
        let held = self.write_events(shape, events, keys).await?;
        let held = WrittenBacklog { held_every: Some(every), ..held };
        Ok((held, WrittenBacklog { origin: BEHIND_POISON, held_every: None, ..held }))
    }

    async fn write_events(
        &self,
        shape: Shape,
        events: u64,
        first: u64,
    ) -> anyhow::Result<WrittenBacklog> {
        // Only while the backlog is written: nothing reads meanwhile.
        self.session.batch_execute("SET synchronous_commit = off").await?;
        let transactions = events / shape.rows;
        let stretch = (STRETCH_EVENTS / shape.rows).max(1);
        let mut events = 0;
        for begun in (0..transactions).step_by(usize::try_from(stretch)?) {
            let size = Backlog {
                transactions: stretch.min(transactions - begun),
                rows_per_transaction: shape.rows,
                payload_bytes: shape.padding(),
                first: first + events,
            };
            events += backlog(&self.session, &self.schema, size).await?;
            self.session.batch_execute(LOG_RUNNING_TRANSACTIONS).await?;
        }
        let row = self.session.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await?;
        // Writes everything to disk, and adds WAL after the position that readers have to reach.
        self.session.batch_execute("SET synchronous_commit = on; CHECKPOINT").await?;
        let bytes =
            format!("SELECT sum(octet_length(payload::text))::int8 FROM {}", self.schema.table);
        let bytes: i64 = self.session.query_one(&bytes, &[]).await?.get(0);
        let value_bytes = float(u64::try_from(bytes)?) / float(events);
        Ok(WrittenBacklog {
            events,
            end: row.get(0),
            value_bytes,
            distribution: self.distribution,
            origin: ORIGIN,
            first,
            held_every: None,
        })
    }

    /// Makes a copy of the origin slot for one run.
    pub(crate) async fn copy_slot(&self, name: &str) -> anyhow::Result<()> {
        self.copy_slot_from(ORIGIN, name).await
    }

    /// The same, of another slot.
    pub(crate) async fn copy_slot_from(&self, origin: &str, name: &str) -> anyhow::Result<()> {
        self.session
            .execute(
                "SELECT pg_copy_logical_replication_slot($1::text::name, $2::text::name)",
                &[&origin, &name],
            )
            .await
            .with_context(|| format!("cannot copy the slot to \"{name}\""))?;
        Ok(())
    }

    /// Drops a slot as soon as no walsender holds it.
    pub(crate) async fn drop_slot(&self, name: &str) -> anyhow::Result<()> {
        until_ok(Duration::from_secs(30), format!("slot \"{name}\" to be free"), async || {
            self.session
                .execute("SELECT pg_drop_replication_slot($1::text::name)", &[&name])
                .await?;
            Ok(())
        })
        .await
    }

    /// The connection string of readers, in libpq's format.
    pub(crate) fn conninfo(&self, socket: Socket) -> String {
        let host = match socket {
            Socket::Tcp => "host=127.0.0.1 sslmode=disable".to_owned(),
            Socket::Tls => "host=127.0.0.1 sslmode=require".to_owned(),
            Socket::Unix => format!("host={}", self.postgres.socket_dir().display()),
        };
        format!("{host} port={} user={SUPERUSER} dbname={DATABASE}", self.postgres.port())
    }

    /// The configuration of a router that reads `slot`, with defaults for everything else. Each
    /// server has a `name` of its own: Kafka outlives the servers of the measurements, and two
    /// servers of one version have one system identifier, so under one name a router would find in
    /// the state topic what belongs to an earlier server, and stop.
    pub(crate) fn router_config(&self, settings: ReaderSettings<'_>) -> String {
        let mut config = self.database_config(settings.socket, settings.slot);
        config
            .set("kafka.bootstrap_servers", settings.topics.bootstrap())
            .set_outbox("topic", settings.topics.route());
        config.to_string()
    }

    /// The part of the configuration that is about the database.
    fn database_config(&self, socket: Socket, slot: &str) -> RouterConfig {
        let mut config = RouterConfig::default();
        config
            .set("name", self.name.as_str())
            .set("postgres.url", self.conninfo(socket))
            .set("postgres.slot", slot)
            .set("postgres.publication", PUBLICATION)
            .set_outbox("table", self.schema.table.as_str());
        if self.bad_rows == BadRows::DeadLetter {
            // What is measured is the table; its topic would add records that differ in number.
            config.set("on_error.bad_row", "dead_letter").set("dead_letters.topic", "");
        }
        config
    }

    /// The configuration of a router that makes tables, and reads nothing.
    pub(crate) fn setup_config(&self) -> String {
        self.database_config(Socket::Tcp, ORIGIN).to_string()
    }

    /// SQL that writes one row, found by its `seq`.
    pub(crate) fn insert_row(&self, seq: u32) -> String {
        format!(
            "INSERT INTO {} VALUES (gen_random_uuid(), 'order', 'order-0', 'bench', \
             jsonb_build_object('seq', {seq}, 'x', ''))",
            self.schema.table
        )
    }

    /// The outbox table.
    pub(crate) fn table(&self) -> &str {
        &self.schema.table
    }

    /// The version, as the server reports it.
    pub(crate) async fn version(&self) -> anyhow::Result<String> {
        Ok(self.session.query_one("SHOW server_version", &[]).await?.get(0))
    }
}

/// Offers TLS to clients that ask for it, and changes nothing for others.
async fn encrypt(postgres: &mut PostgresServer) -> anyhow::Result<()> {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    postgres.write_file("server.crt", own.cert.pem().as_bytes())?;
    postgres.write_file("server.key", own.signing_key.serialize_pem().as_bytes())?;
    postgres.set(&[("ssl", "on")]).await
}

/// `pg_recvlogical`: it comes with Debian's packages and not with the prebuilt servers, and every
/// version of it reads from every server.
pub(crate) fn pg_recvlogical() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("OUTBOX_PG_RECVLOGICAL") {
        return Ok(PathBuf::from(path));
    }
    let packaged = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    packaged
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/pg_recvlogical")))
        .filter(|file| file.is_file())
        .max()
        .context("pg_recvlogical is missing: install postgresql-15, or set OUTBOX_PG_RECVLOGICAL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_held_keys_are_not_delivered() {
        let backlog = |events, held_every| WrittenBacklog {
            events,
            end: PgLsn::from(0),
            value_bytes: 0.0,
            distribution: Distribution { keys: 10, ..Distribution::default() },
            origin: ORIGIN,
            first: 10,
            held_every,
        };
        for (events, every, held) in
            [(30, None, 0), (30, Some(5), 6), (31, Some(5), 7), (29, Some(10), 3), (7, Some(1), 7)]
        {
            assert_eq!(backlog(events, every).delivered(), events - held, "{events} {every:?}");
        }
        assert_eq!(backlog(30, Some(5)).letters(), 2);
        assert_eq!(backlog(30, None).letters(), 0);
    }

    #[test]
    fn the_audit_of_a_backlog_expects_the_rows_before_it_only_where_they_are_held() {
        let (keys, pg) = (Distribution { keys: 4, ..Distribution::default() }, PgLsn::from(0));
        let calm = WrittenBacklog {
            events: 0,
            end: pg,
            value_bytes: 0.0,
            distribution: keys,
            origin: ORIGIN,
            first: 4,
            held_every: None,
        };
        assert_eq!(calm.audit().unwrap().result(0), Ok(()));
        let held = WrittenBacklog { held_every: Some(2), ..calm };
        assert_eq!(held.audit().unwrap().result(0).unwrap_err().lost, 2);
        let mut audit = held.audit().unwrap();
        for (key, messages) in [("order-0", "{\"seq\": 0}"), ("order-2", "{\"seq\": 2}")] {
            audit.note_held(Some(key.as_bytes()), messages.as_bytes());
        }
        assert_eq!(audit.result(0), Ok(()));
    }
}
