//! What was committed, according to the database: the set that the checker compares Kafka with.
//!
//! Writers record every event in a table, in the transaction that writes the event, so the table
//! shows whether a commit without a response has happened. What each record must look like follows
//! from the row as the *database* stores it (`jsonb` has its own spelling), so digests are computed
//! there.

use std::collections::HashSet;
use std::fmt;

use anyhow::Context;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use crate::load::COMMITTED;

/// Length and SHA-256 of a record's value: enough to compare, and small enough to keep a million.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    /// Length in bytes.
    pub length: i64,
    /// SHA-256.
    pub sha256: [u8; 32],
}

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            length: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            sha256: Sha256::digest(bytes).into(),
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.sha256;
        write!(f, "{} B {a:02x}{b:02x}{c:02x}{d:02x}…", self.length)
    }
}

/// One committed event and the record it must become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedEvent {
    /// The event's id.
    pub id: Uuid,
    /// Its number within its aggregate, in commit order.
    pub seq: i64,
    /// Topic.
    pub topic: String,
    /// Key: the aggregate's id.
    pub key: String,
    /// Value; `None` is a null value.
    pub value: Option<Digest>,
    /// Headers, in any order.
    pub headers: Vec<(String, String)>,
    /// The transaction that wrote it.
    pub xid: u32,
}

/// Which headers a record has beside its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `id`, `type`, and the members of the row's own `headers`.
    Plain,
    /// `id` alone.
    Debezium,
}

/// How rows become records, in the configuration that the router was given.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// What precedes the aggregate type in the topic's name.
    pub topic_prefix: String,
    /// Headers.
    pub format: Format,
}

impl Default for Mapping {
    fn default() -> Self {
        Self { topic_prefix: "outbox.event.".to_owned(), format: Format::Plain }
    }
}

/// Everything that must be in Kafka, and what must not.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// Committed events.
    pub events: Vec<ExpectedEvent>,
    /// Ids that were written and rolled back, according to the writers.
    pub rolled_back: HashSet<Uuid>,
}

impl Truth {
    /// Reads the table of committed events.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be read.
    pub async fn from_committed(client: &Client, mapping: &Mapping) -> anyhow::Result<Self> {
        let query = format!(
            "SELECT uuid_send(id), seq, aggregate_type, aggregate_id, event_type, payload_bytes, \
             payload_sha256, headers, xid FROM {COMMITTED}"
        );
        let rows = client.query(&query, &[]).await.context("cannot read what was committed")?;
        let events = rows.iter().map(|row| event(row, mapping)).collect::<anyhow::Result<_>>()?;
        Ok(Self { events, rolled_back: HashSet::new() })
    }

    /// Adds ids that must never appear.
    #[must_use]
    pub fn rolled_back(mut self, ids: impl IntoIterator<Item = Uuid>) -> Self {
        self.rolled_back.extend(ids);
        self
    }
}

fn event(row: &Row, mapping: &Mapping) -> anyhow::Result<ExpectedEvent> {
    let id = Uuid::from_slice(row.try_get(0)?)?;
    let aggregate_type: &str = row.try_get(2)?;
    let event_type: &str = row.try_get(4)?;
    let value = match (row.try_get::<_, Option<i32>>(5)?, row.try_get::<_, Option<&[u8]>>(6)?) {
        (Some(length), Some(sha256)) => {
            Some(Digest { length: i64::from(length), sha256: sha256.try_into()? })
        }
        _ => None,
    };
    let mut headers = vec![("id".to_owned(), id.to_string())];
    if mapping.format == Format::Plain {
        headers.push(("type".to_owned(), event_type.to_owned()));
        if let Some(own) = row.try_get::<_, Option<&str>>(7)? {
            headers.extend(own_headers(own)?);
        }
    }
    Ok(ExpectedEvent {
        id,
        seq: row.try_get(1)?,
        topic: format!("{}{aggregate_type}", mapping.topic_prefix),
        key: row.try_get(3)?,
        value,
        headers,
        xid: u32::try_from(row.try_get::<_, i64>(8)?)?,
    })
}

/// Members of a `headers` column; the loads of this crate write strings only.
fn own_headers(json: &str) -> anyhow::Result<Vec<(String, String)>> {
    let members: Map<String, Value> = serde_json::from_str(json)?;
    members
        .into_iter()
        .map(|(name, value)| {
            let text = value.as_str().with_context(|| format!("header {name} is no string"))?;
            Ok((name, text.to_owned()))
        })
        .collect()
}
