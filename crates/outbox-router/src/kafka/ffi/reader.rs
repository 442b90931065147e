//! A short-lived consumer of chosen partitions, without a group and without commits.
//!
//! rdkafka's `BaseConsumer` was rejected: it assigns partitions only to a member of a group, and
//! librdkafka asks for the coordinator of that group as soon as the client exists. That needs a
//! permission on a group that is never used, and on a new cluster it creates the topic
//! `__consumer_offsets`. librdkafka's simple consumer (`rd_kafka_consume_start_queue`) reads
//! partitions and requests nothing else.

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
    events::{ClientError, Events, NativeEvent, Report, text_of},
    raw,
};
use crate::kafka::log;

/// A client that reads partitions.
pub(in super::super) struct Reader {
    topics: Vec<Handle>,
    // Dropped in this order, after `Drop` has destroyed the topics.
    queue: MainQueue,
    client: Client<NoCallbacks>,
}

/// A topic by its number in a [`Reader`].
pub(in super::super) type TopicIndex = usize;

struct Handle {
    name: TopicName,
    topic: NonNull<sys::rd_kafka_topic_t>,
    /// The partitions that are read.
    started: Vec<i32>,
}

// SAFETY: librdkafka's topic objects are locked inside and have no thread affinity.
unsafe impl Send for Handle {}

/// The result of [`Reader::next`].
pub(in super::super) enum Fetched {
    Record(FetchedRecord),
    /// There is no further record at present: according to the broker, the log ends at this offset.
    End {
        topic: TopicIndex,
        partition: i32,
        offset: i64,
    },
    /// An error of the client or of a partition's leader.
    Error(ClientError),
}

/// A record as the broker stores it.
pub(in super::super) struct FetchedRecord {
    pub(in super::super) topic: TopicIndex,
    pub(in super::super) partition: i32,
    pub(in super::super) offset: i64,
    pub(in super::super) timestamp_ms: i64,
    pub(in super::super) key: Option<Vec<u8>>,
    pub(in super::super) value: Option<Vec<u8>>,
    pub(in super::super) headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Reader {
    /// Makes the client, which connects in the background.
    ///
    /// # Errors
    /// librdkafka refuses a property.
    pub(in super::super) fn open(config: &ClientConfig) -> KafkaResult<Self> {
        let native = config.create_native_config()?;
        let events =
            sys::RD_KAFKA_EVENT_FETCH | sys::RD_KAFKA_EVENT_ERROR | sys::RD_KAFKA_EVENT_LOG;
        // SAFETY: `native` holds a configuration that is not yet given away.
        unsafe { sys::rd_kafka_conf_set_events(native.ptr(), events) };
        let client = Client::new(config, native, RDKafkaType::RD_KAFKA_CONSUMER, NoCallbacks)?;
        let queue = MainQueue::of(&client);
        Ok(Self { topics: Vec::new(), queue, client })
    }

    /// Adds a topic, of which nothing is read yet.
    ///
    /// # Errors
    /// librdkafka refuses the name.
    pub(in super::super) fn add(&mut self, name: &TopicName) -> KafkaResult<TopicIndex> {
        let text = CString::new(name.as_str())?;
        // SAFETY: the client is alive, `text` ends with NUL and is copied, a null configuration
        // means the default.
        let topic = unsafe {
            sys::rd_kafka_topic_new(self.client.native_ptr(), text.as_ptr(), ptr::null_mut())
        };
        let Some(topic) = NonNull::new(topic) else {
            return Err(KafkaError::Global(RDKafkaErrorCode::InvalidTopic));
        };
        self.topics.push(Handle { name: name.clone(), topic, started: Vec::new() });
        Ok(self.topics.len() - 1)
    }

    /// rdkafka's client, for watermarks and the cluster's id.
    pub(in super::super) fn client(&self) -> &Client<impl rdkafka::ClientContext> {
        &self.client
    }

    /// Stops reading a partition, and drops what was fetched of it. What is in the queue already
    /// may still come.
    ///
    /// # Errors
    /// The topic is unknown, or the partition is not read.
    pub(in super::super) fn stop(
        &mut self,
        topic: TopicIndex,
        partition: i32,
    ) -> Result<(), RDKafkaErrorCode> {
        let handle = self.topics.get_mut(topic).ok_or(RDKafkaErrorCode::UnknownTopic)?;
        let started = handle.started.iter().position(|started| *started == partition);
        let started = started.ok_or(RDKafkaErrorCode::UnknownPartition)?;
        // SAFETY: the topic is alive, and the partition is read.
        let outcome = unsafe { sys::rd_kafka_consume_stop(handle.topic.as_ptr(), partition) };
        handle.started.swap_remove(started);
        if outcome == 0 { Ok(()) } else { Err(RDKafkaErrorCode::InvalidArgument) }
    }

    /// Starts reading a partition, which is not read, at this offset.
    ///
    /// # Errors
    /// The topic is unknown, or librdkafka refuses partition or offset.
    pub(in super::super) fn start(
        &mut self,
        topic: TopicIndex,
        partition: i32,
        offset: i64,
    ) -> Result<(), RDKafkaErrorCode> {
        let handle = self.topics.get_mut(topic).ok_or(RDKafkaErrorCode::UnknownTopic)?;
        // SAFETY: topic and queue are alive; the partition's events go to the client's own queue.
        let outcome = unsafe {
            sys::rd_kafka_consume_start_queue(
                handle.topic.as_ptr(),
                partition,
                offset,
                self.queue.0.as_ptr(),
            )
        };
        if outcome != 0 {
            return Err(RDKafkaErrorCode::InvalidArgument);
        }
        handle.started.push(partition);
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
            sys::RD_KAFKA_EVENT_FETCH => self.record_of(&event).map(Fetched::Record),
            sys::RD_KAFKA_EVENT_ERROR => Some(match event.error() {
                Some(RDKafkaErrorCode::PartitionEOF) => self.end_of(&event)?,
                _ => Fetched::Error(event.client_error()),
            }),
            sys::RD_KAFKA_EVENT_LOG => {
                event.log(&mut OnlyLogs);
                None
            }
            _ => None,
        }
    }

    /// A fetch event holds one message.
    fn record_of(&self, event: &NativeEvent) -> Option<FetchedRecord> {
        // SAFETY: the event is alive; a message it returns lives as long.
        let message =
            NonNull::new(unsafe { sys::rd_kafka_event_message_next(event.0.as_ptr()) }.cast_mut())?;
        let message = message.as_ptr();
        // SAFETY: as above; key, payload and headers are part of the message and are copied here.
        // Fields are read one by one, so that no reference to an error code comes into being.
        unsafe {
            let topic = (*message).rkt;
            let topic = self.topics.iter().position(|handle| handle.topic.as_ptr() == topic)?;
            Some(FetchedRecord {
                topic,
                partition: (*message).partition,
                offset: (*message).offset,
                timestamp_ms: sys::rd_kafka_message_timestamp(message, ptr::null_mut()),
                key: bytes((*message).key.cast(), (*message).key_len),
                value: bytes((*message).payload.cast(), (*message).len),
                headers: headers_of(message),
            })
        }
    }

    /// The partition and offset at which a partition ends.
    fn end_of(&self, event: &NativeEvent) -> Option<Fetched> {
        // SAFETY: the event is alive; what it returns is ours, and destroyed once, after its name
        // was copied.
        unsafe {
            let found = NonNull::new(sys::rd_kafka_event_topic_partition(event.0.as_ptr()))?;
            let (partition, offset) = ((*found.as_ptr()).partition, (*found.as_ptr()).offset);
            let name = text_of((*found.as_ptr()).topic);
            sys::rd_kafka_topic_partition_destroy(found.as_ptr());
            let topic = self.topics.iter().position(|handle| handle.name.as_str() == name)?;
            Some(Fetched::End { topic, partition, offset })
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for handle in &self.topics {
            // SAFETY: the topic is alive and its client too; the reference that `add` got is
            // returned once.
            unsafe {
                for partition in &handle.started {
                    sys::rd_kafka_consume_stop(handle.topic.as_ptr(), *partition);
                }
                sys::rd_kafka_topic_destroy(handle.topic.as_ptr());
            }
        }
    }
}

/// The headers of a message, in their order.
///
/// # Safety
/// `message` is alive.
unsafe fn headers_of(message: *const sys::rd_kafka_message_t) -> Vec<(String, Option<Vec<u8>>)> {
    let mut headers = ptr::null_mut();
    // SAFETY: by the contract of this function; the list belongs to the message.
    if unsafe { raw::rd_kafka_message_headers(message, &mut headers) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    loop {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: as above; name and value belong to the list, and are copied here.
        unsafe {
            let outcome = raw::rd_kafka_header_get_all(
                headers,
                found.len(),
                &mut name,
                &mut value,
                &mut size,
            );
            if outcome != 0 {
                return found;
            }
            found.push((text_of(name), bytes(value.cast(), size)));
        }
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
