//! The offsets of a point in time, for all partitions of a topic in one call.

use std::{
    ffi::{CString, c_int},
    ptr,
    time::Duration,
};

use rdkafka::types::RDKafkaErrorCode;
use rdkafka_sys as sys;
use relay::TopicName;

use super::{events::error_code, raw, reader::Reader};

impl Reader {
    /// Per partition, the offset of the first record whose timestamp is not before `millis`; `None`
    /// where the partition has no such record.
    ///
    /// # Errors
    /// No broker answers within `timeout`, or it refuses a partition.
    pub(in super::super) fn offsets_at(
        &self,
        topic: &TopicName,
        partitions: i32,
        millis: i64,
        timeout: Duration,
    ) -> Result<Vec<Option<i64>>, RDKafkaErrorCode> {
        let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        let name = CString::new(topic.as_str()).map_err(|_| RDKafkaErrorCode::InvalidTopic)?;
        // SAFETY: the list is ours, and destroyed once; the name ends with NUL and is copied; the
        // client is alive. The elements are those that were added, in this order; their error codes
        // are read as the integers that they are in C.
        unsafe {
            let list = sys::rd_kafka_topic_partition_list_new(partitions);
            for partition in 0..partitions {
                let element =
                    sys::rd_kafka_topic_partition_list_add(list, name.as_ptr(), partition);
                (*element).offset = millis;
            }
            let client = self.client().native_ptr();
            let outcome = error_code(raw::rd_kafka_offsets_for_times(client, list, timeout_ms));
            let count = usize::try_from((*list).cnt).unwrap_or(0);
            let offsets = (0..count)
                .map(|index| {
                    let element = (*list).elems.add(index);
                    match error_code(ptr::addr_of!((*element).err).cast::<c_int>().read()) {
                        // Below zero is the end of the partition.
                        None => Ok(Some((*element).offset).filter(|offset| *offset >= 0)),
                        Some(error) => Err(error),
                    }
                })
                .collect();
            sys::rd_kafka_topic_partition_list_destroy(list);
            outcome.map_or(offsets, Err)
        }
    }
}
