//! Every error of librdkafka and the brokers, and the router's code for it.

use crate::codes::hint;
use rdkafka::types::RDKafkaRespErr;

use super::*;

/// Written by hand and not derived from the table, so that moving an error to another code takes
/// two edits. An error that a newer librdkafka adds fails the test until it is placed.
const MEANT: &[(Code, &[E])] = &[
    (
        Code::KafkaUnreachable,
        &[
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
    ),
    (
        Code::KafkaAuthentication,
        &[
            E::SSL,
            E::Authentication,
            E::SaslAuthenticationFailed,
            E::UnsupportedSASLMechanism,
            E::IllegalSASLState,
        ],
    ),
    (
        Code::TopicMissing,
        &[E::UnknownTopicOrPartition, E::UnknownTopic, E::UnknownTopicId, E::InvalidTopic],
    ),
    (Code::TopicForbidden, &[E::TopicAuthorizationFailed]),
    (Code::RecordTooLarge, &[E::MessageSizeTooLarge, E::MessageBatchTooLarge]),
    (
        Code::RecordRefused,
        &[
            E::InvalidRecord,
            E::InvalidDifferentRecord,
            E::InvalidTimestamp,
            E::InvalidMessage,
            E::InvalidMessageSize,
            E::UnsupportedForMessageFormat,
            E::UnsupportedCompressionType,
            E::PolicyViolation,
        ],
    ),
    (
        Code::ProducerFatal,
        &[
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
    ),
    (Code::TopicShrunk, &[E::UnknownPartition]),
    (Code::ClusterForbidden, &[E::ClusterAuthorizationFailed]),
    (Code::DeliveryFailed, OTHERS),
];

/// Errors of consumers, groups, transactions, tokens and administration, which a producer does not
/// meet; and errors too general for a code of their own, where the message has only the topic and
/// the broker's text.
const OTHERS: &[E] = &[
    E::BadMessage,
    E::BadCompression,
    E::Fail,
    E::CriticalSystemResource,
    E::PartitionEOF,
    E::FileSystem,
    E::InvalidArgument,
    E::QueueFull,
    E::ISRInsufficient,
    E::WaitingForCoordinator,
    E::UnknownGroup,
    E::InProgress,
    E::PreviousInProgress,
    E::ExistingSubscription,
    E::AssignPartitions,
    E::RevokePartitions,
    E::Conflict,
    E::UnknownProtocol,
    E::NotImplemented,
    E::NoOffset,
    E::Outdated,
    E::UnsupportedFeature,
    E::WaitCache,
    E::Interrupted,
    E::KeySerialization,
    E::ValueSerialization,
    E::KeyDeserialization,
    E::ValueDeserialization,
    E::Partial,
    E::ReadOnly,
    E::NoEnt,
    E::Underflow,
    E::InvalidType,
    E::Retry,
    E::PollExceeded,
    E::UnknownBroker,
    E::NotConfigured,
    E::Application,
    E::AssignmentLost,
    E::Noop,
    E::AutoOffsetReset,
    E::LogTruncation,
    E::Unknown,
    E::OffsetOutOfRange,
    E::StaleControllerEpoch,
    E::OffsetMetadataTooLarge,
    E::CoordinatorLoadInProgress,
    E::CoordinatorNotAvailable,
    E::NotCoordinator,
    E::InvalidRequiredAcks,
    E::IllegalGeneration,
    E::InconsistentGroupProtocol,
    E::InvalidGroupId,
    E::UnknownMemberId,
    E::InvalidSessionTimeout,
    E::RebalanceInProgress,
    E::InvalidCommitOffsetSize,
    E::GroupAuthorizationFailed,
    E::UnsupportedVersion,
    E::TopicAlreadyExists,
    E::InvalidPartitions,
    E::InvalidReplicationFactor,
    E::InvalidReplicaAssignment,
    E::InvalidConfig,
    E::InvalidRequest,
    E::InvalidTransactionalState,
    E::InvalidTransactionTimeout,
    E::ConcurrentTransactions,
    E::TransactionCoordinatorFenced,
    E::TransactionalIdAuthorizationFailed,
    E::SecurityDisabled,
    E::OperationNotAttempted,
    E::KafkaStorageError,
    E::LogDirNotFound,
    E::ReassignmentInProgress,
    E::DelegationTokenAuthDisabled,
    E::DelegationTokenNotFound,
    E::DelegationTokenOwnerMismatch,
    E::DelegationTokenRequestNotAllowed,
    E::DelegationTokenAuthorizationFailed,
    E::DelegationTokenExpired,
    E::InvalidPrincipalType,
    E::NonEmptyGroup,
    E::GroupIdNotFound,
    E::FetchSessionIdNotFound,
    E::InvalidFetchSessionEpoch,
    E::ListenerNotFound,
    E::TopicDeletionDisabled,
    E::StaleBrokerEpoch,
    E::MemberIdRequired,
    E::PreferredLeaderNotAvailable,
    E::GroupMaxSizeReached,
    E::FencedInstanceId,
    E::EligibleLeadersNotAvailable,
    E::ElectionNotNeeded,
    E::NoReassignmentInProgress,
    E::GroupSubscribedToTopic,
    E::UnstableOffsetCommit,
    E::ThrottlingQuotaExceeded,
    E::ResourceNotFound,
    E::DuplicateResource,
    E::UnacceptableCredential,
    E::InconsistentVoterSet,
    E::InvalidUpdateVersion,
    E::FeatureUpdateFailed,
    E::PrincipalDeserializationFailure,
    E::FencedMemberEpoch,
    E::UnreleasedInstanceId,
    E::UnsupportedAssignor,
    E::StaleMemberEpoch,
    E::UnknownSubscriptionId,
    E::TelemetryTooLarge,
];

/// Every error code there is.
fn all() -> Vec<E> {
    (-1_000..=1_000)
        .filter(|raw| *raw != 0)
        .filter_map(|raw| RDKafkaRespErr::try_from(raw).ok())
        .map(E::from)
        // Markers of the enumeration, not errors.
        .filter(|error| !matches!(error, E::Begin | E::End | E::EndAll))
        .collect()
}

#[test]
fn every_error_has_the_code_that_it_is_meant_to_have() {
    let cluster = Cluster::new("kafka:9092");
    let meant = |error: &E| {
        let mut codes = MEANT.iter().filter(|(_, errors)| errors.contains(error));
        let code = codes.next().map(|(code, _)| *code);
        assert!(codes.next().is_none(), "{error:?} is listed twice");
        code
    };
    let unlisted: Vec<_> = all().into_iter().filter(|error| meant(error).is_none()).collect();
    assert!(unlisted.is_empty(), "errors that nobody has thought about: {unlisted:?}");
    for error in all() {
        let failure = cluster.failure(error, Some("orders"), "");
        assert_eq!(Some(failure.code), meant(&error), "{error:?}");
    }
}

#[test]
fn no_error_has_two_meanings() {
    let mut seen = Vec::new();
    for error in MEANINGS.iter().flat_map(|meaning| meaning.errors) {
        assert!(!seen.contains(error), "{error:?}");
        seen.push(*error);
    }
}

#[test]
fn a_failure_names_the_topic_and_the_remedy() {
    let failure = Cluster::new("kafka:9092").failure(
        E::TopicAuthorizationFailed,
        Some("outbox.event.Order"),
        "",
    );
    assert_eq!(failure.code, Code::TopicForbidden);
    assert!(failure.message.contains("topic outbox.event.Order"), "{failure}");
    let remedy = hint(&failure).unwrap();
    assert!(remedy.contains("--bootstrap-server kafka:9092"), "{remedy}");
    assert!(remedy.ends_with("--topic outbox.event.Order"), "{remedy}");
}

#[test]
fn an_unlisted_error_is_a_failed_delivery_with_its_reason() {
    let failure = Cluster::new("k:1").failure(E::KafkaStorageError, Some("t"), "disk on fire");
    assert_eq!(failure.code, Code::DeliveryFailed);
    assert!(failure.message.ends_with("disk on fire"), "{failure}");
}

#[test]
fn a_connection_error_is_told_without_what_differs_at_each_attempt() {
    let cluster = Cluster::new("k:1");
    let said = "k:1/bootstrap: Connect to ipv4#10.0.0.1:1 failed: Connection refused (after 3ms in \
                state CONNECT, 2 identical error(s) suppressed)";
    let failure = cluster.failure(E::BrokerTransportFailure, None, said);
    assert!(failure.message.ends_with("failed: Connection refused"), "{failure}");
    let down = cluster.failure(E::AllBrokersDown, None, "0/2 brokers are down");
    assert!(down.message.ends_with("no broker is connected"), "{down}");
    let hint = hint(&down).unwrap();
    assert!(hint.starts_with("nothing is lost, and it goes on by itself"), "{hint}");
}
