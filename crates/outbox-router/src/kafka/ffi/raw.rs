//! Some symbols of the bindings, declared with the integer that C returns instead of a Rust enum.

use std::ffi::c_int;

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
    pub(super) fn rd_kafka_topic_result_error(result: *const sys::rd_kafka_topic_result_t)
    -> c_int;
    pub(super) fn rd_kafka_ConfigResource_error(
        resource: *const sys::rd_kafka_ConfigResource_t,
    ) -> c_int;
}
