//! Which operations the client's principal is allowed (KIP-430), as the broker says it.

use std::{
    collections::HashMap,
    ffi::{CString, c_int},
    time::Duration,
};

use rdkafka_sys as sys;
use relay::TopicName;
use sys::rd_kafka_AclOperation_t as Kind;
use sys::rd_kafka_admin_op_t as ApiKind;

use super::{
    admin::{AdminError, AdminRequest, c_string, invalid},
    events::text_of,
    producer::Producer,
};

/// An operation of Kafka's authorizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Fetch records.
    Read,
    /// Produce records.
    Write,
    /// Create topics.
    Create,
    /// See that a topic exists.
    Describe,
    /// Read settings.
    DescribeConfigs,
}

impl Operation {
    /// The number that Kafka's protocol gives it, and librdkafka, too.
    const fn number(self) -> c_int {
        match self {
            Self::Read => 3,
            Self::Write => 4,
            Self::Create => 5,
            Self::Describe => 8,
            Self::DescribeConfigs => 10,
        }
    }
}

/// The operations that are allowed on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operations(Vec<c_int>);

impl Operations {
    /// Whether this one is among them.
    pub fn allow(&self, operation: Operation) -> bool {
        self.0.contains(&operation.number())
    }

    /// Exactly these, as a broker would report them.
    #[cfg(test)]
    pub(crate) fn of(operations: &[Operation]) -> Self {
        Self(operations.iter().map(|operation| operation.number()).collect())
    }

    /// `None`: the broker does not report them.
    ///
    /// # Safety
    /// `first` is null, or points to `count` operations. They are read as the integers that they
    /// are in C: a later broker may have more of them.
    unsafe fn read(first: *const Kind, count: usize) -> Option<Self> {
        if first.is_null() {
            return None;
        }
        let numbers = first.cast::<c_int>();
        // SAFETY: by the contract of this function.
        let numbers = unsafe { (0..count).map(|index| numbers.add(index).read()).collect() };
        Some(Self(numbers))
    }
}

impl Producer {
    /// What is allowed on each topic, by name, as `broker` has it. A topic that the principal may
    /// not see is left out, and so is one whose operations the broker does not report.
    pub(in super::super) fn topic_operations(
        &self,
        names: &[TopicName],
        broker: i32,
        timeout: Duration,
    ) -> Result<HashMap<String, Operations>, AdminError> {
        let request = AdminRequest::new(self, ApiKind::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, timeout)?;
        request.ask(broker)?;
        request.include_operations()?;
        let names: Vec<CString> =
            names.iter().map(|name| c_string(name.as_str())).collect::<Result<_, _>>()?;
        let event = self.describe_topics(&request, &names)?;
        let (mut count, mut found) = (0, HashMap::new());
        // SAFETY: the event is alive; the result, its topics and their parts belong to it, and the
        // counts say how many there are.
        unsafe {
            let result = sys::rd_kafka_event_DescribeTopics_result(event.0.as_ptr());
            if result.is_null() {
                return Err(invalid("the answer is of another kind"));
            }
            let first = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
            for index in 0..count {
                let topic = first.add(index).read();
                let mut allowed = 0;
                let operations =
                    sys::rd_kafka_TopicDescription_authorized_operations(topic, &mut allowed);
                if let Some(operations) = Operations::read(operations, allowed) {
                    found.insert(text_of(sys::rd_kafka_TopicDescription_name(topic)), operations);
                }
            }
        }
        Ok(found)
    }

    /// What is allowed on the cluster itself; `None`: the broker does not report it.
    pub(in super::super) fn cluster_operations(
        &self,
        broker: i32,
        timeout: Duration,
    ) -> Result<Option<Operations>, AdminError> {
        let request = AdminRequest::new(self, ApiKind::RD_KAFKA_ADMIN_OP_DESCRIBECLUSTER, timeout)?;
        request.ask(broker)?;
        request.include_operations()?;
        // SAFETY: client, options and queue are alive.
        unsafe {
            sys::rd_kafka_DescribeCluster(
                self.client.native_ptr(),
                request.options(),
                request.queue(),
            );
        }
        let event = request.answer()?;
        let mut count = 0;
        // SAFETY: the event is alive; the result and its array belong to it.
        unsafe {
            let result = sys::rd_kafka_event_DescribeCluster_result(event.0.as_ptr());
            if result.is_null() {
                return Err(invalid("the answer is of another kind"));
            }
            let first =
                sys::rd_kafka_DescribeCluster_result_authorized_operations(result, &mut count);
            Ok(Operations::read(first, count))
        }
    }
}
