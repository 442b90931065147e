//! What the topics have: the ids of their records, which go into a temporary table of the session
//! that reads the rows. PostgreSQL compares them there, and spills to its disk what its memory does
//! not hold.

use std::{collections::HashMap, ops::ControlFlow, time::SystemTime};

use relay::{Case, Code, Failure, TableName, TopicName, source::Gap};
use tokio::sync::mpsc;
use tokio_postgres::Client;

use super::{args::IdTrust, since::Start, table::Compared};
use crate::{
    blocking::blocking,
    cli::{
        TaskError,
        republication::Progress,
        topic_lookups::{Topic, TopicLookups},
        topic_ranges::{self, Ending, Range},
        topic_template::may_make,
    },
    compare::IdHeaders,
    config::Config,
    kafka::{KafkaSettings, StoredRecord, TopicReader},
    prepare,
    republish::sender::{Counts, Watch as _},
};

/// The temporary table.
pub(super) const SEEN: &str = "pg_temp.outbox_router_seen";

/// Makes it. Nothing can be created in the transaction that reads the rows.
pub(super) const MAKE_SEEN: &str = "create temp table outbox_router_seen \
     (number int2 not null, id text not null, at int8 not null)";

const INSERT: &str = "insert into pg_temp.outbox_router_seen \
     select * from unnest($1::int2[], $2::text[], $3::int8[])";

/// How many ids are inserted at once.
const CHUNK: usize = 20_000;
/// How many such chunks wait for PostgreSQL.
const WAITING: usize = 4;

/// Which records are read.
pub(super) struct Topics {
    settings: KafkaSettings,
    id_headers: IdHeaders,
    pub(super) ranges: Vec<Range>,
    /// The numbers of the tables whose rows may go to a topic.
    tables_of: HashMap<TopicName, Vec<i16>>,
    /// Topics whose oldest records may be deleted.
    pub(super) expired: Vec<TopicName>,
    /// Topics of which only the last record of a key stays.
    compacted: Vec<TopicName>,
    /// Tables whose ids may be those of other records, too.
    ambiguous: Vec<TableName>,
}

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) records: u64,
    /// Records without an id header.
    pub(super) without_id: u64,
    /// Partitions of which an open transaction of another client hides the end.
    pub(super) hidden: u64,
}

struct Chunk {
    numbers: Vec<i16>,
    ids: Vec<String>,
    /// The records' timestamps, in milliseconds since 1970.
    at: Vec<i64>,
    records: u64,
}

impl Topics {
    /// Finds the topics of the tables, and the offsets that are to be read.
    ///
    /// # Errors
    /// No broker answers, or it refuses a topic.
    pub(super) async fn find(
        config: &Config,
        tables: &[Compared],
        from: &Start,
    ) -> Result<Self, Failure> {
        let settings = prepare::kafka_settings(config);
        let id_headers = config.tables().map(|table| table.headers.id.as_str());
        let mut topics = Self {
            settings: settings.clone(),
            id_headers: IdHeaders::new(id_headers),
            ranges: Vec::new(),
            tables_of: HashMap::new(),
            expired: Vec::new(),
            compacted: Vec::new(),
            ambiguous: Vec::new(),
        };
        let ambiguous = tables.iter().filter(|table| !table.has_unique_ids());
        topics.ambiguous = ambiguous.map(|table| table.rows.row.table.clone()).collect();
        let lookups = TopicLookups::open(config)?;
        let (lookups, names) = blocking(move || {
            let names = lookups.names();
            (lookups, names)
        })
        .await;
        for name in names? {
            // Topics of Kafka itself begin with two underscores.
            if Some(&name) == config.kafka.state_topic.as_ref() || name.as_str().starts_with("__") {
                continue;
            }
            let of: Vec<&Compared> =
                tables.iter().filter(|table| may_make(&table.rows.topic, name.as_str())).collect();
            if of.is_empty() {
                continue;
            }
            let from =
                if of.iter().any(|table| table.is_whole()) { from.always() } else { from.clone() };
            topics.add(&lookups, &name, &from)?;
            topics.tables_of.insert(name, of.iter().map(|table| table.number).collect());
        }
        Ok(topics)
    }

    fn add(
        &mut self,
        lookups: &TopicLookups,
        name: &TopicName,
        from: &Start,
    ) -> Result<(), Failure> {
        let facts = match lookups.look_up(name)? {
            Topic::Exists(facts) => facts,
            Topic::ToBeCreated(_) => return Ok(()),
            Topic::Unusable(failure) => return Err(failure),
        };
        let retention = lookups.retention(name)?;
        if retention.is_compacted {
            self.compacted.push(name.clone());
        }
        let reader = TopicReader::open_for_offsets(&self.settings)?;
        let extents = reader.extents(name, facts.partitions, from.records_ms)?;
        for (partition, extent) in (0..).zip(&extents) {
            let (topic, from, to) = (name.clone(), extent.at, extent.end);
            self.ranges.push(Range { topic, partition, from, to });
        }
        // What is there was written since, so what was deleted before it may have been, too, unless
        // records of that age are kept.
        let keeps = retention.bytes.is_none()
            && retention.millis.is_none_or(|kept| now_ms().saturating_sub(kept) < from.records_ms);
        if !keeps && extents.iter().any(|extent| extent.low > 0 && extent.at == extent.low) {
            self.expired.push(name.clone());
        }
        Ok(())
    }

    /// How many offsets there are to read. Some have no record.
    pub(super) fn offsets(&self) -> u64 {
        let of = |range: &Range| range.to.saturating_sub(range.from).max(0).unsigned_abs();
        self.ranges.iter().map(of).sum()
    }

    /// How many topics there are.
    pub(super) fn count(&self) -> usize {
        self.tables_of.len()
    }

    /// Reads the ids into the temporary table.
    ///
    /// # Errors
    /// A topic cannot be read, or PostgreSQL refuses the ids.
    pub(super) async fn read(
        self,
        client: &Client,
        mut progress: Progress<'_>,
    ) -> Result<Read, TaskError> {
        let (sender, mut receiver) = mpsc::channel::<Chunk>(WAITING);
        let reading = blocking(move || self.send(&sender));
        let mut records = 0;
        while let Some(chunk) = receiver.recv().await {
            client.execute(INSERT, &[&chunk.numbers, &chunk.ids, &chunk.at]).await?;
            records += chunk.records;
            progress.progress(&Counts { rows: records, ..Counts::default() }, None);
        }
        let read = reading.await?;
        progress.close();
        // Without it, the planner takes the table for a small one.
        client.batch_execute("analyze pg_temp.outbox_router_seen").await?;
        Ok(read)
    }

    /// Reads, and sends the ids in chunks until nobody takes them any more.
    fn send(self, chunks: &mpsc::Sender<Chunk>) -> Result<Read, Failure> {
        let mut read = Read::default();
        let mut chunk = Chunk::new();
        let take = |topic: &TopicName, record: StoredRecord| {
            read.records += 1;
            chunk.records += 1;
            // An id of a row is text; what is none is the id of no row.
            let id = self.id_headers.id_of(&record.headers).and_then(|id| str::from_utf8(id).ok());
            match id.filter(|id| !id.contains('\0')) {
                Some(id) => {
                    for number in self.tables_of.get(topic).into_iter().flatten() {
                        chunk.numbers.push(*number);
                        chunk.ids.push(id.to_owned());
                        chunk.at.push(record.timestamp_ms);
                    }
                }
                None => read.without_id += 1,
            }
            if chunk.ids.len() >= CHUNK
                && chunks.blocking_send(std::mem::replace(&mut chunk, Chunk::new())).is_err()
            {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let searched = topic_ranges::read(&self.settings, &self.ranges, None, take)?;
        let _nobody_takes_it = chunks.blocking_send(chunk);
        let hidden = searched.iter().filter(|range| range.ending == Ending::Hidden).count();
        read.hidden = u64::try_from(hidden).unwrap_or(u64::MAX);
        Ok(read)
    }

    /// Refuses what makes the comparison wrong.
    ///
    /// # Errors
    /// Records may be deleted, or ids do not tell rows apart.
    pub(super) fn check(&self, from: &Start, ids: IdTrust, gaps: &[Gap]) -> Result<(), Failure> {
        let names = |topics: &[TopicName]| {
            topics.iter().map(TopicName::as_str).collect::<Vec<_>>().join(", ")
        };
        if !self.expired.is_empty() {
            let what = format!(
                "records since {} may be deleted already from {}, so rows whose records are gone \
                 would count as missing",
                from.rows,
                names(&self.expired)
            );
            return Err(Failure::of(Case::RecoverExpired, what));
        }
        if !self.compacted.is_empty() {
            let what = format!(
                "of {} only the last record of each key stays (cleanup.policy), so rows whose \
                 records are gone would count as missing",
                names(&self.compacted)
            );
            return Err(Failure::of(Case::RecoverExpired, what));
        }
        let Some(table) = self.ambiguous.first() else { return Ok(()) };
        // A restored server may have given an id of a lost row to another one.
        let is_restored = gaps.iter().any(|gap| gap.failure.code == Code::HistoryChanged);
        match ids {
            IdTrust::Unique if !is_restored => Ok(()),
            IdTrust::Unique => {
                let what = format!(
                    "the server was restored, and ids of {table} are no uuid: an id in Kafka may \
                     be that of a row that the server has lost"
                );
                Err(Failure::of(Case::RecoverId, what))
            }
            IdTrust::Uuid => {
                let what = format!(
                    "ids of {table} are no uuid, so a record with the id of a missing row may be \
                     that of another table, of another producer, or of a former row"
                );
                Err(Failure::of(Case::RecoverIdAmbiguous, what))
            }
        }
    }
}

impl Read {
    /// Refuses what makes the comparison wrong.
    ///
    /// # Errors
    /// No record has an id, or the end of a topic cannot be read.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.records > 0 && self.without_id == self.records {
            let what = "no record of the topics has an id header (headers.id)";
            return Err(Failure::of(Case::RecoverId, what));
        }
        if self.hidden > 0 {
            let what = format!(
                "an open transaction of another client hides the end of {} partitions, so rows \
                 whose records are there would count as missing",
                self.hidden
            );
            return Err(Failure::of(Case::RecoverExpired, what));
        }
        Ok(())
    }
}

impl Chunk {
    fn new() -> Self {
        let (numbers, ids) = (Vec::with_capacity(CHUNK), Vec::with_capacity(CHUNK));
        Self { numbers, ids, at: Vec::with_capacity(CHUNK), records: 0 }
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
