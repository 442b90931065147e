//! The native producer: takes records, and gives the events of its main queue. Nothing here waits.

use std::{
    ffi::{CString, c_void},
    fs::File,
    io::{self, Read},
    os::fd::{AsRawFd, RawFd},
    ptr::{self, NonNull},
    sync::Arc,
};

use rdkafka::{
    ClientContext,
    client::Client,
    config::ClientConfig,
    error::{KafkaError, KafkaResult},
    types::{RDKafkaErrorCode, RDKafkaRespErr, RDKafkaType},
};
use rdkafka_sys as sys;
use relay::{Record, TopicName};
use sys::rd_kafka_vtype_t as vtype;
use tokio::io::unix::AsyncFd;

use super::{
    client::{MainQueue, NoCallbacks, SIGNAL, event_fd},
    events::{Events, NativeEvent, TopicAddress},
    message::{NativeHeaders, OutgoingRecord},
};

/// A native producer with its main queue and the eventfd that the queue signals.
pub(in super::super) struct Producer {
    // Fields are dropped in this order: the queue releases the eventfd before the client joins its
    // threads, and the eventfd is closed when no thread can write to it any more.
    queue: MainQueue,
    pub(super) client: Client<NoCallbacks>,
    wakeup: File,
}

/// Whether [`Producer::serve`] found an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Served {
    One,
    QueueEmpty,
}

impl Producer {
    /// Makes the native client, which connects in the background.
    /// Statistics come only where `statistics.interval.ms` is not 0.
    pub(in super::super) fn open(config: &ClientConfig) -> KafkaResult<Arc<Self>> {
        let native = config.create_native_config()?;
        let events = sys::RD_KAFKA_EVENT_DR
            | sys::RD_KAFKA_EVENT_ERROR
            | sys::RD_KAFKA_EVENT_LOG
            | sys::RD_KAFKA_EVENT_STATS;
        // SAFETY: `native` holds a configuration that is not yet given away.
        unsafe { sys::rd_kafka_conf_set_events(native.ptr(), events) };
        let client = Client::new(config, native, RDKafkaType::RD_KAFKA_PRODUCER, NoCallbacks)?;
        let wakeup = event_fd().map_err(|e| KafkaError::ClientCreation(format!("eventfd: {e}")))?;
        let queue = MainQueue::of(&client);
        queue.signal_to(&wakeup);
        Ok(Arc::new(Self { queue, client, wakeup }))
    }

    /// rdkafka's client, for metadata and fatal errors.
    pub(in super::super) fn client(&self) -> &Client<impl ClientContext> {
        &self.client
    }

    /// A handle for the topic `name`. Does not wait; librdkafka requests the topic's metadata in
    /// the background unless it has it.
    pub(in super::super) fn topic(self: &Arc<Self>, name: &TopicName) -> Option<TopicHandle> {
        let name = CString::new(name.as_str()).ok()?;
        // SAFETY: the client is alive, `name` ends with NUL and is copied, a null configuration
        // means the default.
        let topic = unsafe {
            sys::rd_kafka_topic_new(self.client.native_ptr(), name.as_ptr(), ptr::null_mut())
        };
        NonNull::new(topic).map(|topic| TopicHandle { topic, _producer: Arc::clone(self) })
    }

    /// Enqueues a copy of `record`.
    pub(in super::super) fn produce(
        &self,
        topic: &TopicHandle,
        record: &Record<'_>,
        opaque: u64,
    ) -> Result<(), RDKafkaErrorCode> {
        let message = OutgoingRecord {
            partition: record.partition,
            key: record.key,
            value: record.value,
            timestamp_ms: record.timestamp_ms,
        };
        self.enqueue(topic, &message, NativeHeaders::of(record), opaque)
    }

    /// Enqueues a copy of `message`. On failure librdkafka keeps nothing of it.
    #[inline]
    pub(in super::super) fn enqueue(
        &self,
        topic: &TopicHandle,
        message: &OutgoingRecord<'_>,
        headers: NativeHeaders,
        opaque: u64,
    ) -> Result<(), RDKafkaErrorCode> {
        let (value, value_len) = match message.value {
            Some(value) => (value.as_ptr().cast::<c_void>(), value.len()),
            None => (ptr::null(), 0),
        };
        // An integer passed as a pointer, which neither librdkafka nor this program dereferences.
        let opaque =
            ptr::without_provenance_mut::<c_void>(usize::from_ne_bytes(opaque.to_ne_bytes()));
        // SAFETY: every tag is followed by arguments of the types that `rd_kafka_producev` reads
        // for it, and the list is ended. The handle keeps its topic alive and belongs to this
        // client. Key and value are readable for their lengths and, by F_COPY, copied before the
        // call returns (the key always is). A value or key of length 0 has a pointer that is not
        // null, which is how Kafka tells empty from null.
        let code = unsafe {
            sys::rd_kafka_producev(
                self.client.native_ptr(),
                vtype::RD_KAFKA_VTYPE_RKT,
                topic.topic.as_ptr(),
                vtype::RD_KAFKA_VTYPE_PARTITION,
                message.partition,
                vtype::RD_KAFKA_VTYPE_MSGFLAGS,
                sys::RD_KAFKA_MSG_F_COPY,
                vtype::RD_KAFKA_VTYPE_KEY,
                message.key.as_ptr().cast::<c_void>(),
                message.key.len(),
                vtype::RD_KAFKA_VTYPE_VALUE,
                value,
                value_len,
                vtype::RD_KAFKA_VTYPE_TIMESTAMP,
                message.timestamp_ms,
                vtype::RD_KAFKA_VTYPE_HEADERS,
                headers.as_ptr(),
                vtype::RD_KAFKA_VTYPE_OPAQUE,
                opaque,
                vtype::RD_KAFKA_VTYPE_END,
            )
        };
        if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            headers.given_away();
            Ok(())
        } else {
            Err(code.into())
        }
    }

    /// Takes one event from the main queue, if there is one, and passes its content to `events`:
    /// for reports, up to a whole batch. Does not wait.
    pub(in super::super) fn serve(&self, events: &mut impl Events) -> Served {
        // SAFETY: the queue is alive as long as `self`; a timeout of 0 does not wait.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue.0.as_ptr(), 0) };
        let Some(event) = NonNull::new(event).map(NativeEvent) else { return Served::QueueEmpty };
        match event.kind() {
            sys::RD_KAFKA_EVENT_DR => {
                while let Some(report) = event.next_report() {
                    events.report(report);
                }
            }
            sys::RD_KAFKA_EVENT_ERROR => events.client_error(event.client_error()),
            sys::RD_KAFKA_EVENT_LOG => event.log(events),
            sys::RD_KAFKA_EVENT_STATS => event.statistics(events),
            _ => {}
        }
        Served::One
    }

    /// Drops everything that is queued or in flight; each record is reported with an error. Does
    /// not wait.
    pub(in super::super) fn purge(&self) {
        let what = sys::RD_KAFKA_PURGE_F_QUEUE
            | sys::RD_KAFKA_PURGE_F_INFLIGHT
            | sys::RD_KAFKA_PURGE_F_NON_BLOCKING;
        // SAFETY: the client is alive. The only errors are a wrong flag and a client that is no
        // producer.
        unsafe { sys::rd_kafka_purge(self.client.native_ptr(), what) };
    }

    /// The eventfd, registered with tokio, to wait for events.
    ///
    /// # Panics
    /// Outside a tokio runtime that does I/O.
    pub(in super::super) fn signal(self: &Arc<Self>) -> io::Result<AsyncFd<Arc<Self>>> {
        // SAFETY: the descriptor belongs to the producer, which the `AsyncFd` keeps alive, and is
        // never replaced.
        let signal = unsafe {
            AsyncFd::register_with_interest(Arc::clone(self), tokio::io::Interest::READABLE)
        };
        Ok(signal?)
    }

    /// Resets the eventfd. `WouldBlock` when it was not signalled.
    pub(in super::super) fn take_signal(&self) -> io::Result<()> {
        (&self.wakeup).read_exact(&mut [0; SIGNAL.len()])
    }
}

impl AsRawFd for Producer {
    fn as_raw_fd(&self) -> RawFd {
        self.wakeup.as_raw_fd()
    }
}

/// A topic of one producer. The handle keeps the producer alive.
pub(in super::super) struct TopicHandle {
    topic: NonNull<sys::rd_kafka_topic_t>,
    _producer: Arc<Producer>,
}

impl TopicHandle {
    pub(in super::super) fn address(&self) -> TopicAddress {
        TopicAddress::of(self.topic)
    }
}

// SAFETY: librdkafka's topic objects are reference-counted and locked inside; they have no thread
// affinity.
unsafe impl Send for TopicHandle {}

impl Drop for TopicHandle {
    fn drop(&mut self) {
        // SAFETY: the reference that `rd_kafka_topic_new` gave, returned once; the client still
        // lives.
        unsafe { sys::rd_kafka_topic_destroy(self.topic.as_ptr()) };
    }
}
