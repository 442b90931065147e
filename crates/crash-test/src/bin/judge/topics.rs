//! What is in the topics of a round.

use std::collections::HashMap;

use serde_json::Value;
use testbed::kafka::KafkaCluster;
use testbed::reader::ConsumedRecord;
use testbed::tail::Tail;

/// The first record of an event, and how many follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) copies: usize,
}

/// The events that are in the topics, by what their payload says.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentEvents(HashMap<String, Sent>);

impl SentEvents {
    pub(crate) fn contains(&self, event: &str) -> bool {
        self.0.contains_key(event)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Sent)> {
        self.0.iter()
    }

    /// Records beyond the first of each event.
    pub(crate) fn duplicates(&self) -> usize {
        self.0.values().map(|sent| sent.copies - 1).sum()
    }

    pub(crate) fn add(&mut self, event: String, sent: Sent) {
        self.0.entry(event).and_modify(|first| first.copies += 1).or_insert(sent);
    }
}

/// A reader of the topics, with everything that it has read.
pub(crate) struct Topics {
    tail: Tail,
    sent: SentEvents,
}

impl Topics {
    pub(crate) fn open(kafka: &KafkaCluster, topics: &[String]) -> anyhow::Result<Self> {
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        Ok(Self { tail: Tail::open(&kafka.bootstrap(), &names)?, sent: SentEvents::default() })
    }

    /// Everything that is in the topics now.
    pub(crate) fn read(&mut self) -> anyhow::Result<&SentEvents> {
        let ends = self.tail.ends()?;
        for record in self.tail.read_to(&ends)? {
            self.sent.add(event_of(record), sent_of(record));
        }
        Ok(&self.sent)
    }
}

/// What the payload says; a record that says nothing is an event that nobody has committed.
fn event_of(record: &ConsumedRecord) -> String {
    let value = record.value.as_deref().unwrap_or_default();
    let payload: Value = serde_json::from_slice(value).unwrap_or_default();
    let event = payload.get("event").and_then(Value::as_str);
    event.map_or_else(
        || format!("record {}/{}/{}", record.topic, record.partition, record.offset),
        str::to_owned,
    )
}

fn sent_of(record: &ConsumedRecord) -> Sent {
    let text = |bytes: &Option<Vec<u8>>| {
        String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned()
    };
    Sent {
        topic: record.topic.to_string(),
        partition: record.partition,
        offset: record.offset,
        key: text(&record.key),
        value: text(&record.value),
        copies: 1,
    }
}
