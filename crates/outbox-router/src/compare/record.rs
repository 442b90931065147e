//! A record that the router would produce, as it is compared.

use relay::{Record, TopicName};

use crate::{kafka::PartitionId, owned_record::OwnedRecord};

/// A record that the router would produce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The event's id, as its header has it.
    pub id: Vec<u8>,
    /// Where the record belongs.
    pub partition: PartitionId,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value; `None` is Kafka's null.
    pub value: Option<Vec<u8>>,
    /// Its headers, in their order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Its timestamp.
    pub time: ExpectedTime,
}

/// The timestamp of an expected record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedTime {
    /// The row's own, in milliseconds since 1970.
    Row(i64),
    /// The transaction's, or the producer's clock. The other side has another one, since Debezium
    /// writes when it read the change; so it is not compared.
    NotCompared,
}

impl ExpectedTime {
    pub(super) fn differs(self, stored_ms: i64) -> bool {
        match self {
            Self::Row(millis) => millis != stored_ms,
            Self::NotCompared => false,
        }
    }
}

impl Expected {
    /// Takes a record of a dry run. `topic` is the number of its topic among those that are read;
    /// `None` where the record has no id.
    pub(crate) fn of(
        record: OwnedRecord,
        topic: usize,
        committed_ms: i64,
        id_headers: &IdHeaders,
    ) -> Option<Self> {
        let OwnedRecord { partition, key, value, headers, .. } = record;
        let id = id_headers.id_of(&headers)?.to_vec();
        let time = match record.timestamp_ms {
            Record::NOW => ExpectedTime::NotCompared,
            millis if millis == committed_ms => ExpectedTime::NotCompared,
            millis => ExpectedTime::Row(millis),
        };
        Some(Self { id, partition: PartitionId { topic, partition }, key, value, headers, time })
    }

    /// About what it takes in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + bytes_of(Some(&self.key), self.value.as_deref(), &self.headers)
    }
}

/// The names of the headers that hold an event's id: each table may have its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdHeaders(Vec<String>);

impl IdHeaders {
    /// The names in the order in which they are looked for; `id` where there is none.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut all: Vec<String> = Vec::new();
        for name in names {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        }
        if all.is_empty() {
            all.push("id".to_owned());
        }
        Self(all)
    }

    /// The value of the first id header that is there and not null; of several headers of one name
    /// the first counts.
    pub(crate) fn id_of<'h>(&self, headers: &'h [(String, Option<Vec<u8>>)]) -> Option<&'h [u8]> {
        self.0.iter().find_map(|id_header| {
            let (_, id) = headers.iter().find(|(name, _)| name == id_header)?;
            id.as_deref()
        })
    }
}

/// About what the parts of a record take in memory.
pub(super) fn bytes_of(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(String, Option<Vec<u8>>)],
) -> usize {
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + 64);
    key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + headers.sum::<usize>()
}

/// What a record of Kafka is called in examples.
pub(super) fn topic_partition_offset(
    topics: &[TopicName],
    partition: PartitionId,
    offset: i64,
) -> String {
    let topic = topics.get(partition.topic).map_or("?", TopicName::as_str);
    format!("{topic}-{}@{offset}", partition.partition)
}
