//! Kafka, the topics of events and the state topic.

use relay::{Case, Code};

use super::explanation::{Explanation, case_remedy};

pub(super) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: Code::KafkaUnreachable.as_str(),
        title: "Kafka cannot be reached, or does not answer",
        meaning: "No broker answers, or records wait for their acknowledgement. Nothing is \
                  confirmed meanwhile and nothing is lost; librdkafka tries again for ever.",
        remedy: "nothing is lost, and it goes on by itself; see that the brokers of \
                 kafka.bootstrap_servers are up and can be reached from here: \
                 `kafka-broker-api-versions.sh --bootstrap-server {brokers}`",
        cases: &[
            case_remedy(
                Case::BrokersSilent,
                "no broker has answered for a while",
                "nothing is lost, and it goes on by itself; see that the brokers of \
                 kafka.bootstrap_servers are up and can be reached from here: \
                 `kafka-broker-api-versions.sh --bootstrap-server {brokers}`",
            ),
            case_remedy(
                Case::ReplicasSilent,
                "records are not acknowledged",
                "nothing is lost, and it goes on by itself; see that every broker is up, and \
                 which partitions lack replicas: `kafka-topics.sh --bootstrap-server {brokers} \
                 --describe --under-replicated-partitions`",
            ),
            case_remedy(
                Case::StateTopicSilent,
                "the write to the state topic is not acknowledged",
                "see that its partition has a leader, and as many in-sync replicas as its \
                 min.insync.replicas asks for: `kafka-topics.sh --bootstrap-server {brokers} \
                 --describe --topic {topic}`",
            ),
            case_remedy(Case::ProducerReplaced, "the router's producer is being replaced", ""),
            case_remedy(
                Case::StateTopicUnread,
                "the state topic cannot be read to its end",
                "it is read again; if this stays, see the log of the partition's leader",
            ),
        ],
    },
    Explanation {
        code: Code::KafkaAuthentication.as_str(),
        title: "Kafka refuses the router's credentials, or the router the broker's certificate",
        meaning: "The TLS handshake or the SASL exchange fails. It is tried again, so the router \
                  continues by itself when the cause is gone.",
        remedy: "check security.protocol, sasl.* and ssl.* under [kafka.properties], then \
                 `outbox-router check`",
        cases: &[],
    },
    Explanation {
        code: Code::TopicMissing.as_str(),
        title: "a topic does not exist",
        meaning: "The router never lets brokers create topics by themselves, since a mistyped \
                  name would become a topic. It waits, asks again, and continues when the topic \
                  exists.",
        remedy: "`kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic} \
                 --partitions 6 --replication-factor {replication_factor}`; or set \
                 kafka.create_topics and restart; if the topic existed before: first see whether \
                 kafka.bootstrap_servers leads to the former cluster; a topic that is made again \
                 needs its former number of partitions, else keys move, and the events that the \
                 former one had are sent again by {replay_rows}",
        cases: &[case_remedy(
            Case::StateTopicMissing,
            "it is the state topic",
            "`kafka-topics.sh --bootstrap-server {brokers} --create --topic {topic} --partitions \
             1{replication_option} --config cleanup.policy=compact --config segment.bytes=4194304 \
             --config segment.ms=600000 --config min.cleanable.dirty.ratio=0.1`; but if it \
             existed before, first see whether kafka.bootstrap_servers leads to the former \
             cluster: in another one the acknowledged events are missing, too (K021); where the \
             broker refuses compaction: kafka.state_topic = \"\" keeps no witness; what happens to \
             slot, publication and cluster while no router runs is then not noticed, and \
             [retention] is refused",
        )],
    },
    Explanation {
        code: Code::TopicForbidden.as_str(),
        title: "writing to a topic is not allowed",
        meaning: "The principal lacks the operations Write and Describe on the topic. The router \
                  waits, asks again, and continues when it has them.",
        remedy: "`kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:NAME \
                 --operation Write --operation Describe --topic {topic}`",
        cases: &[case_remedy(
            Case::StateTopicForbidden,
            "it is the state topic",
            "`kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:NAME \
             --operation Read --operation Write --operation DescribeConfigs --topic {topic}`",
        )],
    },
    Explanation {
        code: Code::RecordTooLarge.as_str(),
        title: "a record is larger than the topic takes",
        meaning: "The topic's max.message.bytes is smaller than the record. The router stops at \
                  the row, asks again every 30 s, and continues when the topic takes it.",
        remedy: "`kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
                 --entity-name {topic} --add-config max.message.bytes={bytes}`",
        cases: &[
            case_remedy(
                Case::StateRecordTooLarge,
                "it is the witness, the record in the state topic",
                "`kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
                 --entity-name {topic} --add-config max.message.bytes={bytes}`; or let the \
                 publication name the outbox tables instead of FOR ALL TABLES",
            ),
            case_remedy(
                Case::LetterTooLarge,
                "it is the record that shows a dead letter",
                "`kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
                 --entity-name {topic} --delete-config max.message.bytes`; or set \
                 dead_letters.topic = \"\" and restart: `outbox-router dead-letters list` shows \
                 the same",
            ),
        ],
    },
    Explanation {
        code: Code::RecordRefused.as_str(),
        title: "the broker refuses a record",
        meaning: "A broker's rule or a topic's setting rules the record out. The router ends the \
                  session and replays; when this happens for the third time at one position, its \
                  state is failed, and it tries again every 30 s.",
        remedy: "`kafka-configs.sh --bootstrap-server {brokers} --describe --all --entity-type \
                 topics --entity-name {topic}`",
        cases: &[
            case_remedy(
                Case::RecordTooOld,
                "its timestamp is outside the topic's limits",
                "set timestamp = \"now\" in [[outbox]] and restart, or `kafka-configs.sh \
                 --bootstrap-server {brokers} --alter --entity-type topics --entity-name {topic} \
                 --add-config message.timestamp.before.max.ms=9223372036854775807` \
                 (message.timestamp.difference.max.ms before Kafka 3.6; \
                 message.timestamp.after.max.ms where the broker's clock is behind)",
            ),
            case_remedy(
                Case::LetterRefused,
                "it is the record that shows a dead letter",
                "`kafka-configs.sh --bootstrap-server {brokers} --describe --all --entity-type \
                 topics --entity-name {topic}`; or set dead_letters.topic = \"\" and restart: \
                 `outbox-router dead-letters list` shows the same",
            ),
        ],
    },
    Explanation {
        code: Code::ProducerFatal.as_str(),
        title: "the producer cannot continue",
        meaning: "librdkafka met an error after which it could not prove order or completeness. \
                  The router replaces the producer and replays from the slot.",
        remedy: "",
        cases: &[case_remedy(
            Case::ProducerSettings,
            "the producer cannot start",
            "check [kafka.properties], then `outbox-router check`",
        )],
    },
    Explanation {
        code: Code::DeliveryFailed.as_str(),
        title: "a record could not be delivered",
        meaning: "The broker's error has no code of its own here. The router ends the session and \
                  replays; when this happens for the third time at one position, its state is \
                  failed, and it tries again every 30 s.",
        remedy: "`kafka-topics.sh --bootstrap-server {brokers} --describe --topic {topic}`",
        cases: &[],
    },
    Explanation {
        code: Code::TopicShrunk.as_str(),
        title: "a topic has fewer partitions than before",
        meaning: "Kafka cannot take partitions away, so the topic was deleted and created again. \
                  What was acknowledged in the former one is gone with it. The router replays \
                  what is not confirmed; when this happens for the third time \
                  at one position, its state is failed, and it tries again every 30 s.",
        remedy: "see how many it had (/status.json, or the message) and has: `kafka-topics.sh \
                 --bootstrap-server {brokers} --describe --topic {topic}`; to keep each key in \
                 its partition, create it again with the former number; the events that the \
                 former topic had are sent again by {replay_rows}",
        cases: &[],
    },
    Explanation {
        code: Code::ClusterForbidden.as_str(),
        title: "the cluster does not allow an idempotent producer",
        meaning: "Without idempotence a retry could reorder or repeat records, so the router does \
                  not produce. It asks again and continues when it is allowed.",
        remedy: "`kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:NAME \
                 --operation IdempotentWrite --cluster`",
        cases: &[],
    },
    Explanation {
        code: Code::AckWithoutOffset.as_str(),
        title: "records were acknowledged without an offset",
        meaning: "Nothing shows that they are stored, so the router replays them.",
        remedy: "nothing, unless it repeats: it is to be expected of a topic that is deleted and \
                 created again, and where replicas went away under requests in flight; otherwise \
                 `kafka-topics.sh --bootstrap-server {brokers} --describe --topic {topic}`, and \
                 the log of the partition's leader",
        cases: &[],
    },
    Explanation {
        code: Code::StateTopicUnsuitable.as_str(),
        title: "the state topic does not keep the witness",
        meaning: "It must be a compacted topic of one partition that no event is routed to. Where \
                  it is only logged, the topic keeps the witness, but less safely than the \
                  cluster could.",
        remedy: "close the gaps that `outbox-router accept` shows, which the witness alone has; \
                 set kafka.state_topic to another name and restart (the router then begins \
                 without a witness, K022); only if this topic holds no witness of any pipeline: \
                 `kafka-topics.sh --bootstrap-server {brokers} --delete --topic {topic}`, and the \
                 router creates it again",
        cases: &[
            case_remedy(
                Case::StateTopicSettings,
                "a setting has to change",
                "if {topic} is used for nothing else: `kafka-configs.sh --bootstrap-server \
                 {brokers} --alter --entity-type topics --entity-name {topic} --add-config \
                 {settings}`",
            ),
            case_remedy(
                Case::StateTopicDeletes,
                "it is not compacted",
                "if {topic} is used for nothing else: `kafka-configs.sh --bootstrap-server \
                 {brokers} --alter --entity-type topics --entity-name {topic} --add-config \
                 {settings}`; where the broker refuses compaction: kafka.state_topic = \"\" keeps \
                 no witness; what happens to slot, publication and cluster while no router runs is \
                 then not noticed, and [retention] is refused",
            ),
            case_remedy(
                Case::StateTopicReplicas,
                "it has too few replicas",
                "`echo '{reassignment}' > state.json; kafka-reassign-partitions.sh \
                 --bootstrap-server {brokers} --reassignment-json-file state.json --execute`",
            ),
            case_remedy(
                Case::StateTopicSettingsUnknown,
                "the broker does not report its settings",
                "grant the router's principal DescribeConfigs on it (`kafka-acls.sh \
                 --bootstrap-server {brokers} --add --allow-principal User:NAME --operation \
                 DescribeConfigs --topic {topic}`), or see that cleanup.policy is compact alone: \
                 `kafka-configs.sh --bootstrap-server {brokers} --describe --all --entity-type \
                 topics --entity-name {topic}`",
            ),
            case_remedy(
                Case::WitnessUnreadable,
                "a witness in it cannot be read",
                "run the version of outbox-router that wrote it, or a later one",
            ),
        ],
    },
    Explanation {
        code: Code::ClusterChanged.as_str(),
        title: "this is another Kafka cluster",
        meaning: "The acknowledged events are in the cluster of which the witness names the id. \
                  Consumers of this one would miss them; the router stops until a person accepts \
                  that.",
        remedy: "first see whether kafka.bootstrap_servers leads to the right cluster, and accept \
                 nothing before that; if the cluster was really replaced: {accept}; then, unless \
                 the events were copied to it, {replay} sends the rows that the tables still have. \
                 [retention] keeps them until `outbox-router cleanup --older {admin}`",
        cases: &[],
    },
    Explanation {
        code: Code::WitnessMissing.as_str(),
        title: "there is no witness of this pipeline",
        meaning: "The state topic has no witness under this name, database and slot. Without \
                  one it cannot be seen what happened to the slot before. The router starts, and \
                  warns until a person accepts the beginning.",
        remedy: "compare the ids in the outbox table with the ids in the topics, and \
                 {rewrite}; then {accept}",
        cases: &[
            case_remedy(
                Case::NoStateTopic,
                "no state topic is configured",
                "{rewrite}, then set kafka.state_topic and restart the router",
            ),
            case_remedy(
                Case::NoWitness,
                "a command finds none",
                "name, database and slot are the key of a witness: see that all three are those \
                 of the router; `outbox-router setup --apply` creates the first witness, then \
                 `outbox-router accept` closes K022",
            ),
            case_remedy(
                Case::FirstWitnessUnwritten,
                "setup cannot write the first one",
                "when that is repaired: `outbox-router setup --apply` again, before the router is \
                 started; then `outbox-router accept` closes K022, since nothing says whether the \
                 slot was moved before there was a witness",
            ),
            case_remedy(
                Case::SwitchWitnessUnwritten,
                "switch stream cannot write the first one",
                "when that is repaired, type the same command again: every pending row is sent, and \
                 the witness is all that is missing",
            ),
        ],
    },
    Explanation {
        code: Code::TopicLost.as_str(),
        title: "a topic that events were sent to was deleted",
        meaning: "Kafka gives each topic an id. The one under this name has another id than the one \
                  that this pipeline has produced to, or there is none: the acknowledged events \
                  that the former one had went with it, and no slot has them any more. The router \
                  goes on, and keeps the note in the witness until a person accepts it; delivered \
                  rows are not removed meanwhile.",
        remedy: "the events that it had are sent again, as far as the tables still have their \
                 rows, by {replay_rows}; then, or if they need not be, {accept} removes this note",
        cases: &[
            case_remedy(
                Case::TopicGone,
                "the topic was not made again",
                "first see whether kafka.bootstrap_servers leads to the former cluster; if somebody \
             has deleted the topic, make it again with its former number of partitions, else keys \
             move; the events that it had are sent again, as far as the tables still have their \
             rows, by {replay_rows}; then, or if they need not be, {accept} removes this note",
            ),
            case_remedy(
                Case::KafkaTakenBack,
                "Kafka's disks were put back to a copy while a command sent rows",
                "type the command again: a back-fill begins with the first row again, and a recovery \
                 compares the topics again. What the router had produced since the copy was taken \
                 is another gap, which it finds (P014)",
            ),
        ],
    },
    Explanation {
        code: Code::TopicTimestamps.as_str(),
        title: "a topic refuses records that an outage delays, or deletes old ones",
        meaning: "Records carry the time of the commit, or of their row. After an outage they are \
                  old, and this topic refuses old records (message.timestamp.before.max.ms). One \
                  that the topic would delete within a day (retention.ms; within half of that, \
                  where it is less than two days), carries the time of sending instead, which is \
                  said of the first, and counted by commands.",
        remedy: "set timestamp = \"now\" in [[outbox]] and restart, or `kafka-configs.sh \
                 --bootstrap-server {brokers} --alter --entity-type topics --entity-name {topic} \
                 --add-config {settings}`",
        cases: &[],
    },
];
