//! Native events as Rust values: delivery reports, errors of the client, log lines, statistics.

use std::{
    ffi::{CStr, c_char, c_int},
    ptr::{self, NonNull},
};

use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use rdkafka_sys as sys;

use super::raw;

/// Identifies the topic of a report by the address of the native topic object, which lives as long
/// as its handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) struct TopicAddress(usize);

impl TopicAddress {
    pub(super) fn of(topic: NonNull<sys::rd_kafka_topic_t>) -> Self {
        Self(topic.addr().get())
    }
}

/// One delivery report.
pub(in super::super) struct Report {
    /// The opaque value that was given to [`super::Producer::produce`].
    pub(in super::super) opaque: u64,
    pub(in super::super) topic: TopicAddress,
    pub(in super::super) partition: i32,
    pub(in super::super) delivery: Delivery,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Delivery {
    /// It is in the log of all in-sync replicas, at an offset that the broker named.
    Stored {
        offset: i64,
    },
    /// librdkafka infers success: the broker stored a later batch, or called this one a duplicate.
    Inferred,
    Failed(RDKafkaErrorCode),
}

impl Delivery {
    /// A message's offset is invalid (below zero) until a produce response without an error names
    /// the first offset of the batch. A response that calls the batch a duplicate names -1, and
    /// librdkafka numbers the records from there: the first is recognised here, and that closes the
    /// sink.
    #[inline]
    fn of(error: Option<RDKafkaErrorCode>, offset: i64) -> Self {
        match error {
            Some(error) => Self::Failed(error),
            None if offset < 0 => Self::Inferred,
            None => Self::Stored { offset },
        }
    }
}

/// An error of the client as a whole.
pub(in super::super) struct ClientError {
    pub(in super::super) code: RDKafkaErrorCode,
    pub(in super::super) text: String,
    pub(in super::super) severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Severity {
    /// librdkafka keeps retrying.
    Transient,
    /// The producer will never produce again.
    Fatal,
}

/// Receives what [`super::Producer::serve`] takes from the main queue.
pub(in super::super) trait Events {
    fn report(&mut self, report: Report);
    fn client_error(&mut self, error: ClientError);
    fn log(&mut self, level: i32, facility: &str, text: &str);
    /// A document of librdkafka's statistics, in JSON. Only the router's own producer gets any.
    fn statistics(&mut self, _document: &[u8]) {}
}

/// An event that was taken from a queue. Dropping it destroys it, even when an implementation of
/// [`Events`] panics.
pub(super) struct NativeEvent(pub(super) NonNull<sys::rd_kafka_event_t>);

impl NativeEvent {
    pub(super) fn kind(&self) -> c_int {
        // SAFETY: the event is alive.
        unsafe { sys::rd_kafka_event_type(self.0.as_ptr()) }
    }

    pub(super) fn error(&self) -> Option<RDKafkaErrorCode> {
        // SAFETY: the event is alive.
        error_code(unsafe { raw::rd_kafka_event_error(self.0.as_ptr()) })
    }

    pub(super) fn next_report(&self) -> Option<Report> {
        // SAFETY: the event is alive; a message it returns lives as long as the event, longer than
        // this call.
        let message =
            NonNull::new(unsafe { sys::rd_kafka_event_message_next(self.0.as_ptr()) }.cast_mut())?;
        let message = message.as_ptr();
        // SAFETY: as above. `err` is read as the integer it is in C, through a pointer, so that no
        // enum with an unknown value comes into being.
        unsafe {
            let error = error_code(ptr::addr_of!((*message).err).cast::<c_int>().read());
            Some(Report {
                opaque: u64::from_ne_bytes((*message)._private.addr().to_ne_bytes()),
                topic: TopicAddress((*message).rkt.addr()),
                partition: (*message).partition,
                delivery: Delivery::of(error, (*message).offset),
            })
        }
    }

    pub(super) fn client_error(&self) -> ClientError {
        // SAFETY: the event is alive and an error event, whose text lives as long as it does.
        let (text, fatal) = unsafe {
            let text = sys::rd_kafka_event_error_string(self.0.as_ptr());
            (text_of(text), sys::rd_kafka_event_error_is_fatal(self.0.as_ptr()))
        };
        ClientError {
            code: self.error().unwrap_or(RDKafkaErrorCode::Unknown),
            text,
            severity: if fatal == 0 { Severity::Transient } else { Severity::Fatal },
        }
    }

    pub(super) fn log(&self, events: &mut impl Events) {
        let (mut facility, mut text, mut level) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the event is alive; the texts live as long as it does and are copied here.
        let found = unsafe {
            sys::rd_kafka_event_log(self.0.as_ptr(), &mut facility, &mut text, &mut level)
        };
        if found == 0 {
            // SAFETY: as above; on success both are set.
            let (facility, text) = unsafe { (text_of(facility), text_of(text)) };
            events.log(level, facility.trim(), text.trim());
        }
    }

    pub(super) fn statistics(&self, events: &mut impl Events) {
        // SAFETY: the event is alive; null, or a text that lives as long as it does.
        let document = unsafe { sys::rd_kafka_event_stats(self.0.as_ptr()) };
        if !document.is_null() {
            // SAFETY: as above; it ends with NUL.
            events.statistics(unsafe { CStr::from_ptr(document) }.to_bytes());
        }
    }
}

impl Drop for NativeEvent {
    fn drop(&mut self) {
        // SAFETY: taken from a queue, destroyed once.
        unsafe { sys::rd_kafka_event_destroy(self.0.as_ptr()) };
    }
}

/// `None` is success. A code that the bindings do not know becomes [`RDKafkaErrorCode::Unknown`].
pub(super) fn error_code(raw: c_int) -> Option<RDKafkaErrorCode> {
    (raw != 0).then(|| {
        RDKafkaRespErr::try_from(raw).map_or(RDKafkaErrorCode::Unknown, RDKafkaErrorCode::from)
    })
}

/// A copy of a C string; empty for null.
///
/// # Safety
/// `text` is null or ends with NUL and is alive.
pub(super) unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by the contract of this function.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
