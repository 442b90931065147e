//! The checker: compares what was committed with what is in Kafka. It uses no code of the product.
//!
//! [`check`] is a function of two recorded lists, so the same lists give the same result again. It
//! looks for these anomalies, and counts each kind separately:
//!
//! * **lost**: committed, and in no topic;
//! * **phantom**: in a topic, but never committed, rolled back, or without an id;
//! * **order**: within a key, first occurrences must strictly increase in commit order;
//! * **affinity**: all records of a key are in one partition;
//! * **replays**: a replay repeats consecutive events of a key, as the slot sends them again from
//!   an earlier position. It may begin anywhere, and must leave none out;
//! * **altered**: topic, key, value or headers are not what the row says, or a repeated record is
//!   not byte for byte its first occurrence.
//!
//! Duplicates are counted and are no anomaly: each scenario decides how many it allows.

mod result;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::Context;
use tokio_postgres::types::PgLsn;
use uuid::Uuid;

pub use result::{Anomalies, CheckResult};

use crate::reader::ConsumedRecord;
use crate::truth::{Digest, ExpectedEvent, Truth};

/// Whether records of an older replay may follow those of a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LateReplays {
    /// One router at a time.
    #[default]
    Forbidden,
    /// Two routers were alive at once: the records that the older one had under way may arrive
    /// among those of the newer one.
    Allowed,
}

/// What the checker has to know of the run.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Late replays.
    pub late_replays: LateReplays,
}

/// Compares `seen` with `truth`. The order of `seen` does not matter; offsets do.
pub fn check(truth: &Truth, seen: &[ConsumedRecord], options: &CheckOptions) -> CheckResult {
    let mut result = CheckResult::default();
    let index = index(truth, &mut result);
    let mut log: Vec<&ConsumedRecord> = seen.iter().collect();
    log.sort_by(|a, b| (&a.topic, a.partition, a.offset).cmp(&(&b.topic, b.partition, b.offset)));
    let mut first: HashMap<Uuid, &ConsumedRecord> = HashMap::with_capacity(index.len());
    let mut partitions: BTreeMap<Key<'_>, RecordsByPartition<'_>> = BTreeMap::new();
    for record in log {
        result.records += 1;
        let Some(event) = identify(record, &index, truth, &mut result) else { continue };
        let occurrence = match first.get(&event.id) {
            None => {
                first.insert(event.id, record);
                compare(record, event, &mut result);
                Occurrence { seq: event.seq, id: event.id, first: First::Yes }
            }
            Some(earlier) => {
                result.duplicates += 1;
                if !same_bytes(earlier, record) {
                    result.altered.add(|| {
                        format!(
                            "{} differs from its first copy at {}",
                            place(record),
                            place(earlier)
                        )
                    });
                }
                Occurrence { seq: event.seq, id: event.id, first: First::No }
            }
        };
        partitions
            .entry((&event.topic, &event.key))
            .or_default()
            .entry((&record.topic, record.partition))
            .or_default()
            .push(occurrence);
    }
    for (key, partitions) in &partitions {
        check_key(*key, partitions, options, &mut result);
    }
    for event in index.values().filter(|event| !first.contains_key(&event.id)) {
        result.lost.add(|| describe(event));
    }
    result.in_kafka = first.len();
    result
}

/// The events that are not in Kafka although their commit lies at or before `confirmed`, the slot's
/// `confirmed_flush_lsn`: the server never sends them again, so they are lost. `commits` is the
/// tracker's; it must have been read after `truth` was read, and `seen` read after `confirmed`.
///
/// # Errors
///
/// Fails when the tracker does not know the commit of an event.
pub fn confirmed_ahead(
    truth: &Truth,
    commits: &BTreeMap<u32, PgLsn>,
    confirmed: PgLsn,
    seen: &[ConsumedRecord],
) -> anyhow::Result<Vec<Uuid>> {
    let arrived: HashSet<Uuid> = seen.iter().filter_map(id_of).collect();
    let mut ahead = Vec::new();
    for event in &truth.events {
        let end = commits.get(&event.xid).with_context(|| {
            format!("the commit tracker has no commit of transaction {}", event.xid)
        })?;
        if *end <= confirmed && !arrived.contains(&event.id) {
            ahead.push(event.id);
        }
    }
    Ok(ahead)
}

/// Topic and key, as the truth has them.
type Key<'a> = (&'a str, &'a str);

/// What was read of one key, by the topic and partition it was read from.
type RecordsByPartition<'a> = BTreeMap<(&'a str, i32), Vec<Occurrence>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    Yes,
    No,
}

struct Occurrence {
    seq: i64,
    id: Uuid,
    first: First,
}

fn index<'a>(truth: &'a Truth, result: &mut CheckResult) -> HashMap<Uuid, &'a ExpectedEvent> {
    let mut index = HashMap::with_capacity(truth.events.len());
    let mut numbers = HashSet::with_capacity(truth.events.len());
    for event in &truth.events {
        let known = index.insert(event.id, event).is_some();
        let counted = !numbers.insert((&event.topic, &event.key, event.seq));
        if known || counted || truth.rolled_back.contains(&event.id) {
            result.contradictions.add(|| {
                format!(
                    "{} is in the table of committed events twice, or as committed and as rolled back",
                    describe(event)
                )
            });
        }
    }
    result.sent = index.len();
    index
}

fn id_of(record: &ConsumedRecord) -> Option<Uuid> {
    record.header("id").and_then(|text| Uuid::try_parse(text).ok())
}

fn identify<'a>(
    record: &ConsumedRecord,
    index: &HashMap<Uuid, &'a ExpectedEvent>,
    truth: &Truth,
    result: &mut CheckResult,
) -> Option<&'a ExpectedEvent> {
    let id = id_of(record);
    let event = id.and_then(|id| index.get(&id).copied());
    if event.is_none() {
        result.phantom.add(|| match id {
            None => format!("{} has no header id that is a UUID", place(record)),
            Some(id) if truth.rolled_back.contains(&id) => {
                format!("{} is event {id}, which was rolled back", place(record))
            }
            Some(id) => format!("{} is event {id}, which was not committed", place(record)),
        });
    }
    event
}

fn compare(record: &ConsumedRecord, event: &ExpectedEvent, result: &mut CheckResult) {
    let mut wrong = |what: &str, should: &dyn std::fmt::Debug, is: &dyn std::fmt::Debug| {
        result.altered.add(|| {
            format!(
                "{} of event {} has {what} {is:?} instead of {should:?}",
                place(record),
                event.id
            )
        });
    };
    if *record.topic != *event.topic {
        wrong("topic", &event.topic, &record.topic);
    }
    if record.key.as_deref() != Some(event.key.as_bytes()) {
        wrong("key", &event.key, &record.key.as_deref().map(String::from_utf8_lossy));
    }
    let value = record.value.as_deref().map(Digest::of);
    if value != event.value {
        wrong("value", &event.value, &value);
    }
    let should: BTreeSet<(&str, Option<&[u8]>)> =
        event.headers.iter().map(|(name, value)| (name.as_str(), Some(value.as_bytes()))).collect();
    let is: BTreeSet<(&str, Option<&[u8]>)> =
        record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    if should != is || record.headers.len() != event.headers.len() {
        wrong("headers", &event.headers, &printable(record));
    }
}

fn printable(record: &ConsumedRecord) -> Vec<(&str, Option<std::borrow::Cow<'_, str>>)> {
    let text = |value: &'_ Option<Vec<u8>>| {
        value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned().into())
    };
    record.headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect()
}

/// Timestamps are not compared: on a topic with append time every copy has its own.
fn same_bytes(a: &ConsumedRecord, b: &ConsumedRecord) -> bool {
    (&a.topic, &a.key, &a.value, &a.headers) == (&b.topic, &b.key, &b.value, &b.headers)
}

fn check_key(
    key: Key<'_>,
    partitions: &RecordsByPartition<'_>,
    options: &CheckOptions,
    result: &mut CheckResult,
) {
    let (topic, name) = key;
    if partitions.len() > 1 {
        let places: Vec<String> =
            partitions.keys().map(|(topic, partition)| format!("{topic}/{partition}")).collect();
        result
            .affinity
            .add(|| format!("key {name} of topic {topic} is in {}", places.join(" and ")));
    }
    for occurrences in partitions.values() {
        check_order(key, occurrences, result);
        check_replays(key, occurrences, options, result);
    }
}

fn check_order((topic, name): Key<'_>, occurrences: &[Occurrence], result: &mut CheckResult) {
    let mut highest: Option<i64> = None;
    for one in occurrences.iter().filter(|one| one.first == First::Yes) {
        match highest {
            Some(before) if one.seq <= before => result.order.add(|| {
                format!(
                    "key {name} of topic {topic}: number {} ({}) comes after {before}",
                    one.seq, one.id
                )
            }),
            Some(_) | None => highest = Some(one.seq),
        }
    }
}

/// Ranks count only events that were seen: an event that is lost is reported as lost, and not as a
/// gap in a replay, too.
fn check_replays(
    (topic, name): Key<'_>,
    occurrences: &[Occurrence],
    options: &CheckOptions,
    result: &mut CheckResult,
) {
    let numbers: BTreeSet<i64> = occurrences.iter().map(|one| one.seq).collect();
    let ranks: HashMap<i64, usize> = numbers.into_iter().zip(1..).collect();
    let (mut previous, mut highest) = (0, 0);
    for one in occurrences {
        let Some(rank) = ranks.get(&one.seq).copied() else { continue };
        let limit = match options.late_replays {
            LateReplays::Forbidden => previous + 1,
            LateReplays::Allowed => highest + 1,
        };
        if rank > limit {
            result.incomplete_replays.add(|| {
                format!(
                    "key {name} of topic {topic}: {} is repeated without the event before it",
                    one.id
                )
            });
        }
        previous = rank;
        highest = highest.max(rank);
    }
}

fn place(record: &ConsumedRecord) -> String {
    format!("record {}/{}@{}", record.topic, record.partition, record.offset)
}

fn describe(event: &ExpectedEvent) -> String {
    format!("event {} (number {} of key {}, topic {})", event.id, event.seq, event.key, event.topic)
}

#[cfg(test)]
mod tests;
