//! Metadata and ids of many topics in one request instead of one for each.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_int},
    ptr::{self, NonNull},
    time::Duration,
};

use rdkafka::types::RDKafkaErrorCode;
use rdkafka_sys as sys;
use relay::{
    TopicName,
    witness::{TopicSight, TopicUuid},
};
use sys::rd_kafka_admin_op_t as ApiKind;

use super::{
    admin::{AdminError, AdminRequest, c_string, invalid},
    events::{NativeEvent, error_code, text_of},
    producer::Producer,
    raw,
};

/// One answer to [`Producer::known_topics`].
pub(in super::super) struct KnownTopics {
    /// Partition counts by topic name, or why they are not known.
    pub(in super::super) topics: HashMap<String, Result<i32, RDKafkaErrorCode>>,
    /// The id of the broker that answered, or of another if that is not known; -1 without any.
    pub(in super::super) broker: i32,
}

impl Producer {
    /// Asks any broker for the topics that this client has handles of, and waits for the answer.
    /// Must not be called without any handle: librdkafka would then allow brokers to create topics
    /// that were only looked up.
    pub(in super::super) fn known_topics(
        &self,
        timeout: Duration,
    ) -> Result<KnownTopics, RDKafkaErrorCode> {
        let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        let mut metadata = ptr::null();
        // SAFETY: the client is alive; 0 and null ask for the topics known to it.
        let outcome = unsafe {
            raw::rd_kafka_metadata(
                self.client.native_ptr(),
                0,
                ptr::null_mut(),
                &mut metadata,
                timeout_ms,
            )
        };
        if let Some(error) = error_code(outcome) {
            return Err(error);
        }
        let metadata =
            Metadata(NonNull::new(metadata.cast_mut()).ok_or(RDKafkaErrorCode::InvalidMessage)?);
        Ok(metadata.read())
    }

    /// Asks for the descriptions of these topics, and waits for the answer.
    pub(super) fn describe_topics(
        &self,
        request: &AdminRequest,
        names: &[CString],
    ) -> Result<NativeEvent, AdminError> {
        let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        // SAFETY: client, options and queue are alive; the names end with NUL and all is copied,
        // then the collection freed.
        unsafe {
            let topics =
                sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
            sys::rd_kafka_DescribeTopics(
                self.client.native_ptr(),
                topics,
                request.options(),
                request.queue(),
            );
            sys::rd_kafka_TopicCollection_destroy(topics);
        }
        request.answer()
    }

    /// The ids of topics as `broker` has them, or any broker, in the order of `names`; `None` where
    /// it does not say, as a broker older than Kafka 2.8.
    pub(in super::super) fn topic_sights(
        &self,
        names: &[&TopicName],
        broker: Option<i32>,
        timeout: Duration,
    ) -> Result<Vec<Option<TopicSight>>, AdminError> {
        let request = AdminRequest::new(self, ApiKind::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, timeout)?;
        broker.map_or(Ok(()), |broker| request.ask(broker))?;
        let names: Vec<CString> =
            names.iter().map(|name| c_string(name.as_str())).collect::<Result<_, _>>()?;
        let event = self.describe_topics(&request, &names)?;
        let mut count = 0;
        // SAFETY: the event is alive; the result, its topics and their parts belong to it, `count`
        // says how many topics there are.
        unsafe {
            let result = sys::rd_kafka_event_DescribeTopics_result(event.0.as_ptr());
            if result.is_null() {
                return Err(invalid("the answer is of another kind"));
            }
            let first = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
            let mut found = HashMap::with_capacity(count);
            for index in 0..count {
                let topic = first.add(index).read();
                let name = CStr::from_ptr(sys::rd_kafka_TopicDescription_name(topic));
                if let Some(sight) = sight_of(topic) {
                    found.insert(name, sight);
                }
            }
            Ok(names.iter().map(|name| found.get(name.as_c_str()).cloned()).collect())
        }
    }
}

/// # Safety
/// `topic` is alive.
unsafe fn sight_of(topic: *const sys::rd_kafka_TopicDescription_t) -> Option<TopicSight> {
    // SAFETY: by the contract of this function; error and id belong to the topic, a null error is
    // none, and the text of the id ends with NUL.
    unsafe {
        let error =
            error_code(raw::rd_kafka_error_code(sys::rd_kafka_TopicDescription_error(topic)));
        if error == Some(RDKafkaErrorCode::UnknownTopicOrPartition) {
            return Some(TopicSight::Missing);
        }
        let uuid = sys::rd_kafka_TopicDescription_topic_id(topic);
        let is_zero = uuid.is_null()
            || sys::rd_kafka_Uuid_most_significant_bits(uuid) == 0
                && sys::rd_kafka_Uuid_least_significant_bits(uuid) == 0;
        if error.is_some() || is_zero {
            return None;
        }
        Some(TopicSight::Is(TopicUuid::new(text_of(sys::rd_kafka_Uuid_base64str(uuid)))))
    }
}

struct Metadata(NonNull<sys::rd_kafka_metadata>);

impl Metadata {
    fn read(&self) -> KnownTopics {
        let metadata = self.0.as_ptr();
        // SAFETY: the metadata is alive; its brokers, its topics and their names are parts of it,
        // and the counts say how many there are. Error codes are read as the integers that they are
        // in C.
        unsafe {
            let count = usize::try_from((*metadata).topic_cnt).unwrap_or(0);
            let topics = (0..count)
                .map(|index| {
                    let topic = (*metadata).topics.add(index);
                    let error = error_code(ptr::addr_of!((*topic).err).cast::<c_int>().read());
                    let partitions = (*topic).partition_cnt;
                    // Partitions without a leader count. A topic that is being created has no
                    // partitions yet.
                    let answer = match error {
                        None | Some(RDKafkaErrorCode::LeaderNotAvailable) => Ok(partitions),
                        Some(error) => Err(error),
                    };
                    (text_of((*topic).topic), answer)
                })
                .collect();
            let brokers = usize::try_from((*metadata).broker_cnt).unwrap_or(0);
            let others = (0..brokers).map(|index| (*(*metadata).brokers.add(index)).id);
            KnownTopics { topics, broker: answering((*metadata).orig_broker_id, others) }
        }
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        // SAFETY: given away by `rd_kafka_metadata`, destroyed once.
        unsafe { sys::rd_kafka_metadata_destroy(self.0.as_ptr()) };
    }
}

/// The broker that gave an answer, for a further request. librdkafka does not know the id of a
/// broker that it has just reached by a bootstrap address (`origin` is negative); then another
/// broker of the cluster, whose id is known.
pub(in super::super) fn answering(origin: i32, mut others: impl Iterator<Item = i32>) -> i32 {
    if origin >= 0 { origin } else { others.next().unwrap_or(origin) }
}

#[cfg(test)]
mod tests {
    use super::answering;

    #[test]
    fn a_broker_without_an_id_is_not_contacted_again() {
        assert_eq!(answering(2, [1, 2].into_iter()), 2);
        assert_eq!(answering(-1, [1, 2].into_iter()), 1);
        assert_eq!(answering(-1, [].into_iter()), -1);
    }
}
