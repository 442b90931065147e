//! The truth: what the writers have committed, and what is left of it in the tables.
//!
//! Each writer notes its events in the transaction that writes them, so a note is there exactly if
//! the event was committed, also where a commit had no response.

use std::collections::HashMap;

use anyhow::Context;
use tokio_postgres::Client;

use crate::scenario::{IdType, Scenario};
use crate::table::FIRST;

/// What an event is to a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has to be sent.
    Event,
    /// It has to be sent, and its row is deleted in the transaction that wrote it.
    Deleted,
    /// No record can be made of it: it is kept until a person decides.
    Poison,
    /// It is older than its table's place in the pipeline: it is kept, or sent.
    Older,
    /// One version of a row of a key. Only the last one has to be sent.
    Version,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Deleted => "deleted",
            Self::Poison => "poison",
            Self::Older => "older",
            Self::Version => "version",
        }
    }

    fn parse(name: &str) -> anyhow::Result<Self> {
        [Self::Event, Self::Deleted, Self::Poison, Self::Older, Self::Version]
            .into_iter()
            .find(|kind| kind.name() == name)
            .with_context(|| format!("no kind of event is called {name}"))
    }
}

/// A committed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) event: String,
    pub(crate) table: String,
    pub(crate) key: String,
    /// Its number within its key, in the order of commits.
    pub(crate) ordinal: i64,
    pub(crate) kind: Kind,
    /// The statement and the isolation level that wrote it.
    pub(crate) how: String,
    /// The payload as the database prints it; empty for rows of which no record can be made.
    pub(crate) value: String,
}

/// Where an event's row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the table, and no router marks rows there.
    Kept,
    /// In the table, and to be sent.
    Pending,
    /// In the table, and marked as delivered.
    Marked,
    /// In the table, and for a person to decide about.
    Abandoned,
    /// In a table that was a partition.
    Detached,
    /// In the archive.
    Archived,
}

impl Place {
    fn parse(state: &str) -> anyhow::Result<Self> {
        Ok(match state {
            "kept" => Self::Kept,
            "pending" => Self::Pending,
            "marked" => Self::Marked,
            "abandoned" => Self::Abandoned,
            "detached" => Self::Detached,
            "archived" => Self::Archived,
            other => anyhow::bail!("no place is called {other}"),
        })
    }
}

/// What a look at the database has found: all of one snapshot.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    pub(crate) committed: Vec<Committed>,
    pub(crate) places: HashMap<String, Place>,
    /// The last version of each key that has versions.
    pub(crate) latest: HashMap<String, String>,
}

/// Creates the tables of the truth. They are in no publication.
pub(crate) async fn create(client: &Client) -> anyhow::Result<()> {
    client
        .batch_execute(
            "create schema judge;
             create table judge.committed (event text primary key, tab text not null, \
               key text not null, ordinal bigint not null, kind text not null, how text not null, \
               value text not null);
             create table judge.latest (key text primary key, event text not null);",
        )
        .await
        .context("cannot create the tables of the truth")
}

/// Ten rows that no stream has: they are no events, and kept, or sent.
pub(crate) fn older_sql(scenario: &Scenario, table: &str, name: &str, time: &str) -> String {
    let id = match scenario.id {
        IdType::Uuid => "gen_random_uuid()",
        IdType::Bigint | IdType::Text | IdType::Char20 => "(-n)::text",
    };
    let (id_type, kind) = (scenario.id_type(), Kind::Older.name());
    let payload = format!(r#"format('{{"event": "{name}:%s"}}', n)::jsonb"#);
    format!(
        "insert into {table} (id, aggregate_type, aggregate_id, event_type, payload, created_at) \
           select {id}::{id_type}, '{FIRST}', '{name}', 'Made', {payload}, {time} \
           from generate_series(1, 10) n; \
         insert into judge.committed \
           select '{name}:' || n, '{FIRST}', '{name}', n, '{kind}', '{name}', ({payload})::text \
           from generate_series(1, 10) n;"
    )
}

impl Look {
    /// Looks once.
    pub(crate) async fn take(client: &mut Client, scenario: &Scenario) -> anyhow::Result<Self> {
        const ATTEMPTS: u32 = 20;
        for _ in 1..ATTEMPTS {
            // A partition may be dropped between its name and its rows.
            if let Ok(look) = Self::attempt(client, scenario).await {
                return Ok(look);
            }
        }
        Self::attempt(client, scenario).await
    }

    async fn attempt(client: &mut Client, scenario: &Scenario) -> anyhow::Result<Self> {
        let of_one_snapshot = client
            .build_transaction()
            .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
            .read_only(true)
            .start()
            .await?;
        let mut look = Self::default();
        let query = "select event, tab, key, ordinal, kind, how, value from judge.committed";
        for row in of_one_snapshot.query(query, &[]).await? {
            look.committed.push(Committed {
                event: row.try_get(0)?,
                table: row.try_get(1)?,
                key: row.try_get(2)?,
                ordinal: row.try_get(3)?,
                kind: Kind::parse(row.try_get(4)?)?,
                how: row.try_get(5)?,
                value: row.try_get(6)?,
            });
        }
        for row in of_one_snapshot.query("select key, event from judge.latest", &[]).await? {
            look.latest.insert(row.try_get(0)?, row.try_get(1)?);
        }
        let mut tables = Vec::new();
        for row in of_one_snapshot.query(TABLES, &[]).await? {
            tables.push((row.try_get::<_, String>(0)?, row.try_get::<_, &str>(1)?.to_owned()));
        }
        for (table, what) in tables {
            let state = match what.as_str() {
                "outbox" => scenario.state_sql(),
                other => format!("'{other}'"),
            };
            let query = format!("select r.payload->>'event', {state} from {table} r");
            for row in of_one_snapshot.query(&query, &[]).await? {
                look.places.insert(row.try_get(0)?, Place::parse(row.try_get(1)?)?);
            }
        }
        Ok(look)
    }

    /// How many events have their row in a place.
    pub(crate) fn count(&self, place: Place) -> usize {
        self.places.values().filter(|found| **found == place).count()
    }
}

/// Every table that has rows of an outbox, and what it is.
const TABLES: &str = "select c.oid::regclass::text, \
    case when c.relname like '%archive' then 'archived' \
      when c.relispartition or c.relname in ('outbox', 'outbox_later') then 'outbox' \
      else 'detached' end \
    from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' \
      and c.relname like 'outbox%'";
