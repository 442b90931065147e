//! Some symbols of the bindings, declared with the integer that C returns instead of a Rust enum.

use std::ffi::{c_char, c_int, c_void};

use rdkafka_sys as sys;

unsafe extern "C" {
    pub(super) fn rd_kafka_event_error(event: *mut sys::rd_kafka_event_t) -> c_int;
    pub(super) fn rd_kafka_metadata(
        client: *mut sys::rd_kafka_t,
        all_topics: c_int,
        only: *mut sys::rd_kafka_topic_t,
        metadata: *mut *const sys::rd_kafka_metadata,
        timeout_ms: c_int,
    ) -> c_int;
    pub(super) fn rd_kafka_error_code(error: *const sys::rd_kafka_error_t) -> c_int;
    pub(super) fn rd_kafka_topic_result_error(result: *const sys::rd_kafka_topic_result_t)
    -> c_int;
    pub(super) fn rd_kafka_ConfigResource_error(
        resource: *const sys::rd_kafka_ConfigResource_t,
    ) -> c_int;
    pub(super) fn rd_kafka_message_headers(
        message: *const sys::rd_kafka_message_t,
        headers: *mut *mut sys::rd_kafka_headers_t,
    ) -> c_int;
    pub(super) fn rd_kafka_header_get_all(
        headers: *const sys::rd_kafka_headers_t,
        index: usize,
        name: *mut *const c_char,
        value: *mut *const c_void,
        size: *mut usize,
    ) -> c_int;
    pub(super) fn rd_kafka_offsets_for_times(
        client: *mut sys::rd_kafka_t,
        offsets: *mut sys::rd_kafka_topic_partition_list_t,
        timeout_ms: c_int,
    ) -> c_int;
}
