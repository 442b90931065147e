//! A short-lived consumer of one partition, without a group and without commits.
//!
//! rdkafka's `BaseConsumer` was rejected: it assigns partitions only to a member of a group, and
//! librdkafka asks for the coordinator of that group as soon as the client exists. That needs a
//! permission on a group that is never used, and on a new cluster it creates the topic
//! `__consumer_offsets`. librdkafka's simple consumer (`rd_kafka_consume_start_queue`) reads a
//! partition and requests nothing else.

use std::{
    ffi::{CString, c_int},
    ptr::{self, NonNull},
    slice,
    time::Duration,
};

use rdkafka::{
    client::Client,
    config::ClientConfig,
    error::{KafkaError, KafkaResult},
    types::{RDKafkaErrorCode, RDKafkaType},
};
use rdkafka_sys as sys;
use relay::TopicName;

use super::{
    client::{MainQueue, NoCallbacks},
    events::{ClientError, Events, NativeEvent, Report},
};
use crate::kafka::log;

/// A client that reads one partition of one topic.
pub(in super::super) struct Reader {
    partition: i32,
    phase: ReaderPhase,
    topic: NonNull<sys::rd_kafka_topic_t>,
    // Dropped in this order, after `Drop` has destroyed the topic.
    queue: MainQueue,
    client: Client<NoCallbacks>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderPhase {
    Idle,
    Reading,
}

/// The result of [`Reader::next`].
pub(in super::super) enum Fetched {
    Record(FetchedRecord),
    /// There is no further record at present: according to the broker, the log ends at this offset.
    End {
        offset: i64,
    },
    /// An error of the client or of the partition's leader.
    Error(ClientError),
}

/// A record as the broker stores it.
pub(in super::super) struct FetchedRecord {
    pub(in super::super) offset: i64,
    pub(in super::super) timestamp_ms: i64,
    pub(in super::super) key: Option<Vec<u8>>,
    pub(in super::super) value: Option<Vec<u8>>,
}

impl Reader {
    /// Makes the client, which connects in the background.
    pub(in super::super) fn open(
        config: &ClientConfig,
        topic: &TopicName,
        partition: i32,
    ) -> KafkaResult<Self> {
        let native = config.create_native_config()?;
        let events =
            sys::RD_KAFKA_EVENT_FETCH | sys::RD_KAFKA_EVENT_ERROR | sys::RD_KAFKA_EVENT_LOG;
        // SAFETY: `native` holds a configuration that is not yet given away.
        unsafe { sys::rd_kafka_conf_set_events(native.ptr(), events) };
        let client = Client::new(config, native, RDKafkaType::RD_KAFKA_CONSUMER, NoCallbacks)?;
        let name = CString::new(topic.as_str())?;
        // SAFETY: the client is alive, `name` ends with NUL and is copied, a null configuration
        // means the default.
        let topic =
            unsafe { sys::rd_kafka_topic_new(client.native_ptr(), name.as_ptr(), ptr::null_mut()) };
        let Some(topic) = NonNull::new(topic) else {
            return Err(KafkaError::Global(RDKafkaErrorCode::InvalidTopic));
        };
        let queue = MainQueue::of(&client);
        Ok(Self { partition, phase: ReaderPhase::Idle, topic, queue, client })
    }

    /// rdkafka's client, for watermarks and the cluster's id.
    pub(in super::super) fn client(&self) -> &Client<impl rdkafka::ClientContext> {
        &self.client
    }

    /// Starts reading at this offset. Called once.
    pub(in super::super) fn start(&mut self, offset: i64) -> Result<(), RDKafkaErrorCode> {
        // SAFETY: topic and queue are alive; the partition's events go to the client's own queue.
        let outcome = unsafe {
            sys::rd_kafka_consume_start_queue(
                self.topic.as_ptr(),
                self.partition,
                offset,
                self.queue.0.as_ptr(),
            )
        };
        if outcome != 0 {
            return Err(RDKafkaErrorCode::InvalidArgument);
        }
        self.phase = ReaderPhase::Reading;
        Ok(())
    }

    /// Waits for the next record, up to `timeout`. Log lines go to the log. May return `None`
    /// before the time is up.
    pub(in super::super) fn next(&self, timeout: Duration) -> Option<Fetched> {
        let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: the queue is alive as long as `self`.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue.0.as_ptr(), timeout_ms) };
        let event = NonNull::new(event).map(NativeEvent)?;
        match event.kind() {
            sys::RD_KAFKA_EVENT_FETCH => record_of(&event).map(Fetched::Record),
            sys::RD_KAFKA_EVENT_ERROR => Some(match event.error() {
                Some(RDKafkaErrorCode::PartitionEOF) => Fetched::End { offset: offset_of(&event)? },
                _ => Fetched::Error(event.client_error()),
            }),
            sys::RD_KAFKA_EVENT_LOG => {
                event.log(&mut OnlyLogs);
                None
            }
            _ => None,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: the topic is alive and its client too; the reference that `open` got is returned
        // once.
        unsafe {
            if self.phase == ReaderPhase::Reading {
                sys::rd_kafka_consume_stop(self.topic.as_ptr(), self.partition);
            }
            sys::rd_kafka_topic_destroy(self.topic.as_ptr());
        }
    }
}

/// A fetch event holds one message.
fn record_of(event: &NativeEvent) -> Option<FetchedRecord> {
    // SAFETY: the event is alive; a message it returns lives as long.
    let message =
        NonNull::new(unsafe { sys::rd_kafka_event_message_next(event.0.as_ptr()) }.cast_mut())?;
    let message = message.as_ptr();
    // SAFETY: as above; key and payload are part of the message and are copied here. Fields are
    // read one by one, so that no reference to an error code comes into being.
    unsafe {
        Some(FetchedRecord {
            offset: (*message).offset,
            timestamp_ms: sys::rd_kafka_message_timestamp(message, ptr::null_mut()),
            key: bytes((*message).key.cast(), (*message).key_len),
            value: bytes((*message).payload.cast(), (*message).len),
        })
    }
}

/// The offset at which an error event occurred.
fn offset_of(event: &NativeEvent) -> Option<i64> {
    // SAFETY: the event is alive; what it returns is ours, and destroyed once.
    unsafe {
        let partition = NonNull::new(sys::rd_kafka_event_topic_partition(event.0.as_ptr()))?;
        let offset = (*partition.as_ptr()).offset;
        sys::rd_kafka_topic_partition_destroy(partition.as_ptr());
        Some(offset)
    }
}

/// A copy of the bytes; `None` for null, which in Kafka differs from empty.
///
/// # Safety
/// `start` is null, or readable for `len` bytes.
unsafe fn bytes(start: *const u8, len: usize) -> Option<Vec<u8>> {
    // SAFETY: by the contract of this function.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start, len) }.to_vec())
}

struct OnlyLogs;

impl Events for OnlyLogs {
    fn report(&mut self, _: Report) {}

    fn client_error(&mut self, _: ClientError) {}

    fn log(&mut self, level: i32, facility: &str, text: &str) {
        log::write(level, facility, text);
    }
}
