//! A record, copied, since the core's borrows from the frame that its row came in.

use relay::{Record, TopicId};

/// See the module's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnedRecord {
    pub(super) topic: TopicId,
    pub(super) partition: i32,
    pub(super) key: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(super) timestamp_ms: i64,
}

impl OwnedRecord {
    pub(super) fn of(record: &Record<'_>) -> Self {
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
