//! The one module with unsafe code: the calls into librdkafka that rdkafka's safe surface lacks or does too slowly.
//!
//! Why not `BaseProducer`: its `send` looks the topic up by name and builds a header object of its own, its `poll`
//! neither batches reports nor says when the queue is empty. Here a record costs one call with a cached topic handle,
//! reports are read straight from the event that carries them, and an eventfd says when there are any. rdkafka's
//! [`Client`] still makes and destroys the native client; nothing but [`Producer::serve`] ever polls its main queue.
//!
//! Error codes cross the border as integers: the bindings declare them as Rust enums with gaps, and a code that a
//! newer broker invents would be undefined behaviour.
#![allow(unsafe_code, reason = "librdkafka is a C library; every call states why it is sound")]

mod admin;
mod events;
mod metadata;
mod reader;

pub(super) use admin::{AdminError, NewTopic};
pub(super) use events::{ClientError, Delivery, Events, Report, Severity, TopicAddress};
pub use metadata::TopicUuid;
pub(super) use metadata::answering;
pub(super) use reader::{Fetched, FetchedRecord, Reader};

use std::{
    ffi::{CString, c_char, c_int, c_void},
    fs::File,
    io::{self, Read},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr::{self, NonNull},
    sync::Arc,
};

use events::Event;
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

/// The same symbols as the bindings have, with the integer that C returns instead of a Rust enum.
mod raw {
    use super::{c_int, sys};

    unsafe extern "C" {
        pub(super) fn rd_kafka_event_error(event: *mut sys::rd_kafka_event_t) -> c_int;
        pub(super) fn rd_kafka_metadata(
            client: *mut sys::rd_kafka_t,
            all_topics: c_int,
            only: *mut sys::rd_kafka_topic_t,
            metadata: *mut *const sys::rd_kafka_metadata,
            timeout_ms: c_int,
        ) -> c_int;
        pub(super) fn rd_kafka_topic_result_error(
            result: *const sys::rd_kafka_topic_result_t,
        ) -> c_int;
        pub(super) fn rd_kafka_ConfigResource_error(
            resource: *const sys::rd_kafka_ConfigResource_t,
        ) -> c_int;
    }
}

/// Callbacks of rdkafka are not used: all events come through [`Producer::serve`].
struct NoCallbacks;

impl ClientContext for NoCallbacks {}

/// A native producer with its main queue and the eventfd that the queue signals.
pub(super) struct Producer {
    // In the order in which they must go: the queue lets go of the eventfd before the client joins its threads, and
    // the eventfd is closed when nobody can write to it any more.
    queue: MainQueue,
    client: Client<NoCallbacks>,
    wakeup: File,
}

/// Whether [`Producer::serve`] found an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    One,
    QueueEmpty,
}

impl Producer {
    /// Makes the native client; it connects in the background.
    pub(super) fn open(config: &ClientConfig) -> KafkaResult<Arc<Self>> {
        let native = config.create_native_config()?;
        let events = sys::RD_KAFKA_EVENT_DR | sys::RD_KAFKA_EVENT_ERROR | sys::RD_KAFKA_EVENT_LOG;
        // SAFETY: `native` holds a configuration that is not yet given away.
        unsafe { sys::rd_kafka_conf_set_events(native.ptr(), events) };
        let client = Client::new(config, native, RDKafkaType::RD_KAFKA_PRODUCER, NoCallbacks)?;
        let wakeup = event_fd().map_err(|e| KafkaError::ClientCreation(format!("eventfd: {e}")))?;
        let queue = MainQueue::of(&client);
        queue.signal_to(&wakeup);
        Ok(Arc::new(Self { queue, client, wakeup }))
    }

    /// For metadata.
    pub(super) fn client(&self) -> &Client<impl ClientContext> {
        &self.client
    }

    /// A handle for `name`. Does not wait; librdkafka asks for the topic's metadata unless it has it.
    pub(super) fn topic(self: &Arc<Self>, name: &TopicName) -> Option<TopicHandle> {
        let name = CString::new(name.as_str()).ok()?;
        // SAFETY: the client is alive, `name` ends with NUL and is copied, a null configuration means the default.
        let topic = unsafe {
            sys::rd_kafka_topic_new(self.client.native_ptr(), name.as_ptr(), ptr::null_mut())
        };
        NonNull::new(topic).map(|topic| TopicHandle { topic, _producer: Arc::clone(self) })
    }

    /// Enqueues a copy of `record`.
    pub(super) fn produce(
        &self,
        topic: &TopicHandle,
        record: &Record<'_>,
        opaque: u64,
    ) -> Result<(), RDKafkaErrorCode> {
        let message = Message {
            partition: record.partition,
            key: record.key,
            value: record.value,
            timestamp_ms: record.timestamp_ms,
        };
        self.enqueue(topic, &message, NativeHeaders::of(record), opaque)
    }

    /// Enqueues a copy of `message`. On failure librdkafka has kept nothing of it.
    #[inline]
    pub(super) fn enqueue(
        &self,
        topic: &TopicHandle,
        message: &Message<'_>,
        headers: NativeHeaders,
        opaque: u64,
    ) -> Result<(), RDKafkaErrorCode> {
        let (value, value_len) = match message.value {
            Some(value) => (value.as_ptr().cast::<c_void>(), value.len()),
            None => (ptr::null(), 0),
        };
        // An integer dressed as a pointer: never dereferenced, by librdkafka or here.
        let opaque =
            ptr::without_provenance_mut::<c_void>(usize::from_ne_bytes(opaque.to_ne_bytes()));
        // SAFETY: every tag is followed by arguments of the types that `rd_kafka_producev` reads for it, and the list
        // is ended. The handle keeps its topic alive and belongs to this client. Key and value are readable for their
        // lengths and, by F_COPY, copied before the call returns (the key always is). A value or key of length 0 has a
        // pointer that is not null, which is how Kafka tells empty from null.
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

    /// Takes one event from the main queue, if there is one, and shows `events` what is in it: up to a whole batch of
    /// reports. Does not wait.
    pub(super) fn serve(&self, events: &mut impl Events) -> Served {
        // SAFETY: the queue is alive as long as `self`; a timeout of 0 does not wait.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue.0.as_ptr(), 0) };
        let Some(event) = NonNull::new(event).map(Event) else { return Served::QueueEmpty };
        match event.kind() {
            sys::RD_KAFKA_EVENT_DR => {
                while let Some(report) = event.next_report() {
                    events.report(report);
                }
            }
            sys::RD_KAFKA_EVENT_ERROR => events.client_error(event.client_error()),
            sys::RD_KAFKA_EVENT_LOG => event.log(events),
            _ => {}
        }
        Served::One
    }

    /// Drops everything that is queued or in flight; each record is reported with an error. Does not wait.
    pub(super) fn purge(&self) {
        let what = sys::RD_KAFKA_PURGE_F_QUEUE
            | sys::RD_KAFKA_PURGE_F_INFLIGHT
            | sys::RD_KAFKA_PURGE_F_NON_BLOCKING;
        // SAFETY: the client is alive. The only errors are a wrong flag and a client that is no producer.
        unsafe { sys::rd_kafka_purge(self.client.native_ptr(), what) };
    }

    /// The eventfd for waiting on.
    ///
    /// # Panics
    /// Outside a tokio runtime that does I/O.
    pub(super) fn signal(self: &Arc<Self>) -> io::Result<AsyncFd<Arc<Self>>> {
        // SAFETY: the descriptor belongs to the producer, which the `AsyncFd` keeps alive, and is never replaced.
        let signal = unsafe {
            AsyncFd::register_with_interest(Arc::clone(self), tokio::io::Interest::READABLE)
        };
        Ok(signal?)
    }

    /// Takes the eventfd's signal back. `WouldBlock` when there was none.
    pub(super) fn take_signal(&self) -> io::Result<()> {
        (&self.wakeup).read_exact(&mut [0; SIGNAL.len()])
    }
}

impl AsRawFd for Producer {
    fn as_raw_fd(&self) -> RawFd {
        self.wakeup.as_raw_fd()
    }
}

/// A record as librdkafka takes it, but for its headers.
pub(super) struct Message<'m> {
    pub(super) partition: i32,
    pub(super) key: &'m [u8],
    pub(super) value: Option<&'m [u8]>,
    /// Milliseconds since 1970. 0, which is [`Record::NOW`], makes librdkafka take the time at
    /// which the record is enqueued.
    pub(super) timestamp_ms: i64,
}

/// A topic of one producer, which it keeps alive.
pub(super) struct TopicHandle {
    topic: NonNull<sys::rd_kafka_topic_t>,
    _producer: Arc<Producer>,
}

impl TopicHandle {
    pub(super) fn address(&self) -> TopicAddress {
        TopicAddress::of(self.topic)
    }
}

// SAFETY: librdkafka's topic objects are reference-counted and locked inside; they have no thread affinity.
unsafe impl Send for TopicHandle {}

impl Drop for TopicHandle {
    fn drop(&mut self) {
        // SAFETY: the reference that `rd_kafka_topic_new` gave, returned once; the client still lives.
        unsafe { sys::rd_kafka_topic_destroy(self.topic.as_ptr()) };
    }
}

/// The queue through which a client tells everything.
struct MainQueue(NonNull<sys::rd_kafka_queue_t>);

/// What an eventfd is written: a count of one.
const SIGNAL: [u8; 8] = 1_u64.to_ne_bytes();

impl MainQueue {
    fn of(client: &Client<impl ClientContext>) -> Self {
        // SAFETY: the client is alive. The reference is counted and returned in `drop`.
        let queue = unsafe { sys::rd_kafka_queue_get_main(client.native_ptr()) };
        #[expect(clippy::expect_used, reason = "every client has a main queue")]
        Self(NonNull::new(queue).expect("a client has a main queue"))
    }

    /// From now on librdkafka writes to `wakeup` when the queue gets its first event since it was last polled.
    fn signal_to(&self, wakeup: &File) {
        // SAFETY: the payload is copied; the descriptor stays open until `drop` has taken it back.
        unsafe {
            sys::rd_kafka_queue_io_event_enable(
                self.0.as_ptr(),
                wakeup.as_raw_fd(),
                SIGNAL.as_ptr().cast(),
                SIGNAL.len(),
            );
        }
    }
}

// SAFETY: librdkafka's queues are locked inside and have no thread affinity.
unsafe impl Send for MainQueue {}
// SAFETY: as above.
unsafe impl Sync for MainQueue {}

impl Drop for MainQueue {
    fn drop(&mut self) {
        // SAFETY: a descriptor of -1 ends the signals; the reference is returned once.
        unsafe {
            sys::rd_kafka_queue_io_event_enable(self.0.as_ptr(), -1, ptr::null(), 0);
            sys::rd_kafka_queue_destroy(self.0.as_ptr());
        }
    }
}

/// Headers on their way to librdkafka; null where the record has none.
pub(super) struct NativeHeaders(*mut sys::rd_kafka_headers_t);

impl NativeHeaders {
    pub(super) fn none() -> Self {
        Self(ptr::null_mut())
    }

    fn of(record: &Record<'_>) -> Self {
        if record.headers.is_empty() {
            return Self::none();
        }
        // SAFETY: a plain constructor, which aborts rather than return null.
        let headers = Self(unsafe { sys::rd_kafka_headers_new(record.headers.len()) });
        for header in record.headers.iter() {
            let (value, len) = match header.value {
                Some(value) => (value.as_ptr().cast::<c_void>(), value.len()),
                None => (ptr::null(), 0),
            };
            // SAFETY: name and value are readable for the lengths given (a slice is never longer than `isize::MAX`)
            // and are copied. The call cannot fail.
            unsafe {
                sys::rd_kafka_header_add(
                    headers.0,
                    header.name.as_ptr().cast::<c_char>(),
                    header.name.len().cast_signed(),
                    value,
                    len.cast_signed(),
                );
            }
        }
        headers
    }

    fn as_ptr(&self) -> *mut sys::rd_kafka_headers_t {
        self.0
    }

    /// After a successful produce they are librdkafka's.
    fn given_away(self) {
        std::mem::forget(self);
    }
}

impl Drop for NativeHeaders {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by `of` and not given away.
            unsafe { sys::rd_kafka_headers_destroy(self.0) };
        }
    }
}

fn event_fd() -> io::Result<File> {
    // SAFETY: no pointers are involved.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open and nobody else's.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}
