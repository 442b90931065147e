//! Gives a row to the core, and notes what the core makes of it and which rule decided.

use std::num::NonZeroI32;

use pgoutput::PgTimestamp;
use relay::{
    Described, DryFrame, DryRun, Failure, Outboxes, Record, Role, Timestamp, TopicFacts, TopicName,
    hash_of_key, source::Oid, source::TableOids,
};

use super::{messages, origins::origins, source::source, table_row::TableRow};

/// What the core makes of a row.
#[derive(Debug)]
pub(super) struct Explained {
    pub(super) table: String,
    /// What the core found in the table's columns; `None` where they do not fit.
    pub(super) rules: Option<Rules>,
    pub(super) outcome: Outcome,
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
    /// Nothing: `where` leaves it out.
    LeftOut,
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
    pub(super) value_bytes: Option<usize>,
    pub(super) value_source: String,
    pub(super) time: Time,
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

/// The record's timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Time {
    /// That of the transaction's commit.
    Commit,
    /// When it is produced.
    Now,
    /// Milliseconds since 1970, from this column.
    Column(i64, String),
}

/// What is known of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Known(TopicFacts),
    Unknown,
}

/// The commit time of the row's transaction, which nobody knows here. No column can say so: a
/// record's time is after 1970.
const COMMITTED_AT: i64 = -1_000_000;

/// Gives the row to the core; `count` says what is known of its topic.
///
/// # Errors
/// The core cannot read the row, or Kafka was asked and did not answer.
pub(super) fn explain(
    row: &TableRow,
    outboxes: &Outboxes,
    row_bytes: usize,
    mut count: impl FnMut(&TopicName) -> Result<Count, Failure>,
) -> Result<Explained, Failure> {
    let mut run = described(row, outboxes, row_bytes)?;
    let insert = messages::insert(row);
    let mut produced = None;
    let mut known = Count::Unknown;
    let outcome = loop {
        let seen = match insert.get(..row_bytes).filter(|_| insert.len() > row_bytes) {
            Some(prefix) => run.oversized(insert.len(), prefix)?,
            None => run.frame(&insert, |record| produced = Some(Copied::of(record)))?,
        };
        match seen {
            DryFrame::LookUpTopic(id, name) => {
                known = count(&name)?;
                // Every partition that a row may name is one of so many.
                let any = TopicFacts { partitions: NonZeroI32::MAX, max_message_bytes: None };
                let facts = if let Count::Known(facts) = known { facts } else { any };
                run.topic(id, facts);
            }
            DryFrame::Refused(failure, _) => break Outcome::Refused(failure),
            DryFrame::Event | DryFrame::FilteredOut | DryFrame::Passed(_) | DryFrame::Other => {
                let described = run.described(Oid::from_u32(row.oid));
                break match (produced, described) {
                    (Some(copied), Some(described)) => {
                        let topic = run.topic_name(copied.topic).map_or("", TopicName::as_str);
                        Outcome::Produced(Box::new(copied.shown(row, topic, known, described)))
                    }
                    _ => Outcome::LeftOut,
                };
            }
        }
    };
    let rules = run.described(Oid::from_u32(row.oid)).map(Rules::of);
    Ok(Explained { table: row.table.to_string(), rules, outcome })
}

/// A dry run that was told about the row's table.
///
/// # Errors
/// The core cannot read the description.
pub(super) fn described(
    row: &TableRow,
    outboxes: &Outboxes,
    row_bytes: usize,
) -> Result<DryRun, Failure> {
    let mut run = DryRun::new(outboxes.clone(), TableOids::default(), row_bytes);
    let committed_at = PgTimestamp::from_unix_micros(COMMITTED_AT);
    let begin = [messages::begin(committed_at)].into_iter();
    for frame in begin.chain(messages::types(row)).chain([messages::relation(row)]) {
        run.frame(&frame, |_| ())?;
    }
    Ok(run)
}

impl Rules {
    fn of(described: Described<'_>) -> Self {
        let table = described.table();
        let topic = described.topic().to_string();
        let is_used = table.route_regex.is_some() || topic.contains("${aggregate_type}");
        let aggregate_type = described.column(Role::AggregateType);
        Self {
            preset: described.preset().name,
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

/// A record, copied.
struct Copied {
    topic: relay::TopicId,
    partition: i32,
    key: Vec<u8>,
    value_bytes: Option<usize>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    timestamp_ms: i64,
}

impl Copied {
    fn of(record: &Record<'_>) -> Self {
        let headers = record.headers.iter();
        Self {
            topic: record.topic,
            partition: record.partition,
            key: record.key.to_vec(),
            value_bytes: record.value.map(<[u8]>::len),
            headers: headers
                .map(|header| (header.name.to_owned(), header.value.map(<[u8]>::to_vec)))
                .collect(),
            timestamp_ms: record.timestamp_ms,
        }
    }

    fn shown(
        self,
        row: &TableRow,
        topic: &str,
        count: Count,
        described: Described<'_>,
    ) -> Produced {
        let by_column = described.column(Role::Partition).filter(|name| row.value(name).is_some());
        let count = match count {
            Count::Known(facts) => Some(facts.partitions),
            Count::Unknown => None,
        };
        let partition = Partition {
            number: (count.is_some() || by_column.is_some()).then_some(self.partition),
            count,
            hash: hash_of_key(&self.key),
            column: by_column.map(str::to_owned),
        };
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let sources = origins(row, described, &names);
        let headers = self.headers.into_iter().zip(sources);
        Produced {
            topic: topic.to_owned(),
            partition,
            key: self.key,
            key_source: of_role(described, Role::AggregateId),
            value_bytes: self.value_bytes,
            value_source: value_source(described),
            time: time(self.timestamp_ms, described),
            headers: headers
                .map(|((name, value), source)| ShownHeader { name, value, source })
                .collect(),
        }
    }
}

fn of_role(described: Described<'_>, role: Role) -> String {
    described.column(role).map_or_else(|| "no column".to_owned(), source)
}

fn value_source(described: Described<'_>) -> String {
    let payload = of_role(described, Role::Payload);
    let envelope = &described.table().envelope;
    if envelope.is_empty() {
        return payload;
    }
    let members: Vec<String> = envelope
        .iter()
        .map(|member| format!("{} (column {})", member.name, member.column))
        .collect();
    format!("{payload}, in an envelope with {}", members.join(", "))
}

fn time(millis: i64, described: Described<'_>) -> Time {
    let commit = PgTimestamp::from_unix_micros(COMMITTED_AT).unix_millis();
    match (millis, described.table().timestamp, described.column(Role::Timestamp)) {
        (Record::NOW, ..) => Time::Now,
        (millis, Timestamp::Column, Some(column)) if millis != commit => {
            Time::Column(millis, column.to_owned())
        }
        _ => Time::Commit,
    }
}
