//! The record that shows a dead letter to people and tools: what would have been delivered, and in
//! headers why it was not.

use pgoutput::PgTimestamp;

use crate::{
    held::HeldEvent,
    routing::{
        headers::{Headers, RowHeaders},
        partition_for_key,
        record::{Record, TopicId},
        route::{Original, OriginalValue},
        topics::TopicFacts,
    },
    wording,
};

/// What every header of the router's own begins with.
const PREFIX: &str = "__outbox_router.errors.";

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct LetterRecord {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    headers: RowHeaders,
    timestamp_ms: i64,
}

impl LetterRecord {
    /// The record of a dead letter, made at this time: with the time of the commit, a topic could
    /// refuse it, or delete it before anybody has read it. Without its key, value and headers, if
    /// the topic would refuse them: then it names the row, which is in the table.
    pub(crate) fn new(
        event: &HeldEvent,
        original: Original,
        facts: TopicFacts,
        at: PgTimestamp,
    ) -> Self {
        let topic = original.topic.clone();
        let whole = Self::with(event, event.key.clone(), original, at);
        let fits = facts.max_message_bytes.is_none_or(|limit| whole.size() <= limit);
        if fits {
            whole
        } else {
            Self::with(event, None, Original { topic, ..Original::default() }, at)
        }
    }

    fn with(event: &HeldEvent, key: Option<Vec<u8>>, original: Original, at: PgTimestamp) -> Self {
        let mut headers = RowHeaders::new();
        for (name, value) in &original.headers {
            headers.push(name, value.as_deref());
        }
        let mut push = |of: &str, value: Option<&str>| headers.push(&name(of), value);
        if let Some(letter) = &event.letter {
            push("code", Some(letter.code.as_str()));
            push("message", Some(&letter.message));
        }
        push("topic", original.topic.as_deref());
        push("table", Some(&event.table));
        push("commit_lsn", Some(&event.id.commit_lsn.to_string()));
        push("index", Some(&event.id.index.to_string()));
        push("event_id", event.event_id.as_deref());
        push("committed_at", wording::utc(event.committed_at).as_deref());
        let value = match original.value {
            OriginalValue::Known(value) => value,
            OriginalValue::LeftOut => {
                push("value_left_out", Some("true"));
                None
            }
        };
        let key = key.unwrap_or_default();
        Self { key, value, headers, timestamp_ms: at.unix_millis() }
    }

    /// The record, for a topic with these facts.
    pub(crate) fn as_record(&self, topic: TopicId, facts: TopicFacts) -> Record<'_> {
        Record {
            topic,
            partition: partition_for_key(&self.key, facts.partitions),
            key: &self.key,
            value: self.value.as_deref(),
            headers: Headers::new(&[], &self.headers),
            timestamp_ms: self.timestamp_ms,
        }
    }

    fn size(&self) -> usize {
        let facts = TopicFacts { partitions: std::num::NonZeroI32::MIN, max_message_bytes: None };
        let topic = TopicId::from_index(0);
        topic.map_or(usize::MAX, |topic| self.as_record(topic, facts).size().batch_bytes())
    }
}

fn name(of: &str) -> String {
    format!("{PREFIX}{of}")
}
