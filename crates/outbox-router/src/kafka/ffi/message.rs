//! A record in the form that librdkafka takes.

use std::{
    ffi::{c_char, c_void},
    ptr,
};

use rdkafka_sys as sys;
use relay::Record;

/// A record without its headers.
pub(in super::super) struct OutgoingRecord<'m> {
    pub(in super::super) partition: i32,
    pub(in super::super) key: &'m [u8],
    pub(in super::super) value: Option<&'m [u8]>,
    /// Milliseconds since 1970. With 0, which is [`Record::NOW`], librdkafka uses the time at which
    /// the record is enqueued.
    pub(in super::super) timestamp_ms: i64,
}

/// Native headers, not yet owned by librdkafka; null where the record has none.
pub(in super::super) struct NativeHeaders(*mut sys::rd_kafka_headers_t);

impl NativeHeaders {
    pub(in super::super) fn none() -> Self {
        Self(ptr::null_mut())
    }

    pub(super) fn of(record: &Record<'_>) -> Self {
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
            // SAFETY: name and value are readable for the lengths given (a slice is never longer
            // than `isize::MAX`) and are copied. The call cannot fail.
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

    pub(super) fn as_ptr(&self) -> *mut sys::rd_kafka_headers_t {
        self.0
    }

    /// Gives up ownership: after a successful produce librdkafka owns the headers.
    pub(super) fn given_away(self) {
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
