//! From an event to a record: key, topic, partition, value and headers. The functions borrow their
//! bytes; what must be decoded (`bytea`, the row's own headers) goes into buffers that are reused
//! from row to row.

use std::num::NonZeroI32;

use pgoutput::PgTimestamp;

use crate::{
    failure::{Case, Code, Failure},
    routing::{
        columns::{Columns, Encoding, Event, Value},
        headers::{Headers, RowHeaders},
        partition::partition_for_key,
        record::{Record, TopicId},
        table::{Format, OutboxTable, Role, Timestamp},
        timestamp,
        topics::Topics,
    },
};
use topic_cache::TopicCache;

pub(crate) use format::FormatHeaders;

mod format;
mod hex;
mod topic_cache;

/// Routes the rows of one table.
#[derive(Debug)]
pub(crate) struct TableRouter {
    table: OutboxTable,
    columns: Columns,
    topic_cache: TopicCache,
}

/// Buffers for what is decoded of one row, reused from row to row.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
    headers: RowHeaders,
}

/// A row that is ready to become a record once its topic's partitions are known.
#[derive(Debug)]
pub(crate) struct Routed<'a> {
    pub(crate) topic: TopicId,
    key: &'a [u8],
    value: Option<&'a [u8]>,
    row_headers: &'a RowHeaders,
    time: RecordTime,
    /// From the row's own column; `None`: the key's.
    partition: Option<i32>,
}

/// The time of a record, in milliseconds since 1970 where the row has it.
#[derive(Debug, Clone, Copy)]
enum RecordTime {
    Commit,
    Now,
    At(i64),
}

impl TableRouter {
    pub(crate) fn new(table: OutboxTable, columns: Columns) -> Self {
        Self { table, columns, topic_cache: TopicCache::default() }
    }

    /// Another Relation message has come. The topic cache stays, since it depends on the
    /// configuration alone.
    pub(crate) fn set_columns(&mut self, columns: Columns) {
        self.columns = columns;
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(crate) fn table(&self) -> &OutboxTable {
        &self.table
    }

    /// Routes one row, and writes the format's headers.
    ///
    /// # Errors
    /// The row cannot become a record. The failure names the row by its id, and contains no
    /// other value of it.
    #[inline]
    pub(crate) fn route<'a>(
        &'a mut self,
        event: &Event<'a>,
        topics: &mut Topics,
        scratch: &'a mut Scratch,
        format_headers: &mut FormatHeaders<'a>,
    ) -> Result<Routed<'a>, Failure> {
        let id = match event.get(Role::Id) {
            Value::Some(id, _) => id,
            Value::Null | Value::Absent => {
                return Err(self.refuse(event, Code::IdIsNull, "its id is NULL"));
            }
        };
        let topic = self.topic(event, topics)?;
        let Scratch { key, value, headers } = scratch;
        let key = match event.get(Role::AggregateId) {
            Value::Some(text, encoding) => self.bytes(event, text, encoding, key)?,
            Value::Null | Value::Absent => {
                return Err(self.refuse(
                    event,
                    Code::KeyIsNull,
                    "its aggregate id is NULL, so it has no key to be ordered by",
                ));
            }
        };
        let value = match event.get(Role::Payload) {
            Value::Some(text, encoding) => Some(self.bytes(event, text, encoding, value)?),
            Value::Null | Value::Absent => None,
        };
        format_headers.write(&self.table, id, event);
        headers.clear();
        if let (Format::Plain, Value::Some(json, _)) = (self.table.format, event.get(Role::Headers))
            && let Err(why) = headers.read(json, format_headers.as_slice())
        {
            return Err(self.refuse(
                event,
                Code::HeadersMalformed,
                &format!("its headers cannot be used: {why}"),
            ));
        }
        let time = match self.table.timestamp {
            Timestamp::Commit => RecordTime::Commit,
            Timestamp::Now => RecordTime::Now,
            Timestamp::Column => self.time(event)?,
        };
        let partition = match event.get(Role::Partition) {
            Value::Some(text, _) => Some(self.partition(event, text)?),
            Value::Null | Value::Absent => None,
        };
        Ok(Routed { topic, key, value, row_headers: headers, time, partition })
    }

    fn time(&self, event: &Event<'_>) -> Result<RecordTime, Failure> {
        let (Value::Some(text, _), Some(form)) =
            (event.get(Role::Timestamp), self.columns.time_form())
        else {
            return Ok(RecordTime::Commit);
        };
        timestamp::millis(text, form).map(RecordTime::At).map_err(|why| {
            let column = self.columns.name(Role::Timestamp);
            let what = format!("column {column} is no timestamp of a record: {why}");
            self.refuse(event, Code::TimestampUnusable, &what)
        })
    }

    /// Whether the topic has it is known only with the topic's partition count.
    fn partition(&self, event: &Event<'_>, text: &[u8]) -> Result<i32, Failure> {
        let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        number.filter(|number| *number >= 0).ok_or_else(|| {
            let column = self.columns.name(Role::Partition);
            let what = format!("column {column} is no partition: it is negative or too large");
            self.refuse(event, Code::PartitionUnusable, &what)
        })
    }

    fn topic(&mut self, event: &Event<'_>, topics: &mut Topics) -> Result<TopicId, Failure> {
        let routing: &[u8] = match event.get(Role::AggregateType) {
            _ if !self.table.topic.depends_on_row() => b"",
            Value::Some(text, _) => text,
            Value::Null | Value::Absent => {
                return Err(self.refuse(
                    event,
                    Code::TopicIsNull,
                    "its aggregate type is NULL, so it has no topic",
                ));
            }
        };
        if let Some(topic) = self.topic_cache.get(routing) {
            return Ok(topic);
        }
        let text = String::from_utf8_lossy(routing);
        let name = self.table.topic.render(&text).map_err(|why| {
            let (column, length) = (self.columns.name(Role::AggregateType), text.chars().count());
            self.refuse(
                event,
                Code::TopicIllegal,
                &format!(
                    "column {column} ({length} characters) makes an illegal topic name: {why}"
                ),
            )
        })?;
        let topic = topics.intern(name)?;
        self.topic_cache.insert(routing, topic);
        Ok(topic)
    }

    #[inline]
    fn bytes<'a>(
        &self,
        event: &Event<'_>,
        text: &'a [u8],
        encoding: Encoding,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Failure> {
        match encoding {
            Encoding::Text => Ok(text),
            Encoding::Hex => match hex::decode(text, buffer) {
                Some(()) => Ok(buffer),
                None => {
                    let what = "a bytea came in another form than hexadecimal";
                    Err(self.refuse(event, Code::ValueForm, what).with_case(Case::ByteaForm))
                }
            },
        }
    }

    #[cold]
    fn refuse(&self, event: &Event<'_>, code: Code, what: &str) -> Failure {
        Failure::new(code, format!("{} of {}: {what}", described(event), self.table.name))
    }
}

/// The greatest length in bytes of an id that messages show: a UUID has 36 characters, a ULID 26, a
/// `bigint` at most 20.
const ID_SHOWN_MAX: usize = 64;

/// How messages name a row: by its id, the only value of a row that they may show. An id is shown
/// only if it looks like one: when `columns.id` names the wrong column, the value may be a payload.
pub(crate) fn described(event: &Event<'_>) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    match event.get(Role::Id) {
        Value::Some(id, _) if id.len() <= ID_SHOWN_MAX && id.iter().all(is_plain) => {
            format!("the row with id {}", String::from_utf8_lossy(id))
        }
        Value::Some(id, _) => {
            format!("a row whose id of {} bytes is not shown, since it is not plain text", id.len())
        }
        Value::Null | Value::Absent => "a row without an id".to_owned(),
    }
}

impl<'a> Routed<'a> {
    /// The partition that the row names, where the topic does not have it.
    #[inline]
    pub(crate) fn partition_beyond(&self, partitions: NonZeroI32) -> Option<i32> {
        self.partition.filter(|partition| *partition >= partitions.get())
    }

    /// The record, once the topic's partition count is known.
    #[inline]
    pub(crate) fn record(
        &self,
        format_headers: &'a FormatHeaders<'a>,
        partitions: NonZeroI32,
        committed_at: PgTimestamp,
    ) -> Record<'a> {
        Record {
            topic: self.topic,
            partition: match self.partition {
                None => partition_for_key(self.key, partitions),
                Some(partition) => partition,
            },
            key: self.key,
            value: self.value,
            headers: Headers::new(format_headers.as_slice(), self.row_headers),
            timestamp_ms: match self.time {
                RecordTime::Commit => committed_at.unix_millis(),
                RecordTime::Now => Record::NOW,
                RecordTime::At(millis) => millis,
            },
        }
    }
}

#[cfg(test)]
mod tests;
