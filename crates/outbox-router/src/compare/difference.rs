//! What differs between a record that the router would produce and the one in Kafka.

use super::record::{Expected, ExpectedTime};
use crate::kafka::StoredRecord;

/// The part of a record that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// The topic.
    Topic,
    /// The partition, in the same topic.
    Partition,
    /// The key.
    Key,
    /// The value.
    Value,
    /// The headers: names, values or their order.
    Headers,
    /// The timestamp, where the row names it.
    Timestamp,
}

impl Difference {
    const ALL: [Self; 6] =
        [Self::Topic, Self::Partition, Self::Key, Self::Value, Self::Headers, Self::Timestamp];

    /// Those of all parts in which `differs`, in the order of the enum.
    pub(super) fn of_all(differs: impl Fn(Self) -> bool) -> Vec<Self> {
        Self::ALL.into_iter().filter(|part| differs(*part)).collect()
    }

    /// As it is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Partition => "partition",
            Self::Key => "key",
            Self::Value => "value",
            Self::Headers => "headers",
            Self::Timestamp => "timestamp",
        }
    }
}

/// Everything that differs.
pub(super) fn differences(expected: &Expected, stored: &StoredRecord) -> Vec<Difference> {
    Difference::of_all(|part| match part {
        Difference::Topic => expected.partition.topic != stored.partition.topic,
        Difference::Partition => expected.partition.is_another_of_topic(stored.partition),
        Difference::Key => stored.key.as_deref() != Some(&expected.key),
        Difference::Value => stored.value != expected.value,
        Difference::Headers => stored.headers != expected.headers,
        Difference::Timestamp => expected.time.differs(stored.timestamp_ms),
    })
}

/// Both sides of one difference, short enough to print.
pub(super) fn sides(
    difference: Difference,
    expected: &Expected,
    stored: &StoredRecord,
) -> (String, String) {
    match difference {
        Difference::Topic | Difference::Partition => {
            let of = |partition: crate::kafka::PartitionId| partition.partition.to_string();
            (of(expected.partition), of(stored.partition))
        }
        Difference::Key => excerpts(Some(&expected.key), stored.key.as_deref()),
        Difference::Value => excerpts(expected.value.as_deref(), stored.value.as_deref()),
        Difference::Headers => headers(&expected.headers, &stored.headers),
        Difference::Timestamp => {
            let millis = match expected.time {
                ExpectedTime::Row(millis) => millis.to_string(),
                ExpectedTime::NotCompared => String::new(),
            };
            (millis, stored.timestamp_ms.to_string())
        }
    }
}

type HeaderList = [(String, Option<Vec<u8>>)];

/// The first header that differs; where only names or their order differ, the names.
fn headers(ours: &HeaderList, theirs: &HeaderList) -> (String, String) {
    let names = |list: &HeaderList| {
        let names: Vec<&str> = list.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    let (our_names, their_names) = (names(ours), names(theirs));
    if our_names != their_names {
        return (our_names, their_names);
    }
    let differs = ours.iter().zip(theirs).find(|(one, other)| one != other);
    let Some(((name, one), (_, other))) = differs else { return (our_names, their_names) };
    let (one, other) = excerpts(one.as_deref(), other.as_deref());
    (format!("{name}: {one}"), format!("{name}: {other}"))
}

/// How many bytes of a value are shown, and how many of them before the first difference.
const SHOWN: usize = 60;
const SHOWN_BEFORE: usize = 20;

/// Both texts around the first byte that differs.
fn excerpts(one: Option<&[u8]>, other: Option<&[u8]>) -> (String, String) {
    let (Some(ours), Some(theirs)) = (one, other) else {
        let whole = |bytes: Option<&[u8]>| bytes.map_or("null".to_owned(), |b| excerpt(b, 0));
        return (whole(one), whole(other));
    };
    let differs = ours.iter().zip(theirs).position(|(one, other)| one != other);
    let first = differs.unwrap_or(ours.len().min(theirs.len()));
    let from = first.saturating_sub(SHOWN_BEFORE);
    (excerpt(ours, from), excerpt(theirs, from))
}

fn excerpt(bytes: &[u8], from: usize) -> String {
    let end = bytes.len().min(from + SHOWN);
    let part = bytes.get(from..end).unwrap_or_default();
    let before = if from > 0 { "…" } else { "" };
    let after = if end < bytes.len() { "…" } else { "" };
    format!("{before}\"{}\"{after}", part.escape_ascii())
}
