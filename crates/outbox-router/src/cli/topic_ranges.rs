//! Reads ranges of offsets from partitions.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use relay::{Code, Failure, Name, TopicName};
use tokio::time::Instant;

use crate::kafka::{KafkaSettings, PartitionId, Polled, StoredRecord, TopicReader};

/// How long one wait for records lasts.
const POLL: Duration = Duration::from_millis(100);
/// After so long without a record, or the end of a partition, nobody is there to send any.
const SILENCE: Duration = Duration::from_secs(60);

/// Offsets of a partition, from the first to the one before the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Range {
    pub(in crate::cli) topic: TopicName,
    pub(in crate::cli) partition: i32,
    pub(in crate::cli) from: i64,
    pub(in crate::cli) to: i64,
}

/// What was read of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Searched {
    pub(in crate::cli) topic: TopicName,
    pub(in crate::cli) partition: i32,
    pub(in crate::cli) from: i64,
    /// The offset after the last that was looked at.
    pub(in crate::cli) to: i64,
    pub(in crate::cli) records: u64,
    pub(in crate::cli) ending: Ending,
}

/// Why the reading of a partition has ended; the last means most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Ending {
    /// Everything was found that was looked for.
    Found,
    /// Every record was read.
    Read,
    /// A transaction of another client is open there, which hides what comes after it.
    Hidden,
    /// The time was up.
    TimeUp,
}

/// A partition that is being read.
struct Reading {
    next: i64,
    to: i64,
    records: u64,
    is_done: bool,
}

/// Gives every record of the ranges to `take`, with the topic that it is in, until `take` breaks or
/// the time is up. Each call has a client of its own, so that nothing that another has fetched
/// comes late. Blocks.
///
/// # Errors
/// A topic cannot be read, or nothing comes for a minute.
pub(in crate::cli) fn read(
    settings: &KafkaSettings,
    ranges: &[Range],
    deadline: Option<Instant>,
    mut take: impl FnMut(&TopicName, StoredRecord) -> ControlFlow<()>,
) -> Result<Vec<Searched>, Failure> {
    let ranges: Vec<&Range> = ranges.iter().filter(|range| range.from < range.to).collect();
    if ranges.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = TopicReader::open(settings)?;
    let mut readings = begin(&mut reader, &ranges)?;
    let mut left = readings.len();
    let mut ending = Ending::Read;
    let mut heard = Instant::now();
    while left > 0 {
        if heard.elapsed() > SILENCE {
            let what = format!("no record came from Kafka for {} s", SILENCE.as_secs());
            return Err(Failure::new(Code::KafkaUnreachable, what)
                .naming(Name::Brokers, &settings.bootstrap_servers));
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            ending = Ending::TimeUp;
            break;
        }
        let Some(polled) = reader.poll(POLL)? else { continue };
        heard = Instant::now();
        let record = match polled {
            Polled::End { partition, offset } => {
                if let Some(reading) = readings.get_mut(&partition)
                    && !reading.is_done
                {
                    (reading.is_done, reading.next) = (true, reading.next.max(offset));
                    left -= 1;
                }
                continue;
            }
            Polled::Record(record) => record,
        };
        let Some(reading) = readings.get_mut(&record.partition) else { continue };
        let was_done = reading.is_done;
        let is_in_range = reading.take(&record);
        if reading.is_done && !was_done {
            left -= 1;
        }
        if is_in_range
            && let Some(topic) = reader.topics().get(record.partition.topic)
            && take(topic, record).is_break()
        {
            ending = Ending::Found;
            break;
        }
    }
    Ok(searched(&reader, &ranges, &readings, ending))
}

fn searched(
    reader: &TopicReader,
    ranges: &[&Range],
    readings: &BTreeMap<PartitionId, Reading>,
    ending: Ending,
) -> Vec<Searched> {
    let of = |range: &&Range| {
        let topic = reader.number(&range.topic)?;
        let reading = readings.get(&PartitionId { topic, partition: range.partition })?;
        let to = reading.next.min(range.to);
        let ending = match reading.is_done {
            true if to < range.to => Ending::Hidden,
            true if ending == Ending::TimeUp => Ending::Read,
            _ => ending,
        };
        Some(Searched {
            topic: range.topic.clone(),
            partition: range.partition,
            from: range.from,
            to,
            records: reading.records,
            ending,
        })
    };
    ranges.iter().filter_map(of).collect()
}

impl Reading {
    /// Whether a record is of the range, and was not read before.
    fn take(&mut self, record: &StoredRecord) -> bool {
        if self.is_done || record.offset < self.next {
            return false;
        }
        self.next = record.offset + 1;
        self.is_done = self.next >= self.to;
        let is_in_range = record.offset < self.to;
        self.records += u64::from(is_in_range);
        is_in_range
    }
}

fn begin(
    reader: &mut TopicReader,
    ranges: &[&Range],
) -> Result<BTreeMap<PartitionId, Reading>, Failure> {
    let mut readings = BTreeMap::new();
    for range in ranges {
        let topic = match reader.number(&range.topic) {
            Some(topic) => topic,
            None => {
                reader.skip(&range.topic)?;
                reader.topics().len().saturating_sub(1)
            }
        };
        let id = PartitionId { topic, partition: range.partition };
        reader.resume(id, range.from)?;
        let reading = Reading { next: range.from, to: range.to, records: 0, is_done: false };
        readings.insert(id, reading);
    }
    Ok(readings)
}
