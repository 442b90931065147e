//! What the topics have: the ids of their records, and a hash of each record, which go into a
//! temporary table of the session that reads the rows. PostgreSQL compares them there, and spills
//! to its disk what its memory does not hold.

use std::{collections::HashMap, ops::ControlFlow, time::SystemTime};

use relay::{
    Case, Failure, OnMismatch, PgTimestamp, TableName, TopicName, delivered::required::Required,
    source::Gap, wording,
};
use tokio::sync::mpsc;
use tokio_postgres::Client;

use super::{
    args::IdTrust,
    seen::Contents,
    since::Start,
    table::{ComparedTable, Ids, may_be_given_again},
};
use crate::{
    blocking::blocking,
    cli::{
        TaskError,
        replay::MARKER,
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

const INSERT: &str = "insert into pg_temp.outbox_router_seen \
     select * from unnest($1::int2[], $2::int4[], $3::text[], $4::int8[], $5::int8[])";

/// What was read of a table's ids does not count where it is in other topics than the row's own.
pub(super) const FORGET: &str = "delete from pg_temp.outbox_router_seen s \
     using unnest($2::text[]) elsewhere (id) where s.number = $1 and s.id = elsewhere.id";

/// How many ids are inserted at once.
const CHUNK: usize = 20_000;
/// How many such chunks wait for PostgreSQL.
const WAITING: usize = 4;

/// Which records are read.
pub(super) struct Topics {
    settings: KafkaSettings,
    contents: Contents,
    pub(super) ranges: Vec<Range>,
    /// The tables whose rows may go to a topic, each with its number and the header that has the
    /// ids of its events.
    tables_of: HashMap<TopicName, (i32, Vec<(i16, IdHeaders)>)>,
    /// Topics whose oldest records may be deleted.
    pub(super) expired: Vec<TopicName>,
    /// Topics that keep records of that age, and whose first ones are gone all the same.
    pub(super) begun_later: Vec<TopicName>,
    /// Topics of which only the last record of a key stays.
    compacted: Vec<TopicName>,
    /// Tables whose ids may be those of other rows, too.
    ambiguous: Vec<(TableName, Ids)>,
}

/// The number of each topic in the temporary table, and how it tells records apart.
#[derive(Debug, Default)]
pub(super) struct TopicNumbers {
    pub(super) topics: HashMap<TopicName, i32>,
    pub(super) contents: Contents,
}

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) records: u64,
    /// Records without an id header.
    pub(super) without_id: u64,
    /// Records that `replay` has sent again, under the ids of the first ones.
    pub(super) replayed: u64,
    /// Partitions of which an open transaction of another client hides the end.
    pub(super) hidden: u64,
}

struct Chunk {
    numbers: Vec<i16>,
    topics: Vec<i32>,
    ids: Vec<String>,
    /// The records' timestamps, in milliseconds since 1970.
    at: Vec<i64>,
    contents: Vec<i64>,
    records: u64,
}

impl Topics {
    /// Finds the topics of the tables, and the offsets that are to be read.
    ///
    /// # Errors
    /// No broker answers, or it refuses a topic.
    pub(super) async fn find(
        config: &Config,
        (tables, required): (&[ComparedTable], &Required),
        from: &Start,
    ) -> Result<Self, Failure> {
        let settings = prepare::kafka_settings(config);
        let mut topics = Self {
            settings: settings.clone(),
            contents: Contents::default(),
            ranges: Vec::new(),
            tables_of: HashMap::new(),
            expired: Vec::new(),
            begun_later: Vec::new(),
            compacted: Vec::new(),
            ambiguous: Vec::new(),
        };
        let ambiguous = tables.iter().filter(|table| table.ids() != Ids::Unique);
        topics.ambiguous =
            ambiguous.map(|table| (table.rows.row.table.clone(), table.ids())).collect();
        let lookups = TopicLookups::open(config)?;
        let (lookups, names) = blocking(move || {
            let names = lookups.names();
            (lookups, names)
        })
        .await;
        // Where a value does not match the table's route_regex, its topic is the value itself.
        let takes_any = |table: &ComparedTable| {
            let mut of = config.tables().filter(|of| of.name == table.rows.row.table);
            of.any(|of| of.route_regex.is_some() && of.on_route_mismatch == OnMismatch::Value)
        };
        for name in names? {
            let own = [config.kafka.state_topic.as_ref(), config.dead_letters.topic.as_ref()];
            let is_own = own.into_iter().flatten().any(|own| own.as_str() == name.as_str());
            // Topics of Kafka itself begin with two underscores.
            if is_own || name.as_str().starts_with("__") {
                continue;
            }
            let of: Vec<&ComparedTable> = tables
                .iter()
                .filter(|table| takes_any(table) || may_make(&table.rows.topic, name.as_str()))
                .collect();
            if of.is_empty() {
                continue;
            }
            let from =
                if of.iter().any(|table| table.is_whole()) { from.always() } else { from.clone() };
            topics.add(&lookups, &name, &from)?;
            if of.len() > 1 || required.has_others() {
                topics.shared(&of);
            }
            let number = i32::try_from(topics.tables_of.len()).unwrap_or(i32::MAX);
            let tables = of.iter().map(|table| (table.number, table.id_headers(config))).collect();
            topics.tables_of.insert(name, (number, tables));
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
        if extents.iter().any(|extent| extent.low > 0 && extent.at == extent.low) {
            let topics = if keeps { &mut self.begun_later } else { &mut self.expired };
            topics.push(name.clone());
        }
        Ok(())
    }

    /// Another table may write to one of their topics, and no index keeps it from giving an event
    /// an id that they have. That no id is in two of them now would prove nothing: rows are
    /// deleted.
    fn shared(&mut self, tables: &[&ComparedTable]) {
        for table in tables.iter().map(|table| &table.rows.row.table) {
            if !self.ambiguous.iter().any(|(known, _)| known == table) {
                self.ambiguous.push((table.clone(), Ids::Shared));
            }
        }
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

    /// The numbers by which the temporary table names them, and how it tells their records apart.
    pub(super) fn numbers(&self) -> TopicNumbers {
        let topics = self.tables_of.iter();
        TopicNumbers {
            topics: topics.map(|(name, (number, _))| (name.clone(), *number)).collect(),
            contents: self.contents.clone(),
        }
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
            let Chunk { numbers, topics, ids, at, contents, .. } = &chunk;
            client.execute(INSERT, &[numbers, topics, ids, at, contents]).await?;
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
            if record.headers.iter().any(|(name, _)| name == MARKER) {
                read.replayed += 1;
                return ControlFlow::Continue(());
            }
            let Some((number, tables)) = self.tables_of.get(topic) else {
                return ControlFlow::Continue(());
            };
            let StoredRecord { key, value, headers, .. } = &record;
            let content = self.contents.of_parts(key.as_deref(), value.as_deref(), headers);
            let mut has_id = false;
            for (table, id_headers) in tables {
                // The id of a row is text; other bytes belong to no row.
                let id = id_headers.id_of(headers).and_then(|id| str::from_utf8(id).ok());
                let Some(id) = id.filter(|id| !id.contains('\0')) else { continue };
                has_id = true;
                chunk.numbers.push(*table);
                chunk.topics.push(*number);
                chunk.ids.push(id.to_owned());
                chunk.at.push(record.timestamp_ms);
                chunk.contents.push(content);
            }
            read.without_id += u64::from(!has_id);
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
                wording::utc(PgTimestamp::from_unix_micros(from.records_ms.saturating_mul(1_000)))
                    .unwrap_or_default(),
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
        let is_counted = |(_, ids): &&(TableName, Ids)| *ids == Ids::NoUuid;
        let counted = self.ambiguous.iter().find(is_counted).filter(|_| may_be_given_again(gaps));
        let Some((table, why)) = counted.or(self.ambiguous.first()) else { return Ok(()) };
        match (ids, why) {
            (IdTrust::Unique, _) if counted.is_none() => Ok(()),
            (IdTrust::Unique, _) => {
                let what = format!(
                    "the server was restored, and ids of {table} are no uuid, or one that is made \
                     from its row (such as version 3, 5 or 8): an id in Kafka may be that of a row \
                     that the server has lost"
                );
                Err(Failure::of(Case::RecoverId, what))
            }
            (IdTrust::Indexed, Ids::NotIndexed) => {
                let what = format!(
                    "no unique index of {table} is on its id alone, so a record with the id of a \
                     missing row may be that of another row"
                );
                Err(Failure::of(Case::RecoverIdAmbiguous, what))
            }
            (IdTrust::Indexed, Ids::Shared) => {
                let what = format!(
                    "another table may write to a topic of {table}, and no index keeps the ids of \
                     two tables apart, so a record with the id of a missing row may be that of the \
                     other table"
                );
                Err(Failure::of(Case::RecoverIdAmbiguous, what))
            }
            (IdTrust::Indexed, Ids::NoUuid | Ids::Unique) => {
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
        if self.without_id > 0 && self.without_id + self.replayed == self.records {
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
        let (numbers, topics) = (Vec::with_capacity(CHUNK), Vec::with_capacity(CHUNK));
        let (ids, at) = (Vec::with_capacity(CHUNK), Vec::with_capacity(CHUNK));
        Self { numbers, topics, ids, at, contents: Vec::with_capacity(CHUNK), records: 0 }
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
