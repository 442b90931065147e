//! A record that the router would produce, on its own: it waits for the one in Kafka.

use relay::{Record, TopicName};

use crate::kafka::PartitionId;

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
    pub time: Time,
}

/// The timestamp of an expected record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// The row's own, in milliseconds since 1970.
    Row(i64),
    /// The transaction's, or the producer's clock. The other side has another one, since Debezium
    /// writes when it read the change; so it is not compared.
    NotCompared,
}

impl Expected {
    /// Copies a record of a dry run. `topic` is the number of its topic among those that are read;
    /// `None` where the record has no header `id_header`.
    pub fn of(
        record: &Record<'_>,
        topic: usize,
        committed_ms: i64,
        id_header: &str,
    ) -> Option<Self> {
        let headers: Vec<(String, Option<Vec<u8>>)> = record
            .headers
            .iter()
            .map(|header| (header.name.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect();
        let id = id_of(&headers, id_header)?.to_vec();
        let time = match record.timestamp_ms {
            Record::NOW => Time::NotCompared,
            millis if millis == committed_ms => Time::NotCompared,
            millis => Time::Row(millis),
        };
        Some(Self {
            id,
            partition: PartitionId { topic, partition: record.partition },
            key: record.key.to_vec(),
            value: record.value.map(<[u8]>::to_vec),
            headers,
            time,
        })
    }

    /// About what it takes in memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let headers = self.headers.iter();
        let headers = headers
            .map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len) + 64)
            .sum::<usize>();
        size_of::<Self>() + self.key.len() + self.value.as_ref().map_or(0, Vec::len) + headers
    }
}

/// The value of the header that holds the event's id: of several of that name the first.
pub(super) fn id_of<'h>(
    headers: &'h [(String, Option<Vec<u8>>)],
    id_header: &str,
) -> Option<&'h [u8]> {
    let (_, id) = headers.iter().find(|(name, _)| name == id_header)?;
    id.as_deref()
}

/// What a record of Kafka is called in examples.
pub(super) fn place(topics: &[TopicName], partition: PartitionId, offset: i64) -> String {
    let topic = topics.get(partition.topic).map_or("?", TopicName::as_str);
    format!("{topic}-{}@{offset}", partition.partition)
}
