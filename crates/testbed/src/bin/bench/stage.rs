//! The servers of a measurement: a PostgreSQL of its own for each load, one Kafka for all.
//!
//! Every run reads the same WAL: one slot, `origin`, is made before the load, and each run gets a
//! copy of it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use testbed::load::{Backlog, Preset, Schema, backlog};
use testbed::postgres::{DATABASE, Options, Postgres, SUPERUSER, Session};
use testbed::wait::until_ok;
use tokio_postgres::types::PgLsn;

use crate::args::Socket;

/// Distinct keys of every load.
pub(crate) const KEYS: usize = 10_000;
pub(crate) const PUBLICATION: &str = "bench";
/// Makes the payload 371 bytes long, as `jsonb` prints it.
pub(crate) const PADDING: usize = 345;

const ORIGIN: &str = "origin";

/// Nothing that comes and goes by itself may fall into one run and not into the next.
const SETTINGS: &[(&str, &str)] = &[
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1h"),
    ("max_wal_size", "64GB"),
    ("synchronous_commit", "on"),
];

/// A PostgreSQL with an outbox table, its publication and the slot `origin`.
pub(crate) struct Stage {
    pub(crate) postgres: Postgres,
    session: Session,
    schema: Schema,
    socket: Socket,
}

impl Stage {
    pub(crate) async fn set(version: u16, socket: Socket) -> anyhow::Result<Self> {
        let options = SETTINGS
            .iter()
            .fold(Options::version(version), |options, (name, value)| options.set(name, value));
        let postgres = Postgres::start(options).await?;
        let session = postgres.connect().await?;
        let schema = Schema::new(Preset::Debezium).aggregates(i32::try_from(KEYS)?);
        schema.create(&session).await?;
        session
            .batch_execute(&format!(
                "CREATE PUBLICATION {PUBLICATION} FOR TABLE {} WITH (publish = 'insert')",
                schema.table
            ))
            .await?;
        session
            .execute(
                "SELECT pg_create_logical_replication_slot($1::text::name, 'pgoutput')",
                &[&ORIGIN],
            )
            .await?;
        Ok(Self { postgres, session, schema, socket })
    }

    /// Writes a backlog, and tells the position behind it.
    pub(crate) async fn load(&self, events: u64, per_transaction: u64) -> anyhow::Result<PgLsn> {
        // Only the making of it: nobody reads while it is made.
        self.session.batch_execute("SET synchronous_commit = off").await?;
        let size = Backlog {
            transactions: events / per_transaction,
            rows_per_transaction: per_transaction,
            payload_bytes: u64::try_from(PADDING)?,
            first: 0,
        };
        backlog(&self.session, &self.schema, size).await?;
        let row = self.session.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await?;
        // Writes everything out, and puts WAL behind the position that readers have to reach.
        self.session.batch_execute("SET synchronous_commit = on; CHECKPOINT").await?;
        Ok(row.get(0))
    }

    /// Makes a copy of the origin slot for one run.
    pub(crate) async fn copy_slot(&self, name: &str) -> anyhow::Result<()> {
        self.session
            .execute(
                "SELECT pg_copy_logical_replication_slot($1::text::name, $2::text::name)",
                &[&ORIGIN, &name],
            )
            .await
            .with_context(|| format!("cannot copy the slot to \"{name}\""))?;
        Ok(())
    }

    /// Drops a slot as soon as nobody holds it any more.
    pub(crate) async fn drop_slot(&self, name: &str) -> anyhow::Result<()> {
        until_ok(Duration::from_secs(30), format!("slot \"{name}\" to be free"), async || {
            self.session
                .execute("SELECT pg_drop_replication_slot($1::text::name)", &[&name])
                .await?;
            Ok(())
        })
        .await
    }

    /// Where readers connect: a directory for the unix socket, an address otherwise.
    pub(crate) fn host(&self) -> String {
        match self.socket {
            Socket::Tcp => "127.0.0.1".to_owned(),
            Socket::Unix => self.postgres.socket_dir().display().to_string(),
        }
    }

    /// The configuration of a router that reads `slot` into `topic`; everything else as it comes.
    pub(crate) fn router_config(&self, slot: &str, topic: &str, bootstrap: &str) -> String {
        format!(
            "name = \"bench\"\n\
             [postgres]\n\
             url = \"host={} port={} user={SUPERUSER} dbname={DATABASE}\"\n\
             slot = \"{slot}\"\npublication = \"{PUBLICATION}\"\n\
             [[outbox]]\ntable = \"{}\"\ntopic = \"{topic}\"\n\
             [kafka]\nbootstrap_servers = \"{bootstrap}\"\n",
            self.host(),
            self.postgres.port(),
            self.schema.table,
        )
    }

    /// The outbox table.
    pub(crate) fn table(&self) -> &str {
        &self.schema.table
    }

    /// The server's own words about its version.
    pub(crate) async fn version(&self) -> anyhow::Result<String> {
        Ok(self.session.query_one("SHOW server_version", &[]).await?.get(0))
    }
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
