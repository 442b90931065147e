//! Admin requests on the producer's own client; they block. A second client would cost threads,
//! connections and TLS handshakes of its own, for two requests that are made once per topic.

use std::{
    ffi::{CStr, CString, c_char, c_int},
    ptr::NonNull,
    time::Duration,
};

use rdkafka::types::RDKafkaErrorCode;
use rdkafka_sys as sys;
use relay::TopicName;
use sys::rd_kafka_admin_op_t as ApiKind;

use super::{
    events::{NativeEvent, error_code, text_of},
    producer::Producer,
    raw,
};

/// A topic to create.
pub(in super::super) struct NewTopic<'t> {
    pub(in super::super) name: &'t TopicName,
    pub(in super::super) partitions: c_int,
    /// -1 uses the brokers' `default.replication.factor` (KIP-464, from Kafka 2.4 on).
    pub(in super::super) replication_factor: c_int,
    pub(in super::super) settings: &'t [(&'t str, &'t str)],
}

/// Why an admin request failed, with the text of the broker or of librdkafka.
#[derive(Debug)]
pub(in super::super) struct AdminError {
    pub(in super::super) code: RDKafkaErrorCode,
    pub(in super::super) text: String,
}

impl Producer {
    /// Asks the controller to create a topic, and waits for the answer.
    pub(in super::super) fn create_topic(
        &self,
        topic: &NewTopic<'_>,
        timeout: Duration,
    ) -> Result<(), AdminError> {
        let request = AdminRequest::new(self, ApiKind::RD_KAFKA_ADMIN_OP_CREATETOPICS, timeout)?;
        let topic = NativeTopic::of(topic)?;
        let mut topics = [topic.0.as_ptr()];
        // SAFETY: client, options and queue are alive, `topics` has one element; all of it is
        // copied.
        unsafe {
            sys::rd_kafka_CreateTopics(
                self.client.native_ptr(),
                topics.as_mut_ptr(),
                topics.len(),
                request.options.as_ptr(),
                request.queue.as_ptr(),
            );
        }
        let event = request.answer()?;
        let mut count = 0;
        // SAFETY: the event is alive; the result and its array are part of it, `count` says how
        // many there are.
        unsafe {
            let result = sys::rd_kafka_event_CreateTopics_result(event.0.as_ptr());
            if result.is_null() {
                return Err(invalid("the answer is of another kind"));
            }
            let results = sys::rd_kafka_CreateTopics_result_topics(result, &mut count);
            if count == 0 {
                return Err(invalid("the answer names no topic"));
            }
            let topic = results.read();
            match error_code(raw::rd_kafka_topic_result_error(topic)) {
                None => Ok(()),
                Some(code) => Err(AdminError {
                    code,
                    text: text_of(sys::rd_kafka_topic_result_error_string(topic)),
                }),
            }
        }
    }

    /// The values of some of a topic's settings, as `broker` has them; `None` for a setting that
    /// the broker does not name. By default librdkafka would ask the controller, which may be
    /// missing at the moment; every broker knows the settings.
    pub(in super::super) fn topic_settings<const N: usize>(
        &self,
        name: &TopicName,
        settings: [&CStr; N],
        broker: i32,
        timeout: Duration,
    ) -> Result<[Option<String>; N], AdminError> {
        let request = AdminRequest::new(self, ApiKind::RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeout)?;
        request.ask(broker)?;
        let name = c_string(name.as_str())?;
        // SAFETY: `name` ends with NUL and is copied.
        let resource = unsafe {
            sys::rd_kafka_ConfigResource_new(
                sys::rd_kafka_ResourceType_t::RD_KAFKA_RESOURCE_TOPIC,
                name.as_ptr(),
            )
        };
        let Some(resource) = NonNull::new(resource) else {
            return Err(invalid("no such resource"));
        };
        let mut resources = [resource.as_ptr()];
        // SAFETY: client, options and queue are alive, `resources` has one element; all is copied,
        // then it is freed.
        unsafe {
            sys::rd_kafka_DescribeConfigs(
                self.client.native_ptr(),
                resources.as_mut_ptr(),
                resources.len(),
                request.options.as_ptr(),
                request.queue.as_ptr(),
            );
            sys::rd_kafka_ConfigResource_destroy(resource.as_ptr());
        }
        let event = request.answer()?;
        find_settings(&event, settings)
    }
}

fn find_settings<const N: usize>(
    event: &NativeEvent,
    settings: [&CStr; N],
) -> Result<[Option<String>; N], AdminError> {
    let mut found = [const { None }; N];
    let (mut count, mut entries) = (0, 0);
    // SAFETY: the event is alive; the result, its resources, their entries and texts are parts of
    // it, and the counts say how many there are.
    unsafe {
        let result = sys::rd_kafka_event_DescribeConfigs_result(event.0.as_ptr());
        if result.is_null() {
            return Err(invalid("the answer is of another kind"));
        }
        let resources = sys::rd_kafka_DescribeConfigs_result_resources(result, &mut count);
        if count == 0 {
            return Err(invalid("the answer names no topic"));
        }
        let resource = resources.read();
        if let Some(code) = error_code(raw::rd_kafka_ConfigResource_error(resource)) {
            let text = text_of(sys::rd_kafka_ConfigResource_error_string(resource));
            return Err(AdminError { code, text });
        }
        let first = sys::rd_kafka_ConfigResource_configs(resource, &mut entries);
        for index in 0..entries {
            let entry = first.add(index).read();
            let name = CStr::from_ptr(sys::rd_kafka_ConfigEntry_name(entry));
            for (value, _) in found.iter_mut().zip(settings).filter(|(_, asked)| *asked == name) {
                *value = Some(text_of(sys::rd_kafka_ConfigEntry_value(entry)));
            }
        }
    }
    Ok(found)
}

struct NativeTopic(NonNull<sys::rd_kafka_NewTopic_t>);

impl NativeTopic {
    fn of(topic: &NewTopic<'_>) -> Result<Self, AdminError> {
        let name = c_string(topic.name.as_str())?;
        let mut text = [0; 256];
        // SAFETY: `name` ends with NUL and is copied; `text` is writable for its length.
        let native = unsafe {
            sys::rd_kafka_NewTopic_new(
                name.as_ptr(),
                topic.partitions,
                topic.replication_factor,
                text.as_mut_ptr(),
                text.len(),
            )
        };
        let Some(native) = NonNull::new(native).map(Self) else {
            // SAFETY: on failure `text` holds the reason, ended with NUL.
            return Err(invalid(&unsafe { text_of(text.as_ptr()) }));
        };
        for (name, value) in topic.settings {
            let (name, value) = (c_string(name)?, c_string(value)?);
            // SAFETY: the topic is alive; both texts end with NUL and are copied. The only error is
            // an empty name.
            unsafe {
                sys::rd_kafka_NewTopic_set_config(native.0.as_ptr(), name.as_ptr(), value.as_ptr());
            }
        }
        Ok(native)
    }
}

impl Drop for NativeTopic {
    fn drop(&mut self) {
        // SAFETY: made by `of`, destroyed once; the request that used it has copied it.
        unsafe { sys::rd_kafka_NewTopic_destroy(self.0.as_ptr()) };
    }
}

/// The options of one request, and the queue that receives its answer.
pub(super) struct AdminRequest {
    options: NonNull<sys::rd_kafka_AdminOptions_t>,
    queue: NonNull<sys::rd_kafka_queue_t>,
    timeout_ms: c_int,
}

impl AdminRequest {
    pub(super) fn new(
        producer: &Producer,
        operation: ApiKind,
        timeout: Duration,
    ) -> Result<Self, AdminError> {
        let timeout_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        let client = producer.client.native_ptr();
        // SAFETY: the client is alive.
        let (options, queue) = unsafe {
            (sys::rd_kafka_AdminOptions_new(client, operation), sys::rd_kafka_queue_new(client))
        };
        let (Some(options), Some(queue)) = (NonNull::new(options), NonNull::new(queue)) else {
            return Err(invalid("librdkafka has no such request"));
        };
        let request = Self { options, queue, timeout_ms };
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: the options are alive; `text` is writable for its length. If the call fails, the
        // default timeout stays.
        unsafe {
            sys::rd_kafka_AdminOptions_set_request_timeout(
                request.options.as_ptr(),
                timeout_ms,
                text.as_mut_ptr(),
                text.len(),
            );
        }
        Ok(request)
    }

    pub(super) fn options(&self) -> *mut sys::rd_kafka_AdminOptions_t {
        self.options.as_ptr()
    }

    pub(super) fn queue(&self) -> *mut sys::rd_kafka_queue_t {
        self.queue.as_ptr()
    }

    /// Sends the request to `broker` instead of the controller.
    pub(super) fn ask(&self, broker: i32) -> Result<(), AdminError> {
        let mut text: [c_char; 256] = [0; 256];
        // SAFETY: the options are alive; `text` is writable for its length and, on failure, ended
        // with NUL.
        unsafe {
            let outcome = sys::rd_kafka_AdminOptions_set_broker(
                self.options.as_ptr(),
                broker,
                text.as_mut_ptr(),
                text.len(),
            );
            if outcome == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                Ok(())
            } else {
                Err(invalid(&text_of(text.as_ptr())))
            }
        }
    }

    /// Lets the answer say what the principal is allowed.
    pub(super) fn include_operations(&self) -> Result<(), AdminError> {
        // SAFETY: the options are alive. What is returned is null or an error that is ours to free.
        let refused = unsafe {
            let error =
                sys::rd_kafka_AdminOptions_set_include_authorized_operations(self.options(), 1);
            if !error.is_null() {
                sys::rd_kafka_error_destroy(error);
            }
            !error.is_null()
        };
        if refused { Err(invalid("librdkafka has no such option")) } else { Ok(()) }
    }

    /// Waits for the answer, one second longer than librdkafka itself does.
    pub(super) fn answer(&self) -> Result<NativeEvent, AdminError> {
        let wait_ms = self.timeout_ms.saturating_add(1_000);
        // SAFETY: the queue is alive.
        let event = unsafe { sys::rd_kafka_queue_poll(self.queue.as_ptr(), wait_ms) };
        let Some(event) = NonNull::new(event).map(NativeEvent) else {
            return Err(AdminError {
                code: RDKafkaErrorCode::OperationTimedOut,
                text: "no answer to an admin request".to_owned(),
            });
        };
        match event.error() {
            None => Ok(event),
            Some(code) => {
                // SAFETY: the event is alive, its text lives as long as it does.
                let text = unsafe { text_of(sys::rd_kafka_event_error_string(event.0.as_ptr())) };
                Err(AdminError { code, text })
            }
        }
    }
}

impl Drop for AdminRequest {
    fn drop(&mut self) {
        // SAFETY: both were made in `new` and are returned once. An answer that comes later finds
        // the queue disabled.
        unsafe {
            sys::rd_kafka_AdminOptions_destroy(self.options.as_ptr());
            sys::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

pub(super) fn c_string(text: &str) -> Result<CString, AdminError> {
    CString::new(text).map_err(|_| invalid("a name contains NUL"))
}

pub(super) fn invalid(text: &str) -> AdminError {
    AdminError { code: RDKafkaErrorCode::InvalidArgument, text: text.to_owned() }
}
