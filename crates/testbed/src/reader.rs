//! Everything that is in Kafka, from offset 0: read once to the end, or followed while it grows.
//!
//! Partitions are assigned by number, without a consumer group, and every record is read, also
//! records that another reader would have skipped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow, bail, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::kafka::{client_config, led_partitions};

const REQUEST: Duration = Duration::from_secs(10);
pub(crate) const POLL: Duration = Duration::from_millis(100);
/// How long reading may make no progress.
pub(crate) const NO_PROGRESS_MAX: Duration = Duration::from_secs(60);

/// One record as a consumer got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumedRecord {
    /// Topic.
    pub topic: Arc<str>,
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
    /// Key; `None` is a null key.
    pub key: Option<Vec<u8>>,
    /// Value; `None` is a null value.
    pub value: Option<Vec<u8>>,
    /// Headers in the order of the record.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The record's timestamp in milliseconds: the commit time, or the broker's append time where
    /// the topic is set so.
    pub timestamp: Option<i64>,
    /// When this reader got it.
    pub received: SystemTime,
}

impl ConsumedRecord {
    pub(crate) fn new(topic: &Arc<str>, message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map(|headers| {
            headers
                .iter()
                .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
                .collect()
        });
        Self {
            topic: Arc::clone(topic),
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.unwrap_or_default(),
            timestamp: message.timestamp().to_millis(),
            received: SystemTime::now(),
        }
    }

    /// The value of a header, when it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(found, _)| found == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    }
}

/// Reads every partition of `topics` from offset 0 to where it ends now.
///
/// # Errors
///
/// Fails when a topic does not exist, records were deleted from it, or its leader cannot be
/// reached.
pub async fn read_all(bootstrap: &str, topics: &[&str]) -> anyhow::Result<Vec<ConsumedRecord>> {
    read_into(bootstrap, topics, Vec::new(), Vec::push).await
}

/// The same for more records than memory holds: `take` puts of each into `into` what is needed.
///
/// # Errors
///
/// As [`read_all`].
pub async fn read_into<T: Send + 'static>(
    bootstrap: &str,
    topics: &[&str],
    mut into: T,
    take: impl Fn(&mut T, ConsumedRecord) + Send + 'static,
) -> anyhow::Result<T> {
    let bootstrap = bootstrap.to_owned();
    let topics: Vec<Arc<str>> = topics.iter().map(|topic| Arc::from(*topic)).collect();
    spawn_blocking(move || {
        for topic in &topics {
            read_topic(&bootstrap, topic, |record| take(&mut into, record))?;
        }
        Ok(into)
    })
    .await?
}

pub(crate) fn consumer(bootstrap: &str) -> anyhow::Result<BaseConsumer> {
    Ok(client_config(bootstrap)
        .set("group.id", "testbed-reader")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "error")
        .set("isolation.level", "read_uncommitted")
        .set("fetch.wait.max.ms", "50")
        .set("fetch.message.max.bytes", "33554432")
        .create()?)
}

fn assign_from_start(
    bootstrap: &str,
    consumer: &BaseConsumer,
    topics: &[Arc<str>],
) -> anyhow::Result<usize> {
    let mut assignment = TopicPartitionList::new();
    for topic in topics {
        for partition in patiently(bootstrap, consumer, |one| led_partitions(one, topic))? {
            let (low, _) = watermarks(bootstrap, consumer, topic, partition)?;
            ensure!(low == 0, "topic \"{topic}\" starts at offset {low}: records were deleted");
            assignment.add_partition_offset(topic, partition, Offset::Offset(0))?;
        }
    }
    consumer.assign(&assignment)?;
    Ok(assignment.count())
}

/// Where a partition begins and ends.
pub(crate) fn watermarks(
    bootstrap: &str,
    consumer: &BaseConsumer,
    topic: &str,
    partition: i32,
) -> anyhow::Result<(i64, i64)> {
    patiently(bootstrap, consumer, |one| Ok(one.fetch_watermarks(topic, partition, REQUEST)?))
}

/// Repeats a request that has no answer, as a read is repeated by the client library itself: a
/// broker on a busy machine may take longer than the limit of one request. For a while after it has
/// started, or a topic was made, it may not know yet that it leads a partition. A client that was
/// told so may keep it (librdkafka 2.12 answers such requests from its cache), so that each
/// repetition is asked by a client of its own.
pub(crate) fn patiently<T>(
    bootstrap: &str,
    first: &BaseConsumer,
    request: impl Fn(&BaseConsumer) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    let mut outcome = request(first);
    while started.elapsed() < NO_PROGRESS_MAX
        && outcome.as_ref().is_err_and(|error| error.downcast_ref().is_some_and(may_pass))
    {
        thread::sleep(POLL);
        outcome = consumer(bootstrap).and_then(|another| request(&another));
    }
    outcome
}

fn read_topic(
    bootstrap: &str,
    topic: &Arc<str>,
    mut take: impl FnMut(ConsumedRecord),
) -> anyhow::Result<()> {
    let consumer = consumer(bootstrap)?;
    let mut open = assign_from_start(bootstrap, &consumer, std::slice::from_ref(topic))?;
    let mut progress = Instant::now();
    // Each partition reports its end when it is reached; what is appended later is not waited for.
    while open > 0 {
        match consumer.poll(POLL) {
            Some(Ok(message)) => take(ConsumedRecord::new(topic, &message)),
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) if !is_transient(&error) => {
                return Err(error).with_context(|| format!("cannot read topic \"{topic}\""));
            }
            Some(Err(_)) | None => {
                ensure!(
                    progress.elapsed() < NO_PROGRESS_MAX,
                    "reading topic \"{topic}\" made no progress for {NO_PROGRESS_MAX:?}"
                );
                continue;
            }
        }
        progress = Instant::now();
    }
    Ok(())
}

fn may_pass(error: &KafkaError) -> bool {
    use rdkafka::types::RDKafkaErrorCode as Code;
    let is_led_soon = matches!(
        error.rdkafka_error_code(),
        Some(Code::NotLeaderForPartition | Code::LeaderNotAvailable | Code::UnknownPartition)
    );
    is_led_soon || is_transient(error)
}

/// Whether the client library retries after this error by itself.
pub fn is_transient(error: &KafkaError) -> bool {
    use rdkafka::types::RDKafkaErrorCode as Code;
    let code = error.rdkafka_error_code();
    code.is_some_and(|code| {
        [Code::BrokerTransportFailure, Code::AllBrokersDown, Code::OperationTimedOut]
            .contains(&code)
    })
}

/// A reader that follows topics while they grow, on a thread of its own.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Vec<ConsumedRecord>>,
    count: AtomicUsize,
    stop: AtomicBool,
}

impl Follower {
    /// Starts at offset 0 of every partition that `topics` have now, and returns when these are
    /// assigned.
    ///
    /// # Errors
    ///
    /// Fails when a topic does not exist.
    pub async fn start(bootstrap: &str, topics: &[&str]) -> anyhow::Result<Self> {
        let topics: Vec<Arc<str>> = topics.iter().map(|topic| Arc::from(*topic)).collect();
        let consumer = consumer(bootstrap)?;
        let bootstrap = bootstrap.to_owned();
        let (consumer, topics) = spawn_blocking(move || -> anyhow::Result<_> {
            assign_from_start(&bootstrap, &consumer, &topics)?;
            Ok((consumer, topics))
        })
        .await??;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || follow(&consumer, &topics, &theirs));
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Records read so far.
    pub fn count(&self) -> usize {
        self.shared.count.load(Ordering::Acquire)
    }

    /// The records read so far, without those that an earlier call returned.
    pub fn take(&self) -> Vec<ConsumedRecord> {
        std::mem::take(&mut *self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends following, and returns what [`take`](Self::take) would.
    ///
    /// # Errors
    ///
    /// Fails when the thread met an error that does not pass by itself.
    pub async fn stop(mut self) -> anyhow::Result<Vec<ConsumedRecord>> {
        self.shared.stop.store(true, Ordering::Release);
        let thread = self.thread.take().context("the reader was stopped before")?;
        spawn_blocking(move || thread.join())
            .await?
            .map_err(|_| anyhow!("the reader's thread panicked"))??;
        Ok(self.take())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}

fn follow(consumer: &BaseConsumer, topics: &[Arc<str>], shared: &Shared) -> anyhow::Result<()> {
    while !shared.stop.load(Ordering::Acquire) {
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                let topic = topics.iter().find(|topic| ***topic == *message.topic());
                let Some(topic) = topic else {
                    bail!("got a record of topic \"{}\", which was not asked for", message.topic());
                };
                let seen = ConsumedRecord::new(topic, &message);
                shared.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
                shared.count.fetch_add(1, Ordering::Release);
            }
            // Many scenarios stop a broker.
            Some(Err(error))
                if matches!(error, KafkaError::PartitionEOF(_)) || is_transient(&error) => {}
            Some(Err(error)) => return Err(error).context("cannot follow the topics"),
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rdkafka::types::RDKafkaErrorCode;

    use super::*;

    /// The outcome of a request that fails twice, how often it was asked, and how often of the
    /// client that was asked first.
    fn failing_twice(error: RDKafkaErrorCode) -> (anyhow::Result<u32>, u32, u32) {
        let (asked, first_asked) = (Cell::new(0), Cell::new(0));
        let first = consumer("127.0.0.1:1").unwrap();
        let outcome = patiently("127.0.0.1:1", &first, |one| {
            asked.set(asked.get() + 1);
            if std::ptr::eq(one, &raw const first) {
                first_asked.set(first_asked.get() + 1);
            }
            ensure!(asked.get() > 2, KafkaError::MetadataFetch(error));
            Ok(asked.get())
        });
        (outcome, asked.get(), first_asked.get())
    }

    #[test]
    fn a_request_without_an_answer_is_repeated_by_other_clients_and_one_that_is_refused_is_not() {
        for error in [RDKafkaErrorCode::OperationTimedOut, RDKafkaErrorCode::UnknownPartition] {
            let (outcome, asked, first_asked) = failing_twice(error);
            assert_eq!((outcome.unwrap(), asked, first_asked), (3, 3, 1), "{error}");
        }
        let (refused, asked, _) = failing_twice(RDKafkaErrorCode::UnknownTopicOrPartition);
        assert!(refused.is_err());
        assert_eq!(asked, 1);
    }
}
