//! One table from the error codes of librdkafka and the brokers to the router's codes and messages.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rdkafka::types::RDKafkaErrorCode as E;
use relay::{Case, Code, Failure, Name};

/// One row of the table. `{topic}`, `{brokers}` and `{reason}` in its message are filled in for
/// each failure.
struct Meaning {
    code: Code,
    errors: &'static [E],
    case: Option<Case>,
    message: &'static str,
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
        case: None,
        message: "Kafka at {brokers} cannot be reached or cannot answer: {reason}",
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
        case: None,
        message: "Kafka at {brokers} and the router do not accept each other's credentials: {reason}",
    },
    Meaning {
        code: Code::TopicMissing,
        errors: &[E::UnknownTopicOrPartition, E::UnknownTopic, E::UnknownTopicId, E::InvalidTopic],
        case: None,
        message: "topic {topic} does not exist: {reason}",
    },
    Meaning {
        code: Code::TopicForbidden,
        errors: &[E::TopicAuthorizationFailed],
        case: None,
        message: "writing to topic {topic} is not allowed: {reason}",
    },
    Meaning {
        code: Code::RecordTooLarge,
        errors: &[E::MessageSizeTooLarge, E::MessageBatchTooLarge],
        case: None,
        message: "a record is larger than topic {topic} takes: {reason}",
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
        case: None,
        message: "the broker refused a record for topic {topic}: {reason}",
    },
    Meaning {
        code: Code::RecordRefused,
        errors: &[E::InvalidTimestamp],
        case: Some(Case::RecordTooOld),
        message: "topic {topic} takes no record of this age: {reason}",
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
        case: None,
        message: "the producer had to stop: {reason}",
    },
    Meaning {
        code: Code::TopicShrunk,
        errors: &[E::UnknownPartition],
        case: None,
        message: "topic {topic} has fewer partitions than when it was looked up: {reason}",
    },
    Meaning {
        code: Code::ClusterForbidden,
        errors: &[E::ClusterAuthorizationFailed],
        case: None,
        message: "Kafka at {brokers} does not allow this principal to produce idempotently: {reason}",
    },
];

/// The row for every error that the table does not name.
const OTHERWISE: Meaning = Meaning {
    code: Code::DeliveryFailed,
    errors: &[],
    case: None,
    message: "topic {topic}: {reason}",
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
    /// The most brokers that metadata has named; zero before there was any.
    size: Arc<AtomicUsize>,
}

/// As many replicas as Kafka's documentation advises, and its internal topics have by default.
const REPLICAS: i32 = 3;

impl Cluster {
    pub(super) fn new(bootstrap_servers: &str) -> Self {
        Self { brokers: bootstrap_servers.into(), size: Arc::default() }
    }

    /// Notes how many brokers the cluster has, from metadata.
    pub(super) fn has_brokers(&self, number: usize) {
        // Metadata names the brokers that are up, so the greatest number is nearest to the truth.
        self.size.fetch_max(number, Ordering::Relaxed);
    }

    /// This replication factor, or what the cluster can give.
    pub(super) fn at_most(&self, replication_factor: i32) -> i32 {
        self.size().map_or(replication_factor, |size| replication_factor.min(size))
    }

    /// How many brokers the cluster has, as far as metadata has named them.
    fn size(&self) -> Option<i32> {
        let size = self.size.load(Ordering::Relaxed);
        (size > 0).then(|| i32::try_from(size).unwrap_or(i32::MAX))
    }

    /// The failure for an error. `detail` is librdkafka's own text; where it is empty, the error's
    /// description is used.
    pub(super) fn failure(&self, error: E, topic: Option<&str>, detail: &str) -> Failure {
        let meaning =
            MEANINGS.iter().find(|meaning| meaning.errors.contains(&error)).unwrap_or(&OTHERWISE);
        let reason = match (error, detail) {
            // librdkafka's count includes the addresses that it began with, so "0/2 brokers are
            // down" may be said of a cluster whose only broker is down.
            (E::AllBrokersDown, _) => "no broker is connected".to_owned(),
            (_, "") => error.to_string(),
            (_, detail) => without_times(detail).to_owned(),
        };
        let message = meaning
            .message
            .replace("{topic}", topic.unwrap_or("(unknown)"))
            .replace("{brokers}", &self.brokers)
            .replace("{reason}", &reason);
        self.named(Failure::new(meaning.code, message).with_case(meaning.case), topic)
    }

    /// Adds the names that remedies for Kafka contain.
    pub(super) fn named(&self, failure: Failure, topic: Option<&str>) -> Failure {
        let failure = failure.naming(Name::Brokers, &self.brokers);
        let failure = match self.size() {
            Some(size) => failure.naming(Name::ReplicationFactor, REPLICAS.min(size)),
            None => failure,
        };
        match topic {
            Some(topic) => failure.naming(Name::Topic, topic),
            None => failure,
        }
    }

    /// The failure for a success report without an offset.
    pub(super) fn ack_without_offset(&self, topic: Option<&str>) -> Failure {
        let message = format!(
            "topic {}: records were acknowledged without an offset: Kafka stored later ones and may \
             have lost these; they are replayed",
            topic.unwrap_or("(unknown)")
        );
        self.named(Failure::new(Code::AckWithoutOffset, message), topic)
    }
}

/// Without what differs at each attempt, so that the same error is the same text: librdkafka ends
/// it with `(after 3ms in state CONNECT, 2 identical error(s) suppressed)`.
fn without_times(detail: &str) -> &str {
    detail.rsplit_once(" (after ").map_or(detail, |(before, _)| before)
}

#[cfg(test)]
mod tests;
