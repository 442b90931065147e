//! Gives a row to the core, and notes what the core makes of it and which rule decided.

use std::num::NonZeroI32;

use pgoutput::PgTimestamp;
use relay::{
    Code, DryFrame, DryRun, Failure, Mapping, Outboxes, Record, Role, Timestamp, TopicName,
    hash_of_key, source::Oid, source::TableOids,
};

use super::origins::{origins, source};
use crate::{
    cli::topic_lookups::Topic,
    owned_record::OwnedRecord,
    postgres::frames::{PREFIX_BYTES, frame_limit},
    republish::{messages, sender::UNKNOWN, table_row::TableRow},
};

/// What the core makes of a row.
#[derive(Debug)]
pub(super) struct Explained {
    pub(super) table: String,
    /// What the core found in the table's columns; `None` where they do not fit.
    pub(super) rules: Option<Rules>,
    pub(super) outcome: Outcome,
    /// What was learned of the row's topic, if it was looked up.
    pub(super) topic: Option<Topic>,
}

impl Explained {
    /// The time of a row that is polled, in the place of its transaction's, which nobody knows.
    pub(super) fn of_polled_row(&mut self, written: TimeSource) {
        if let Outcome::Produced(produced) = &mut self.outcome
            && produced.time == TimeSource::Commit
        {
            produced.time = written;
        }
    }
}

/// What holds for every row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) preset: &'static str,
    pub(super) format: relay::Format,
    /// The template of the topic.
    pub(super) topic: String,
    pub(super) route_regex: Option<String>,
    /// What fills `${aggregate_type}` of the topic.
    pub(super) aggregate_type: Option<String>,
}

/// What becomes of the row.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A record.
    Produced(Box<Produced>),
    /// Nothing: `where` filters it.
    FilteredOut,
    /// `run` would stop.
    Refused(Box<Failure>),
}

/// The record, and where each part comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Produced {
    pub(super) topic: String,
    pub(super) partition: Partition,
    pub(super) key: Vec<u8>,
    pub(super) key_source: String,
    pub(super) value: Option<Vec<u8>>,
    pub(super) value_source: String,
    pub(super) time: TimeSource,
    pub(super) headers: Vec<ShownHeader>,
}

/// A header, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownHeader {
    pub(super) name: String,
    pub(super) value: Option<Vec<u8>>,
    pub(super) source: String,
}

/// Which partition, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Partition {
    /// `None`: the topic's partition count is not known.
    pub(super) number: Option<i32>,
    pub(super) count: Option<NonZeroI32>,
    pub(super) hash: i32,
    /// The column that names it, in place of the key's hash.
    pub(super) column: Option<String>,
}

/// Where the record's timestamp comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TimeSource {
    /// That of the transaction's commit.
    Commit,
    /// When it is produced.
    Now,
    /// Milliseconds since 1970, from this column.
    Column(i64, String),
    /// That which this column gives a row that is polled.
    ByColumn(String),
    /// When the row is read, since it is polled and no column gives its time.
    Reading,
}

/// Stands for the commit time, which is not known. No column gives this time: a record's time is
/// after 1970.
const COMMITTED_AT: i64 = -1_000_000;

/// Gives the row to the core; `look_up` says what is known of its topic.
///
/// # Errors
/// The core cannot read the row, or Kafka was asked and did not answer.
pub(super) fn explain(
    row: &TableRow,
    outboxes: &Outboxes,
    row_bytes: usize,
    mut look_up: impl FnMut(&TopicName) -> Result<Option<Topic>, Failure>,
) -> Result<Explained, Failure> {
    let mut run = dry_run_of(row, outboxes, row_bytes)?;
    let insert = messages::wal(&messages::insert(row));
    let is_whole = insert.len() <= frame_limit(row_bytes);
    let prefix = insert.get(..PREFIX_BYTES).unwrap_or(&insert);
    let (mut produced, mut topic) = (None, None);
    let outcome = loop {
        let seen = match is_whole {
            true => run.frame(&insert, |record| produced = Some(OwnedRecord::of(record)))?,
            false => run.oversized(insert.len(), prefix)?,
        };
        match seen {
            DryFrame::LookUpTopic(id, name) => {
                topic = look_up(&name)?;
                run.topic(id, topic.as_ref().map_or(UNKNOWN, Topic::facts));
            }
            DryFrame::Refused(failure, _) => break Outcome::Refused(failure),
            DryFrame::Event | DryFrame::FilteredOut | DryFrame::Passed(_) | DryFrame::Other => {
                let mapping = run.mapping(Oid::from_u32(row.oid));
                break match (produced, mapping) {
                    (Some(record), Some(mapping)) => {
                        let name = run.topic_name(record.topic).map_or("", TopicName::as_str);
                        let count = topic.as_ref().and_then(Topic::partitions);
                        Outcome::Produced(Box::new(Produced::of(record, row, name, count, mapping)))
                    }
                    _ => Outcome::FilteredOut,
                };
            }
        }
    };
    let rules = run.mapping(Oid::from_u32(row.oid)).map(Rules::of);
    Ok(Explained { table: row.table.to_string(), rules, outcome, topic })
}

/// Why every row of a table is refused, whatever its values: its columns do not fit.
///
/// # Errors
/// The core cannot read the row.
pub(in crate::cli) fn why_none_fits(
    table: &TableRow,
    outboxes: &Outboxes,
    row_bytes: usize,
) -> Result<Failure, Failure> {
    match explain(table, outboxes, row_bytes, |_| Ok(None))?.outcome {
        Outcome::Refused(failure) => Ok(*failure),
        Outcome::Produced(_) | Outcome::FilteredOut => {
            let what = format!("{} is no outbox by this configuration", table.table);
            Ok(Failure::new(Code::TableMissing, what))
        }
    }
}

/// A dry run that was told about the row's table.
///
/// # Errors
/// The core cannot read the description.
pub(in crate::cli) fn dry_run_of(
    row: &TableRow,
    outboxes: &Outboxes,
    row_bytes: usize,
) -> Result<DryRun, Failure> {
    let mut run = DryRun::new(outboxes.clone(), TableOids::default(), row_bytes);
    let committed_at = PgTimestamp::from_unix_micros(COMMITTED_AT);
    let begin = [messages::begin(committed_at)].into_iter();
    for message in begin.chain(messages::types(row)).chain([messages::relation(row)]) {
        run.frame(&messages::wal(&message), |_| ())?;
    }
    Ok(run)
}

impl Rules {
    fn of(mapping: Mapping<'_>) -> Self {
        let table = mapping.table();
        let topic = mapping.topic().to_string();
        let is_used = table.route_regex.is_some() || topic.contains("${aggregate_type}");
        let aggregate_type = mapping.column(Role::AggregateType);
        Self {
            preset: mapping.preset().name,
            format: table.format,
            route_regex: table.route_regex.as_ref().map(ToString::to_string),
            // Where columns fill the topic, its own template stands for the role.
            aggregate_type: aggregate_type
                .filter(|column| is_used && *column != topic)
                .map(str::to_owned),
            topic,
        }
    }
}

impl Produced {
    fn of(
        record: OwnedRecord,
        row: &TableRow,
        topic: &str,
        count: Option<NonZeroI32>,
        mapping: Mapping<'_>,
    ) -> Self {
        let by_column = mapping.column(Role::Partition).filter(|name| row.value(name).is_some());
        let partition = Partition {
            number: (count.is_some() || by_column.is_some()).then_some(record.partition),
            count,
            hash: hash_of_key(&record.key),
            column: by_column.map(str::to_owned),
        };
        let names: Vec<&str> = record.headers.iter().map(|(name, _)| name.as_str()).collect();
        let sources = origins(row, mapping, &names);
        let headers = record.headers.into_iter().zip(sources);
        Self {
            topic: topic.to_owned(),
            partition,
            key: record.key,
            key_source: of_role(mapping, Role::AggregateId),
            value: record.value,
            value_source: value_source(mapping),
            time: time(record.timestamp_ms, mapping),
            headers: headers
                .map(|((name, value), source)| ShownHeader { name, value, source })
                .collect(),
        }
    }
}

fn of_role(mapping: Mapping<'_>, role: Role) -> String {
    mapping.column(role).map_or_else(|| "no column".to_owned(), source)
}

fn value_source(mapping: Mapping<'_>) -> String {
    let payload = of_role(mapping, Role::Payload);
    let envelope = &mapping.table().envelope;
    if envelope.is_empty() {
        return payload;
    }
    let members: Vec<String> = envelope
        .iter()
        .map(|member| format!("{} (column {})", member.name, member.column))
        .collect();
    format!("{payload}, in an envelope with {}", members.join(", "))
}

fn time(millis: i64, mapping: Mapping<'_>) -> TimeSource {
    let commit = PgTimestamp::from_unix_micros(COMMITTED_AT).unix_millis();
    match (millis, mapping.table().timestamp, mapping.column(Role::Timestamp)) {
        (Record::NOW, ..) => TimeSource::Now,
        (millis, Timestamp::Column, Some(column)) if millis != commit => {
            TimeSource::Column(millis, column.to_owned())
        }
        _ => TimeSource::Commit,
    }
}
