//! What the sink produces: a [`Record`], borrowed from the read buffer until the producer copies
//! it.

use super::headers::Headers;

/// A topic by its number in the registry of topics; the sink keeps the topic's handle under the
/// same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(u16);

impl TopicId {
    /// The `index`-th topic that was interned, or `None` past the registry's limit of 65,536.
    pub fn from_index(index: usize) -> Option<Self> {
        u16::try_from(index).ok().map(Self)
    }

    /// The number, as an index into lists that are kept per topic.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One Kafka record. Nothing in it is owned: the sink copies what it keeps.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The topic, whose partition count was known before the record was made.
    pub topic: TopicId,
    /// Computed by [`partition_for_key`](super::partition_for_key), or named by the row
    /// (`columns.partition`); never chosen by the producer's partitioner.
    pub partition: i32,
    /// The key's bytes.
    pub key: &'a [u8],
    /// The value's bytes; `None` is Kafka's null (a tombstone on a compacted topic).
    pub value: Option<&'a [u8]>,
    /// Headers in the order in which they are written.
    pub headers: Headers<'a>,
    /// Milliseconds since 1970: the commit time of the source transaction, the time in the row's
    /// column, or [`Record::NOW`].
    pub timestamp_ms: i64,
}

/// The partition of a record, and its time in milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionAndTime {
    pub(crate) partition: i32,
    pub(crate) timestamp_ms: i64,
}

/// Bytes that a record counts in the window beside its key, value and headers: what the producer
/// allocates for a message and its header list (sizes of librdkafka's structures, rounded up).
const OVERHEAD: usize = 256;
/// Bytes of a record batch of one record beside that record's key, value and headers: the batch
/// header, then length, attributes, both deltas, the lengths of key and value, and the number of
/// headers, each varint at its longest.
const BATCH_OVERHEAD: usize = 61 + 5 + 1 + 10 + 5 + 5 + 5 + 5;
/// The two lengths of one header, each varint at its longest.
const HEADER_OVERHEAD: usize = 5 + 5;

impl Record<'_> {
    /// Stands for the time at which the sink takes the record. It is no commit time: no transaction
    /// was committed in 1970.
    pub const NOW: i64 = 0;

    /// The bytes of the window that the record takes while it is unacknowledged: at least its size
    /// on the wire.
    pub fn held_bytes(&self) -> usize {
        self.size().held_bytes()
    }

    /// Its size, from which the bytes in the window and in a batch follow.
    #[inline]
    pub(crate) fn size(&self) -> Size {
        let payload = self.key.len() + self.value.map_or(0, <[u8]>::len) + self.headers.bytes();
        Size { payload, headers: self.headers.len() }
    }
}

/// The size of a record, counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Bytes of key, value and headers together.
    payload: usize,
    /// How many headers.
    headers: usize,
}

impl Size {
    /// See [`Record::held_bytes`]. A record with many headers takes more on the wire than key,
    /// value, headers and overhead; the greater of the two counts, so the sum over the records of a
    /// batch is never less than the batch's size.
    #[inline]
    pub(crate) fn held_bytes(self) -> usize {
        (self.payload + OVERHEAD).max(self.batch_bytes())
    }

    /// The greatest size of the record as a batch of its own, uncompressed. `max.message.bytes` is
    /// compared with it.
    #[inline]
    pub(crate) fn batch_bytes(self) -> usize {
        self.payload + BATCH_OVERHEAD + HEADER_OVERHEAD * self.headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::headers::{Header, RowHeaders};

    /// The sum over the records of a batch is never less than the batch's size.
    #[test]
    fn a_record_holds_no_less_than_it_takes_on_the_wire() {
        let row = RowHeaders::new();
        for count in [0, 1, 15, 16, 100] {
            let headers = vec![Header { name: "n", value: Some(b"v") }; count];
            let record = Record {
                topic: TopicId(0),
                partition: 0,
                key: b"key",
                value: None,
                headers: Headers::new(&headers, &row),
                timestamp_ms: 1,
            };
            let size = record.size();
            assert!(size.held_bytes() >= size.batch_bytes(), "{count} headers: {size:?}");
        }
    }
}
