//! A record as the stream gives it, with what a run changes of it.

use crate::routing::{
    headers::{Header, Headers, RowHeaders},
    partition_for_key,
    record::{Record, TopicId},
    topics::TopicFacts,
};

/// See [`super::RepublishSettings`].
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) to_topic: Option<TopicId>,
    pub(super) marker: Option<String>,
}

/// A record that differs from the one of the stream in headers or topic.
pub(super) struct Changed<'a> {
    record: Record<'a>,
    /// All headers, where one was added.
    headers: Option<Vec<Header<'a>>>,
    none: RowHeaders,
    limit: Option<usize>,
}

impl Changes {
    /// What becomes of a record of the stream. `target` is the topic that all records go to.
    pub(super) fn apply<'a>(
        &'a self,
        record: &Record<'a>,
        target: Option<(TopicId, TopicFacts)>,
    ) -> Changed<'a> {
        let mut record = *record;
        let mut limit = None;
        if let Some((topic, facts)) = target {
            record.topic = topic;
            record.partition = partition_for_key(record.key, facts.partitions);
            limit = facts.max_message_bytes;
        }
        let headers = self.marker.as_deref().map(|marker| {
            let marker = Header { name: marker, value: Some(b"1") };
            record.headers.iter().chain([marker]).collect()
        });
        Changed { record, headers, none: RowHeaders::new(), limit }
    }
}

impl Changed<'_> {
    /// The record to produce.
    ///
    /// # Errors
    /// Its size, which is more than the topic takes that all records go to.
    pub(super) fn record(&self) -> Result<Record<'_>, usize> {
        let headers = match &self.headers {
            Some(headers) => Headers::new(headers, &self.none),
            None => self.record.headers,
        };
        let record = Record { headers, ..self.record };
        let size = record.size().batch_bytes();
        if self.limit.is_some_and(|limit| size > limit) { Err(size) } else { Ok(record) }
    }
}
