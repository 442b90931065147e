//! One table from the error codes of librdkafka and the brokers to the router's codes, with message
//! and hint.

use rdkafka::types::RDKafkaErrorCode as E;
use relay::{Code, Failure};

/// One row of the table. `{topic}`, `{brokers}` and `{reason}` in its texts are filled in for each
/// failure.
struct Meaning {
    code: Code,
    errors: &'static [E],
    message: &'static str,
    hint: Option<&'static str>,
}

const MEANINGS: &[Meaning] = &[
    Meaning {
        code: Code::KafkaUnreachable,
        errors: &[
            E::BrokerTransportFailure,
            E::AllBrokersDown,
            E::Resolve,
            E::OperationTimedOut,
            E::TimedOutQueue,
            E::MessageTimedOut,
            E::NodeUpdate,
            E::BrokerNotAvailable,
            E::NetworkException,
            E::RequestTimedOut,
            E::LeaderNotAvailable,
            E::NotLeaderForPartition,
            E::ReplicaNotAvailable,
            E::OffsetNotAvailable,
            E::FencedLeaderEpoch,
            E::UnknownLeaderEpoch,
            E::NotEnoughReplicas,
            E::NotEnoughReplicasAfterAppend,
            E::NotController,
            E::BrokerDestroy,
            E::DestroyBroker,
            E::RebootstrapRequired,
        ],
        message: "kafka at {brokers} cannot be reached or cannot answer: {reason}",
        hint: Some(
            "check kafka.bootstrap_servers, then \
             kafka-broker-api-versions.sh --bootstrap-server {brokers}",
        ),
    },
    Meaning {
        code: Code::KafkaAuthentication,
        errors: &[
            E::SSL,
            E::Authentication,
            E::SaslAuthenticationFailed,
            E::UnsupportedSASLMechanism,
            E::IllegalSASLState,
        ],
        message: "kafka at {brokers} and the router do not accept each other's credentials: {reason}",
        hint: Some("check security.protocol, sasl.* and ssl.* under [kafka.properties]"),
    },
    Meaning {
        code: Code::TopicMissing,
        errors: &[E::UnknownTopicOrPartition, E::UnknownTopic, E::UnknownTopicId, E::InvalidTopic],
        message: "topic {topic} does not exist: {reason}",
        hint: Some(
            "kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic} \
             --partitions 6 --replication-factor 3, or set kafka.create_topics",
        ),
    },
    Meaning {
        code: Code::TopicForbidden,
        errors: &[E::TopicAuthorizationFailed],
        message: "writing to topic {topic} is not allowed: {reason}",
        hint: Some(
            "kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:NAME \
             --operation Write --operation Describe --topic {topic}",
        ),
    },
    Meaning {
        code: Code::RecordTooLarge,
        errors: &[E::MessageSizeTooLarge, E::MessageBatchTooLarge],
        message: "a record is larger than topic {topic} takes: {reason}",
        hint: Some(
            "kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
             --entity-name {topic} --add-config max.message.bytes=BYTES",
        ),
    },
    Meaning {
        code: Code::RecordRefused,
        errors: &[
            E::InvalidRecord,
            E::InvalidDifferentRecord,
            E::InvalidMessage,
            E::InvalidMessageSize,
            E::UnsupportedForMessageFormat,
            E::UnsupportedCompressionType,
            E::PolicyViolation,
        ],
        message: "the broker refused a record for topic {topic}: {reason}",
        hint: Some(
            "kafka-configs.sh --bootstrap-server {brokers} --describe --all \
             --entity-type topics --entity-name {topic}",
        ),
    },
    Meaning {
        code: Code::RecordRefused,
        errors: &[E::InvalidTimestamp],
        message: "topic {topic} takes no record of this age: {reason}",
        hint: Some(
            "set timestamp = \"now\" in [[outbox]], or \
             kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics --entity-name {topic} \
             --add-config message.timestamp.before.max.ms=9223372036854775807 \
             (message.timestamp.difference.max.ms before kafka 3.6; message.timestamp.after.max.ms where the \
             broker's clock is behind)",
        ),
    },
    Meaning {
        code: Code::ProducerFatal,
        errors: &[
            E::Fatal,
            E::GaplessGuarantee,
            E::Fenced,
            E::ProducerFenced,
            E::InvalidProducerEpoch,
            E::InvalidProducerIdMapping,
            E::OutOfOrderSequenceNumber,
            E::DuplicateSequenceNumber,
            E::UnknownProducerId,
            E::Inconsistent,
            E::State,
            E::PurgeQueue,
            E::PurgeInflight,
        ],
        message: "the producer had to stop: {reason}",
        hint: None,
    },
    Meaning {
        code: Code::TopicShrunk,
        errors: &[E::UnknownPartition],
        message: "topic {topic} has fewer partitions than when it was looked up: {reason}",
        hint: Some("kafka-topics.sh --bootstrap-server {brokers} --describe --topic {topic}"),
    },
    Meaning {
        code: Code::ClusterForbidden,
        errors: &[E::ClusterAuthorizationFailed],
        message: "kafka at {brokers} does not allow this principal to produce idempotently: {reason}",
        hint: Some(
            "kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:NAME \
             --operation IdempotentWrite --cluster",
        ),
    },
];

/// The row for every error that the table does not name.
const OTHERWISE: Meaning = Meaning {
    code: Code::DeliveryFailed,
    errors: &[],
    message: "topic {topic}: {reason}",
    hint: Some("kafka-topics.sh --bootstrap-server {brokers} --describe --topic {topic}"),
};

/// Errors that a record reports because another record failed.
const COLLATERAL: &[E] =
    &[E::PurgeQueue, E::PurgeInflight, E::InvalidDifferentRecord, E::Fatal, E::GaplessGuarantee];

/// Whether a record with this error failed only because another record did.
pub(super) fn is_collateral(error: E) -> bool {
    COLLATERAL.contains(&error)
}

/// The cluster as messages name it: the argument of `--bootstrap-server`.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    brokers: Box<str>,
}

impl Cluster {
    pub(super) fn new(bootstrap_servers: &str) -> Self {
        Self { brokers: bootstrap_servers.into() }
    }

    /// The argument of `--bootstrap-server`.
    pub(super) fn brokers(&self) -> &str {
        &self.brokers
    }

    /// The failure for an error. `detail` is librdkafka's own text; where it is empty, the error's
    /// description is used.
    pub(super) fn failure(&self, error: E, topic: Option<&str>, detail: &str) -> Failure {
        let meaning =
            MEANINGS.iter().find(|meaning| meaning.errors.contains(&error)).unwrap_or(&OTHERWISE);
        let reason = match detail {
            "" => error.to_string(),
            detail => detail.to_owned(),
        };
        let fill = |text: &str, unknown: &str| {
            text.replace("{topic}", topic.unwrap_or(unknown))
                .replace("{brokers}", &self.brokers)
                .replace("{reason}", &reason)
        };
        let failure = Failure::new(meaning.code, fill(meaning.message, "(unknown)"));
        match meaning.hint {
            Some(hint) => failure.hint(fill(hint, "TOPIC")),
            None => failure,
        }
    }

    /// The failure for a success report without an offset.
    pub(super) fn ack_without_offset(&self, topic: Option<&str>) -> Failure {
        let (topic, brokers) = (topic.unwrap_or("(unknown)"), &self.brokers);
        let message = format!(
            "topic {topic}: records were acknowledged without an offset: kafka stored later ones and may have lost these; \
             they are replayed"
        );
        Failure::new(Code::AckWithoutOffset, message).hint(format!(
            "to be expected of a topic that is deleted and made again, and where replicas went away under requests in flight; \
             otherwise kafka-topics.sh --bootstrap-server {brokers} --describe --topic {topic}, and the log of the \
             partition's leader"
        ))
    }
}

#[cfg(test)]
mod tests;
