//! A record, copied, since the core's borrows from the frame that its row came in.

use relay::{Record, TopicId};

/// See the module's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedRecord {
    pub(crate) topic: TopicId,
    pub(crate) partition: i32,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) timestamp_ms: i64,
}

impl OwnedRecord {
    pub(crate) fn of(record: &Record<'_>) -> Self {
        let headers = record.headers.iter();
        Self {
            topic: record.topic,
            partition: record.partition,
            key: record.key.to_vec(),
            value: record.value.map(<[u8]>::to_vec),
            headers: headers
                .map(|header| (header.name.to_owned(), header.value.map(<[u8]>::to_vec)))
                .collect(),
            timestamp_ms: record.timestamp_ms,
        }
    }
}
