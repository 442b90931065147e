//! The tables: an outbox with the columns of a preset, and unpublished tables beside it for
//! checking.

use anyhow::Context;
use tokio_postgres::Client;

use super::poisoned::POISONED;

/// The table of committed events: one row per event, written in the event's transaction. Never
/// published.
pub const COMMITTED: &str = "testbed.committed";

/// The shape of an outbox table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// `id, aggregate_type, aggregate_id, event_type, payload, headers, created_at`.
    Default,
    /// `id, aggregatetype, aggregateid, type, payload`.
    Debezium,
}

impl Preset {
    /// Names of its columns.
    pub const fn columns(self) -> Columns {
        match self {
            Self::Default => Columns {
                id: "id",
                aggregate_type: "aggregate_type",
                aggregate_id: "aggregate_id",
                event_type: "event_type",
                payload: "payload",
                headers: Some("headers"),
            },
            Self::Debezium => Columns {
                id: "id",
                aggregate_type: "aggregatetype",
                aggregate_id: "aggregateid",
                event_type: "type",
                payload: "payload",
                headers: None,
            },
        }
    }

    const fn definition(self) -> &'static str {
        match self {
            Self::Default => {
                "id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL, \
                 aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb, headers jsonb, \
                 created_at timestamptz NOT NULL DEFAULT now()"
            }
            Self::Debezium => {
                "id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, \
                 aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb"
            }
        }
    }
}

/// Names of an outbox table's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// The event's id.
    pub id: &'static str,
    /// What routes it to a topic.
    pub aggregate_type: &'static str,
    /// The key.
    pub aggregate_id: &'static str,
    /// The event's type.
    pub event_type: &'static str,
    /// The value.
    pub payload: &'static str,
    /// Headers of its own, where the table has such a column.
    pub headers: Option<&'static str>,
}

/// Whether the outbox is one table or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitioning {
    /// One table.
    None,
    /// Four partitions by hash of the id. PostgreSQL's COPY gathers rows by partition before it
    /// writes them, so the order within one COPY is lost before any reader of the WAL sees it;
    /// writers therefore copy at most one event of an aggregate at a time.
    Hash,
}

/// An outbox table and the aggregates that write to it.
#[derive(Debug, Clone)]
pub struct Schema {
    /// The outbox table, as SQL spells it.
    pub table: String,
    /// Its shape.
    pub preset: Preset,
    /// How many aggregates there are: the number of keys.
    pub aggregates: i32,
    /// Aggregate types: the topics, without prefix. Aggregate *n* is of type *n* modulo their
    /// number.
    pub types: Vec<String>,
    /// How the outbox table is stored.
    pub partitioning: Partitioning,
}

impl Schema {
    /// `public.outbox` with the columns of a preset, and 100 aggregates of type `order`.
    pub fn new(preset: Preset) -> Self {
        Self {
            table: "public.outbox".to_owned(),
            preset,
            aggregates: 100,
            types: vec!["order".to_owned()],
            partitioning: Partitioning::None,
        }
    }

    /// Another table.
    #[must_use]
    pub fn table(mut self, table: &str) -> Self {
        table.clone_into(&mut self.table);
        self
    }

    /// Another number of aggregates.
    #[must_use]
    pub fn aggregates(mut self, count: i32) -> Self {
        self.aggregates = count;
        self
    }

    /// Other aggregate types.
    #[must_use]
    pub fn types(mut self, types: &[&str]) -> Self {
        self.types = types.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Another way to store the table.
    #[must_use]
    pub fn partitioned(mut self, partitioning: Partitioning) -> Self {
        self.partitioning = partitioning;
        self
    }

    /// Names of the outbox table's columns.
    pub fn columns(&self) -> Columns {
        self.preset.columns()
    }

    /// Creates the outbox table, unless it exists, and the tables for checking.
    ///
    /// # Errors
    ///
    /// Fails when the server refuses.
    pub async fn create(&self, client: &Client) -> anyhow::Result<()> {
        let Self { table, preset, partitioning, .. } = self;
        let by = match partitioning {
            Partitioning::None => "",
            Partitioning::Hash => "PARTITION BY HASH (id)",
        };
        let mut sql = format!("CREATE TABLE IF NOT EXISTS {table} ({}) {by};", preset.definition());
        if *partitioning == Partitioning::Hash {
            for part in 0..4 {
                sql.push_str(&format!(
                    "CREATE TABLE {table}_{part} PARTITION OF {table} \
                     FOR VALUES WITH (MODULUS 4, REMAINDER {part});"
                ));
            }
        }
        client.batch_execute(&sql).await.with_context(|| format!("cannot create {table}"))?;
        self.create_bookkeeping(client).await
    }

    /// Creates the tables for checking alone, for an outbox table that exists.
    ///
    /// # Errors
    ///
    /// Fails when the server refuses.
    pub async fn create_bookkeeping(&self, client: &Client) -> anyhow::Result<()> {
        client
            .batch_execute(&format!(
                "CREATE SCHEMA IF NOT EXISTS testbed;
                 CREATE TABLE IF NOT EXISTS {COMMITTED} (
                     id uuid PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL,
                     seq int8 NOT NULL, event_type text NOT NULL, payload_bytes int4,
                     payload_sha256 bytea, headers text,
                     xid int8 NOT NULL DEFAULT pg_current_xact_id()::text::int8);
                 CREATE TABLE IF NOT EXISTS {POISONED} (
                     id uuid PRIMARY KEY, aggregate_id text NOT NULL);
                 CREATE TABLE IF NOT EXISTS testbed.aggregate (
                     n int4 PRIMARY KEY, id text NOT NULL UNIQUE, type text NOT NULL,
                     seq int8 NOT NULL) WITH (fillfactor = 50);"
            ))
            .await
            .context("cannot create the bookkeeping")?;
        client
            .execute(
                "INSERT INTO testbed.aggregate SELECT n, t.name || '-' || n, t.name, 0 \
                 FROM generate_series(0, $1::int4 - 1) n, \
                 LATERAL (SELECT ($2::text[])[1 + n % cardinality($2::text[])] AS name) t \
                 ON CONFLICT DO NOTHING",
                &[&self.aggregates, &self.types],
            )
            .await
            .context("cannot fill the aggregates")?;
        Ok(())
    }

    /// `INSERT INTO table (columns…)`, without the rows.
    pub(super) fn insert_into(&self) -> String {
        format!("INSERT INTO {} ({})", self.table, self.column_list())
    }

    /// The columns that writers fill, in the order of [`insert_into`](Self::insert_into).
    pub(super) fn column_list(&self) -> String {
        let Columns { id, aggregate_type, aggregate_id, event_type, payload, headers } =
            self.columns();
        let mut names = vec![id, aggregate_type, aggregate_id, event_type, payload];
        names.extend(headers);
        names.join(", ")
    }

    /// The expressions by which a row of [`COMMITTED`] is taken from an outbox row called `o`: all
    /// but `seq` and `xid`.
    pub(super) fn committed_expressions(&self) -> String {
        let Columns { id, aggregate_type, aggregate_id, event_type, payload, headers } =
            self.columns();
        let headers = headers.map_or("NULL::text".to_owned(), |name| format!("o.{name}::text"));
        format!(
            "o.{id}, o.{aggregate_type}, o.{aggregate_id}, o.{event_type}, \
             octet_length(o.{payload}::text), sha256(convert_to(o.{payload}::text, 'UTF8')), {headers}"
        )
    }

    /// `INSERT INTO committed (columns…)` for `seq` and
    /// [`committed_expressions`](Self::committed_expressions).
    pub(super) fn insert_into_committed() -> String {
        format!(
            "INSERT INTO {COMMITTED} (id, aggregate_type, aggregate_id, event_type, payload_bytes, \
             payload_sha256, headers, seq)"
        )
    }
}
