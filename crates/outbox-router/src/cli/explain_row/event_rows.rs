//! The rows of an outbox table, for a command that looks for events: found by id or by key, with
//! what the core makes of each.

use std::{num::NonZeroI32, time::Duration};

use relay::{
    Case, Code, Failure, Outboxes, TableName, Template, TopicName, partition_for_key, source::Oid,
};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::{
    event_columns::{Names, Partitioning, TimeColumn},
    explained::{Explained, Outcome, Produced, TimeSource, dry_run_of, explain, why_none_fits},
    sought::Sought,
};
use crate::{
    cli::{TaskError, connect, row_security, topic_lookups::Topic},
    config::{Config, SourceKind},
    polling::sql::RowNames,
    postgres::{TextQuery, quote_identifier, quote_table},
    prepare,
    republish::table_row::TableRow,
};

/// A table whose rows are events.
pub(in crate::cli) struct EventRows {
    described: TableRow,
    outboxes: Outboxes,
    row_bytes: usize,
    names: Names,
    /// How rows are named that are polled.
    polled: Option<RowNames>,
}

/// A row of the table.
#[derive(Debug, Clone)]
pub(in crate::cli) struct EventRow {
    row: TableRow,
    /// The transaction that wrote this version of the row.
    pub(in crate::cli) xmin: u32,
    /// What the table's column of the time says, in milliseconds since 1970.
    pub(in crate::cli) written_ms: Option<i64>,
    /// When the transaction committed; `None` where the server does not keep it
    /// (`track_commit_timestamp`).
    pub(in crate::cli) committed_ms: Option<i64>,
}

/// What becomes of a row, by the configuration.
#[derive(Debug, Clone)]
pub(in crate::cli) enum Placement {
    /// It becomes a record.
    Record(Placed),
    /// It becomes one, and its topic cannot be used.
    NoTopic(TopicName, Option<Box<Failure>>),
    /// `where` filters it, as these words say.
    Filtered(String),
    /// `run` would stop at it.
    Refused(Box<Failure>),
}

/// Where the record of a row belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Placed {
    pub(in crate::cli) topic: TopicName,
    pub(in crate::cli) partition: i32,
    /// How many partitions the topic has.
    pub(in crate::cli) count: NonZeroI32,
    /// What its id header holds; `None` where it has none.
    pub(in crate::cli) id: Option<Vec<u8>>,
    pub(in crate::cli) key: Vec<u8>,
    /// Its value; `None` is Kafka's null.
    pub(in crate::cli) value: Option<Vec<u8>>,
    /// The record's timestamp, where a column says it.
    pub(in crate::cli) time_ms: Option<i64>,
    /// Whether the record's timestamp is the time of the commit.
    pub(in crate::cli) is_commit_time: bool,
}

/// How long the search for rows may take: a person waits, and without an index a large table is
/// read as a whole.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// How many rows of a key are looked at: each is one more row to route.
pub(in crate::cli) const LATEST_MAX: u32 = 1_000;

/// How large a table may be that is read as a whole without a word: it takes less than a second.
const LARGE_BYTES: i64 = 64 << 20;

impl EventRows {
    /// Reads the table's description, and whether this role may read its rows.
    ///
    /// # Errors
    /// There is no such table, the role may not read it, or its columns do not fit.
    pub(in crate::cli) async fn describe(
        client: &Client,
        table: &TableName,
        config: &Config,
    ) -> Result<Self, TaskError> {
        let described = TableRow::describe(client, table).await?;
        check_privilege(client, &described).await?;
        let (outboxes, row_bytes) = (config.outboxes(), prepare::size(config.limits.row_bytes));
        let run = dry_run_of(&described, &outboxes, row_bytes)?;
        let names = run.mapping(Oid::from_u32(described.oid)).map(|m| Names::of(m, &described));
        let Some(names) = names else {
            return Err(why_none_fits(&described, &outboxes, row_bytes)?.into());
        };
        let polled = match config.postgres.source {
            SourceKind::Stream => None,
            SourceKind::Polling => {
                let id = Some(names.id.as_str());
                Some(RowNames::read(client, table, id).await.map_err(connect::denied)?)
            }
        };
        Ok(Self { described, outboxes, row_bytes, names, polled })
    }

    pub(in crate::cli) fn table(&self) -> &TableName {
        &self.described.table
    }

    /// The template of the topic.
    pub(in crate::cli) fn topic(&self) -> &str {
        &self.names.topic
    }

    /// The column with the time at which a row was written.
    pub(in crate::cli) fn time_column(&self) -> Option<&str> {
        self.names.time.as_ref().map(|time| time.name.as_str())
    }

    /// The partition of a key of this table; `None` where a column names it.
    pub(in crate::cli) fn partition_of(&self, key: &str, count: NonZeroI32) -> Option<i32> {
        let bytes = match self.names.partitioning {
            Partitioning::Text => key.to_owned(),
            Partitioning::Json => serde_json::json!(key).to_string(),
            Partitioning::Column => return None,
        };
        Some(partition_for_key(bytes.as_bytes(), count))
    }

    /// What people call a row: its id, where that is a column, and else the primary key of one that
    /// is polled.
    pub(in crate::cli) fn id_of(&self, found: &EventRow) -> Option<String> {
        match &self.polled {
            Some(polled) => polled.name_of(|column| found.value(column)),
            None => found.value(&self.names.id).map(str::to_owned),
        }
    }

    /// The rows that an id names; `Err` within says why there can be none.
    pub(in crate::cli) async fn by_id(
        &self,
        client: &Client,
        id: &str,
    ) -> Result<Result<Sought, String>, TaskError> {
        if let Some(polled) = &self.polled {
            return Sought::of_id(client, polled, &self.names.id, id).await;
        }
        match self.column("id", &self.names.id) {
            Ok(column) => Sought::of_column(client, &self.described, column, id).await,
            Err(why) => Ok(Err(why)),
        }
    }

    /// The rows of a key; `Err` within says why there can be none.
    pub(in crate::cli) async fn by_key(
        &self,
        client: &Client,
        key: &str,
    ) -> Result<Result<Sought, String>, TaskError> {
        match self.column("key", &self.names.key) {
            Ok(column) => Sought::of_column(client, &self.described, column, key).await,
            Err(why) => Ok(Err(why)),
        }
    }

    fn column<'n>(&self, role: &str, name: &'n str) -> Result<&'n str, String> {
        if Template::is_one(name) {
            let table = &self.described.table;
            return Err(format!("the {role} of {table} is the text {name}, and no column"));
        }
        Ok(name)
    }

    /// What to say before a column of a large table is searched that no index leads with.
    pub(in crate::cli) async fn advice(
        &self,
        client: &Client,
        sought: &Sought,
    ) -> Result<Option<String>, TaskError> {
        let Some(column) = &sought.column else { return Ok(None) };
        let query = "select exists (select from pg_index i join pg_attribute a \
               on a.attrelid = i.indrelid and a.attnum = i.indkey[0] \
               where i.indrelid = $1 and i.indisvalid and i.indpred is null and a.attname = $2), \
             coalesce((select sum(pg_relation_size(relid)) from pg_partition_tree($1::oid::regclass)), \
               pg_relation_size($1::oid::regclass))::int8";
        let row = client.query_one(query, &[&self.described.oid, &column]).await?;
        let (is_indexed, bytes): (bool, i64) = (row.try_get(0)?, row.try_get(1)?);
        let table = quote_table(&self.described.table);
        Ok((!is_indexed && bytes > LARGE_BYTES).then(|| {
            format!(
                "no index of {} leads with {column}, so all of it is read, for {} s at most: \
                 create index concurrently on {table} ({})",
                self.described.table,
                READ_WITHIN.as_secs(),
                quote_identifier(column)
            )
        }))
    }

    /// The latest of these rows: `limit`, and those that are as old as the last of them, as rows of
    /// one transaction are; at most [`LATEST_MAX`].
    ///
    /// # Errors
    /// The table may not be read, or not within half a minute.
    pub(in crate::cli) async fn latest(
        &self,
        mut client: &Client,
        sought: &Sought,
        limit: u32,
    ) -> Result<Vec<EventRow>, TaskError> {
        let (written, order) = match &self.names.time {
            Some(TimeColumn { name, millis }) => {
                (millis.as_str(), format!("{} desc nulls last", quote_identifier(name)))
            }
            // The age of a transaction is how many have begun after it.
            None => ("null", "age(xmin)".to_owned()),
        };
        let statement = format!(
            "select * from (select {}, xmin::text, {written}, \
               case current_setting('track_commit_timestamp') when 'on' then \
                 floor(extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000)::int8 end \
             from {} where {} order by {} fetch first {limit} rows with ties) latest \
             limit {LATEST_MAX}",
            self.described.select_list(),
            quote_table(&self.described.table),
            sought.condition,
            sought.first.iter().chain([&order]).cloned().collect::<Vec<_>>().join(", "),
        );
        let limit = format!("set statement_timeout = {}", READ_WITHIN.as_millis());
        client.batch_execute(&limit).await?;
        let begun = Instant::now();
        let rows = match client.rows("the rows of the table", &statement).await {
            Ok(rows) => rows,
            Err(mut failure) => {
                if begun.elapsed() >= READ_WITHIN
                    && let Some(advice) = self.advice(client, sought).await?
                {
                    failure.message = format!("{}; {advice}", failure.message);
                }
                return Err(self.named(failure).into());
            }
        };
        let mut found = Vec::with_capacity(rows.len());
        for mut values in rows {
            let mut row = self.described.clone();
            row.fill(&mut values)?;
            let xmin = values.parsed()?;
            let (written_ms, committed_ms) = (values.parsed_nullable()?, values.parsed_nullable()?);
            found.push(EventRow { row, xmin, written_ms, committed_ms });
        }
        Ok(found)
    }

    /// The failure of a reading, which PostgreSQL ends at a value that it cannot print.
    fn named(&self, failure: Failure) -> Failure {
        if failure.code != Code::ServerError || failure.case.is_some() {
            return failure;
        }
        let (table, why) = (&self.described.table, failure.message_with_causes());
        let what = format!("a row of {table} that was asked for cannot be read: {why}");
        Failure::of(Case::RowUnprintable, what)
    }

    /// What the core makes of a row.
    ///
    /// # Errors
    /// The core cannot read the row, or Kafka was asked and did not answer.
    pub(in crate::cli) fn place(
        &self,
        found: &EventRow,
        look_up: impl Fn(&TopicName) -> Result<Topic, Failure>,
    ) -> Result<Placement, Failure> {
        let explained =
            explain(&found.row, &self.outboxes, self.row_bytes, |name| look_up(name).map(Some))?;
        let Explained { outcome, topic, .. } = explained;
        let produced = match outcome {
            Outcome::Produced(produced) => produced,
            Outcome::FilteredOut => {
                return Ok(Placement::Filtered(self.names.filter.clone().unwrap_or_default()));
            }
            Outcome::Refused(failure) => return Ok(Placement::Refused(failure)),
        };
        let name = TopicName::new(&produced.topic)
            .map_err(|why| Failure::new(Code::TopicIllegal, why.to_string()))?;
        Ok(match (topic, &produced.partition.number) {
            (Some(Topic::Exists(facts)), Some(partition)) => {
                Placement::Record(self.placed(&produced, name, *partition, facts.partitions))
            }
            (Some(Topic::Unusable(failure)), _) => {
                Placement::NoTopic(name, Some(Box::new(failure)))
            }
            (None | Some(Topic::Exists(_) | Topic::ToBeCreated(_)), _) => {
                Placement::NoTopic(name, None)
            }
        })
    }

    /// The key of a row's record, whatever its topic is like; `None` where it becomes no record.
    ///
    /// # Errors
    /// The core cannot read the row.
    pub(in crate::cli) fn key_of(&self, found: &EventRow) -> Result<Option<Vec<u8>>, Failure> {
        let explained = explain(&found.row, &self.outboxes, self.row_bytes, |_| Ok(None))?;
        Ok(match explained.outcome {
            Outcome::Produced(produced) => Some(produced.key),
            Outcome::FilteredOut | Outcome::Refused(_) => None,
        })
    }

    fn placed(
        &self,
        produced: &Produced,
        topic: TopicName,
        partition: i32,
        count: NonZeroI32,
    ) -> Placed {
        let header = produced.headers.iter().find(|header| header.name == self.names.id_header);
        let time_ms = match &produced.time {
            TimeSource::Column(millis, _) => Some(*millis),
            TimeSource::Commit
            | TimeSource::Now
            | TimeSource::ByColumn(_)
            | TimeSource::Reading => None,
        };
        let is_commit_time = produced.time == TimeSource::Commit;
        let id = header.and_then(|header| header.value.clone());
        let (key, value) = (produced.key.clone(), produced.value.clone());
        Placed { topic, partition, count, id, key, value, time_ms, is_commit_time }
    }
}

impl EventRow {
    /// The value of a column.
    pub(in crate::cli) fn value(&self, column: &str) -> Option<&str> {
        self.row.value(column)
    }
}

#[cfg(test)]
impl EventRow {
    /// A row of which only the times matter.
    pub(in crate::cli) fn without_columns(xmin: u32, written_ms: Option<i64>) -> Self {
        let table = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
        let row = TableRow { oid: 1, table, columns: Vec::new(), types: Vec::new() };
        Self { row, xmin, written_ms, committed_ms: None }
    }
}

/// That this role may read the table, before it is read, and runs no code of a role that it is more
/// than: the failure names the statement that lets it.
pub(in crate::cli) async fn check_privilege(
    client: &Client,
    described: &TableRow,
) -> Result<(), TaskError> {
    let query = "select has_table_privilege(c.oid, 'select'), \
        has_schema_privilege(c.relnamespace, 'usage'), current_user::text \
        from pg_class c where c.oid = $1";
    let row = client.query_one(query, &[&described.oid]).await?;
    let (may_read, may_use, role): (bool, bool, String) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if may_read && may_use {
        return row_security::check(client, described).await;
    }
    let (table, quoted) = (&described.table, quote_identifier(&role));
    let mut grants = Vec::new();
    if !may_use {
        let schema = quote_identifier(&table.schema);
        grants.push(format!("grant usage on schema {schema} to {quoted}"));
    }
    if !may_read {
        grants.push(format!("grant select on table {} to {quoted}", quote_table(table)));
    }
    Err(connect::lacks(format!("the role {role} may not read {table}"), &grants).into())
}
