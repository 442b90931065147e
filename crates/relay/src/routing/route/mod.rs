//! From an event to a record: key, topic, partition, value and headers. The functions borrow their
//! bytes; what must be decoded (`bytea`, the row's own headers) goes into buffers that are reused
//! from row to row.

use std::{borrow::Cow, num::NonZeroI32};

use pgoutput::{PgTimestamp, TupleColumns};

use crate::{
    failure::{Case, Code, Failure, Name},
    routing::{
        columns::{Columns, Encoding, Event, Value},
        headers::{Headers, RowHeaders},
        hex,
        mapping::{MappedRow, RowIs, Unmappable},
        partition::partition_for_key,
        record::{PartitionAndTime, Record, TopicId},
        table::{Format, OutboxTable, Role, Timestamp},
        topic::{NoTopic, TopicName, TopicRule},
        topics::Topics,
    },
    source::quote_identifier,
};
use topic_cache::TopicCache;

pub(crate) use format::FormatHeaders;
pub(crate) use original::{Arrived, Original, OriginalValue};

mod format;
mod original;
mod topic_cache;

/// Routes the rows of one table.
#[derive(Debug)]
pub(crate) struct TableRouter {
    table: OutboxTable,
    columns: Columns,
    topics: TopicRule,
    state_topic: Option<TopicName>,
    topic_cache: TopicCache,
}

/// Buffers for what is decoded of one row, reused from row to row.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
    /// The headers that the mapping has written; the row's own follow.
    pub(crate) headers: RowHeaders,
}

/// A row that is ready to become a record once its topic's partitions are known.
#[derive(Debug)]
pub(crate) struct Routed<'a> {
    pub(crate) topic: TopicId,
    key: &'a [u8],
    value: Option<&'a [u8]>,
    row_headers: &'a RowHeaders,
    timestamp: Timestamp,
}

impl TableRouter {
    /// # Errors
    /// The topic names a group that `route_regex` does not have, which the configuration's reader
    /// excludes.
    pub(crate) fn new(
        table: OutboxTable,
        columns: Columns,
        state_topic: Option<TopicName>,
    ) -> Result<Self, Failure> {
        let topics = TopicRule::new(columns.topic(), table.route()).map_err(|error| {
            Failure::new(Code::TopicIllegal, format!("the topic of {}: {error}", table.name))
        })?;
        Ok(Self { table, columns, topics, state_topic, topic_cache: TopicCache::default() })
    }

    /// Another Relation message has come. The topic cache is kept if the topic template is the
    /// same.
    ///
    /// # Errors
    /// As for [`TableRouter::new`].
    pub(crate) fn set_columns(&mut self, columns: Columns) -> Result<(), Failure> {
        if columns.topic() == self.columns.topic() {
            self.columns = columns;
        } else {
            *self = Self::new(self.table.clone(), columns, self.state_topic.take())?;
        }
        Ok(())
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(crate) fn table(&self) -> &OutboxTable {
        &self.table
    }

    /// Does with a row what the mapping of its table asks for, and puts the mapped values into the
    /// event. `headers` has none yet. Returns `None` where the row is no event.
    ///
    /// # Errors
    /// As for [`TableRouter::route`].
    #[inline]
    pub(crate) fn map_row<'a>(
        &self,
        row: TupleColumns<'_>,
        event: &mut Event<'a>,
        mapped: &'a mut MappedRow,
        headers: &mut RowHeaders,
    ) -> Result<Option<&'a MappedRow>, Failure> {
        if let Some(plan) = self.columns.plan() {
            let row_is = plan.apply(self.columns.names(), row, mapped, headers).map_err(
                |Unmappable { code, case, what }| self.refuse(event, code, &what).with_case(case),
            )?;
            if row_is == RowIs::FilteredOut {
                return Ok(None);
            }
        }
        let mapped = &*mapped;
        for (role, text) in mapped.values() {
            event.replace(role, text);
        }
        Ok(Some(mapped))
    }

    /// The key of the record that a row would become, though other values of the row may be
    /// unusable; `None` for a row that is no event, or has no key. The row may be cut short.
    #[cold]
    pub(crate) fn key<'a>(
        &self,
        row: TupleColumns<'a>,
        mapped: &'a mut MappedRow,
        scratch: &'a mut Scratch,
    ) -> Option<&'a [u8]> {
        let mut event = Event::default();
        self.columns.read_partial(row, &mut event).ok()?;
        if let Some(plan) = self.columns.plan()
            && plan.apply_to_key(self.columns.names(), row, mapped).ok()? == RowIs::FilteredOut
        {
            return None;
        }
        let mapped = &*mapped;
        if self.columns.plan().is_some() {
            for (role, text) in mapped.values() {
                event.replace(role, text);
            }
        }
        match event.get(Role::AggregateId) {
            Value::Some(text, encoding) => {
                self.bytes(&event, text, encoding, &mut scratch.key).ok()
            }
            Value::Null | Value::Absent => None,
        }
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
        if let (Format::Plain, Value::Some(json, _)) = (self.table.format, event.get(Role::Headers))
            && let Err(why) = headers.read(json, format_headers.as_slice())
        {
            return Err(self.refuse(
                event,
                Code::HeadersMalformed,
                &format!("its headers cannot be used: {why}"),
            ));
        }
        Ok(Routed { topic, key, value, row_headers: headers, timestamp: self.table.timestamp })
    }

    /// What the topic is made of.
    #[inline]
    fn routing<'e>(&self, event: &Event<'e>) -> Result<&'e [u8], Failure> {
        match event.get(Role::AggregateType) {
            _ if !self.topics.depends_on_row() => Ok(b""),
            Value::Some(text, _) => Ok(text),
            Value::Null | Value::Absent => Err(self.refuse(
                event,
                Code::TopicIsNull,
                "its aggregate type is NULL, so it has no topic",
            )),
        }
    }

    fn topic(&mut self, event: &Event<'_>, topics: &mut Topics) -> Result<TopicId, Failure> {
        let routing = self.routing(event)?;
        if let Some(topic) = self.topic_cache.get(routing) {
            return Ok(topic);
        }
        let text = String::from_utf8_lossy(routing);
        let name = self.topics.topic(&text).map_err(|why| self.no_topic(event, &text, why))?;
        if self.state_topic.as_ref() == Some(&name) {
            let what = format!("{name} is the state topic, which takes no events");
            return Err(self.refuse(event, Code::TopicIllegal, &what));
        }
        let topic = topics.intern(name)?;
        self.topic_cache.insert(routing, topic);
        Ok(topic)
    }

    #[cold]
    fn no_topic(&self, event: &Event<'_>, aggregate_type: &str, why: NoTopic) -> Failure {
        let column = self.columns.name(Role::AggregateType);
        let length = aggregate_type.chars().count();
        let (code, what) = match why {
            NoTopic::Illegal(why) => {
                (Code::TopicIllegal, format!("makes an illegal topic name: {why}"))
            }
            NoTopic::Mismatch => {
                (Code::RouteMismatch, "does not match the route expression".to_owned())
            }
        };
        self.refuse(event, code, &format!("column {column} ({length} characters) {what}"))
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
    pub(crate) fn refuse(&self, event: &Event<'_>, code: Code, what: &str) -> Failure {
        let what = format!("{} of {}: {what}", name_of_row(event), self.table.name);
        let column = |role| quote_identifier(self.columns.name(role));
        naming_row(Failure::new(code, what), event)
            .naming(Name::IdColumn, column(Role::Id))
            .naming(Name::KeyColumn, column(Role::AggregateId))
    }
}

/// The greatest length in bytes of an id that messages show: a UUID has 36 characters, a ULID 26, a
/// `bigint` at most 20.
const ID_SHOWN_MAX: usize = 64;

/// How messages name a row: by its id, the only value of a row that they may show. An id is shown
/// only if it looks like one: when `columns.id` names the wrong column, the value may be a payload.
pub(crate) fn name_of_row(event: &Event<'_>) -> String {
    match (shown_id(event), event.get(Role::Id)) {
        (Some(id), _) => format!("the row with id {id}"),
        (None, Value::Some(id, _)) => {
            format!("a row whose id of {} bytes is not shown, since it is not plain text", id.len())
        }
        (None, Value::Null | Value::Absent) => "a row without an id".to_owned(),
    }
}

/// Adds the id that the message shows, so that a remedy can contain it.
pub(crate) fn naming_row(failure: Failure, event: &Event<'_>) -> Failure {
    match shown_id(event) {
        Some(id) => failure.naming(Name::RowId, id),
        None => failure,
    }
}

/// The id, where it may be shown. A shell takes it as it stands, too.
fn shown_id<'e>(event: &Event<'e>) -> Option<Cow<'e, str>> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    match event.get(Role::Id) {
        Value::Some(id, _) if id.len() <= ID_SHOWN_MAX && id.iter().all(is_plain) => {
            Some(String::from_utf8_lossy(id))
        }
        Value::Some(..) | Value::Null | Value::Absent => None,
    }
}

impl<'a> Routed<'a> {
    /// Partition and time of the record, once the topic's partition count is known.
    #[inline]
    pub(crate) fn partition_and_time(
        &self,
        partitions: NonZeroI32,
        committed_at: PgTimestamp,
    ) -> PartitionAndTime {
        PartitionAndTime {
            partition: partition_for_key(self.key, partitions),
            timestamp_ms: match self.timestamp {
                Timestamp::Commit | Timestamp::Column => committed_at.unix_millis(),
                Timestamp::Now => Record::NOW,
            },
        }
    }

    /// The record.
    #[inline]
    pub(crate) fn record(
        &self,
        format_headers: &'a FormatHeaders<'a>,
        PartitionAndTime { partition, timestamp_ms }: PartitionAndTime,
    ) -> Record<'a> {
        Record {
            topic: self.topic,
            partition,
            key: self.key,
            value: self.value,
            headers: Headers::new(format_headers.as_slice(), self.row_headers),
            timestamp_ms,
        }
    }
}

#[cfg(test)]
mod tests;
