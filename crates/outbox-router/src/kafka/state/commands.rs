//! Access to the state topic for commands, which have no sink: each call makes a client of its own.

use std::{sync::Arc, thread, time::Duration};

use rdkafka::types::RDKafkaErrorCode;
use relay::{Failure, Record, TopicName};
use tokio::time::Instant;

use super::{PARTITION, StateTopic};
use crate::{
    kafka::{
        errors::is_collateral,
        ffi::{
            ClientError, Delivery, Events, NativeHeaders, OutgoingRecord, Producer, Report, Served,
            Severity, TopicHandle,
        },
        health::{ClientErrors, Health},
        lifecycle::command_client,
        log,
        settings::KafkaSettings,
    },
    warning::warn,
};

/// How long the acknowledgement of one record may take, including the leader election of a new
/// partition.
const ACK_WITHIN: Duration = Duration::from_secs(15);
/// The wait between two polls for the acknowledgement.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Writes records (key and value; no value deletes the key) one after the other, and returns when
/// all are acknowledged. Creates the topic if it is missing.
///
/// # Errors
/// As [`StateTopic::open`], or the producer cannot start, or a record was not acknowledged; then
/// those after it were not written.
pub fn put_state(
    settings: &KafkaSettings,
    name: &TopicName,
    records: &[(Vec<u8>, Option<Vec<u8>>)],
) -> Result<(), Failure> {
    let topic = command_state_topic(settings, name)?;
    topic.open()?.iter().for_each(warn);
    let producer = topic.topic_client.producer();
    let handle =
        producer.topic(name).ok_or_else(|| topic.failure(RDKafkaErrorCode::InvalidTopic, ""))?;
    let mut writer = Writer::new(&topic, handle);
    let written =
        records.iter().try_for_each(|(key, value)| writer.write(producer, key, value.as_deref()));
    // Otherwise destroying the producer would wait for what is still in flight.
    producer.purge();
    written
}

/// The state topic for a command. It need not exist.
///
/// # Errors
/// The producer cannot start.
pub fn command_state_topic(
    settings: &KafkaSettings,
    name: &TopicName,
) -> Result<StateTopic, Failure> {
    let (producer, cluster) = command_client(settings)?;
    Ok(StateTopic::new(producer, cluster, settings, name.clone()))
}

/// Writes one record at a time, so that no record can overtake an earlier one while the partition
/// holds no state of the producer.
struct Writer<'t> {
    topic: &'t StateTopic,
    handle: TopicHandle,
    client_errors: ClientErrors,
    /// The outcome of the record in flight, once it is known.
    outcome: Option<Result<(), Failure>>,
}

impl<'t> Writer<'t> {
    fn new(topic: &'t StateTopic, handle: TopicHandle) -> Self {
        Self { topic, handle, client_errors: ClientErrors::default(), outcome: None }
    }

    fn write(
        &mut self,
        producer: &Arc<Producer>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Failure> {
        let message =
            OutgoingRecord { partition: PARTITION, key, value, timestamp_ms: Record::NOW };
        producer
            .enqueue(&self.handle, &message, NativeHeaders::none(), 0)
            .map_err(|error| self.failed(error))?;
        let deadline = Instant::now() + ACK_WITHIN;
        loop {
            while producer.serve(self) == Served::One {}
            if let Some(outcome) = self.outcome.take() {
                return outcome;
            }
            if Instant::now() >= deadline {
                return Err(self.unanswered());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Why a record failed: by its own error, or by that which stopped the producer, if the record
    /// failed only because of that.
    fn failed(&self, error: RDKafkaErrorCode) -> Failure {
        self.stopped()
            .filter(|_| is_collateral(error))
            .unwrap_or_else(|| self.topic.failure(error, ""))
    }

    /// Why the producer has stopped for good, if it has.
    fn stopped(&self) -> Option<Failure> {
        let (error, text) = self.topic.topic_client.producer().client().fatal_error()?;
        Some(self.topic.failure(error, &text))
    }

    fn unanswered(&mut self) -> Failure {
        if let Some(stopped) = self.stopped() {
            return stopped;
        }
        let failure = self
            .topic
            .failure(RDKafkaErrorCode::OperationTimedOut, "a record was not acknowledged");
        self.client_errors.unanswered(failure.clone());
        match self.client_errors.health() {
            Health::Down(reason) => reason.clone(),
            Health::Well | Health::Suspect => failure,
        }
    }
}

impl Events for Writer<'_> {
    fn report(&mut self, report: Report) {
        self.outcome = Some(match report.delivery {
            Delivery::Stored { .. } => Ok(()),
            Delivery::Inferred => {
                let name = Some(self.topic.name.as_str());
                Err(self.topic.topic_client.cluster().ack_without_offset(name))
            }
            Delivery::Failed(error) => Err(self.failed(error)),
        });
    }

    /// A fatal error is no outcome: where a refused batch is its cause, librdkafka queues it just
    /// before the report of that batch, which says why (`rd_kafka_handle_Produce_error`). And it
    /// reports every record that it drops.
    fn client_error(&mut self, error: ClientError) {
        match error.severity {
            Severity::Fatal => {}
            Severity::Transient => {
                let failure = self.topic.failure(error.code, &error.text);
                self.client_errors.add(error.code, failure);
            }
        }
    }

    fn log(&mut self, level: i32, facility: &str, text: &str) {
        log::write(level, facility, text);
    }
}

#[cfg(test)]
mod tests {
    use relay::Code;

    use super::*;

    /// Of a cluster that nobody reaches: librdkafka connects in the background.
    fn unreachable() -> KafkaSettings {
        KafkaSettings {
            client_id: "test".into(),
            bootstrap_servers: "127.0.0.1:1".into(),
            properties: std::collections::BTreeMap::new(),
            timestamp: relay::Timestamp::Commit,
            create_topics: None,
            window_bytes: 32 << 20,
            row_bytes: 1 << 20,
            statistics: None,
            give_up_after: None,
        }
    }

    /// librdkafka queues the fatal error before the report of the batch that caused it, and the
    /// queue may be read between the two.
    #[test]
    fn the_report_and_not_the_fatal_error_before_it_says_why_a_record_failed() {
        let topic = command_state_topic(&unreachable(), &TopicName::new("s").unwrap()).unwrap();
        let handle = topic.topic_client.producer().topic(&topic.name).unwrap();
        let address = handle.address();
        let mut writer = Writer::new(&topic, handle);
        writer.client_error(ClientError {
            code: RDKafkaErrorCode::Fatal,
            text: "unable to satisfy gap-less guarantee".to_owned(),
            severity: Severity::Fatal,
        });
        assert_eq!(writer.outcome, None, "the report is still to come");
        writer.report(Report {
            opaque: 0,
            topic: address,
            partition: PARTITION,
            delivery: Delivery::Failed(RDKafkaErrorCode::MessageSizeTooLarge),
        });
        let failure = writer.outcome.unwrap().unwrap_err();
        assert_eq!(failure.code, Code::RecordTooLarge, "{failure}");
    }
}
