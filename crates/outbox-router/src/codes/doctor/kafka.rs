//! Advice about Kafka's brokers and topics.

use super::Advice;
use crate::codes::explanation::Explanation;

pub(in crate::codes) const EXPLANATIONS: &[Explanation] = &[
    Explanation {
        code: Advice::NoTopicYet.as_str(),
        title: "no topic of a template exists, and the router creates none",
        meaning: "The router never lets brokers create topics by themselves. The first event will \
                  wait until its topic exists (K010).",
        remedy: "`kafka-topics.sh --bootstrap-server {brokers} --create --topic TOPIC \
                 --partitions 6 --replication-factor {replication_factor}`, for each aggregate \
                 type; or set kafka.create_topics",
        cases: &[],
    },
    Explanation {
        code: Advice::OneReplica.as_str(),
        title: "a topic has one replica on a cluster of several brokers",
        meaning: "When that broker is down, nothing goes on; when it is lost, so are the events \
                  that PostgreSQL knows as delivered already.",
        remedy: "`echo '{reassignment}' > topic.json; kafka-reassign-partitions.sh \
                 --bootstrap-server {brokers} --reassignment-json-file topic.json --execute`",
        cases: &[],
    },
    Explanation {
        code: Advice::InSyncReplicas.as_str(),
        title: "min.insync.replicas does not suit the number of replicas",
        meaning: "The router asks for acks=all. Above the number of replicas no record is ever \
                  acknowledged; equal to it, one broker that restarts stops all delivery; with 1 \
                  of three, what a single broker has acknowledged is lost with it.",
        remedy: "`kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
                 --entity-name {topic} --add-config {settings}`",
        cases: &[],
    },
    Explanation {
        code: Advice::EventsCompacted.as_str(),
        title: "a topic of events is compacted",
        meaning: "Only the last event of each key stays, and an event without a key is refused \
                  (K013).",
        remedy: "`kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
                 --entity-name {topic} --add-config cleanup.policy=delete`",
        cases: &[],
    },
    Explanation {
        code: Advice::RecordLimit.as_str(),
        title: "a topic takes smaller records than a row may give",
        meaning: "A row whose record is larger cannot be delivered (K012), although \
                  limits.row_bytes allows it. Where rows come from a slot, the router stops there. \
                  Where they are polled, the row is tried again as [retry] says, and abandoned \
                  where [on_error] says so; meanwhile the later rows of its key wait.",
        remedy: "`kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics \
                 --entity-name {topic} --add-config max.message.bytes={bytes}`; or lower \
                 limits.row_bytes",
        cases: &[],
    },
    Explanation {
        code: Advice::NoLeader.as_str(),
        title: "a partition has no leader",
        meaning: "Events of its keys are not acknowledged, and soon all others wait behind them. \
                  Without a leader of the state topic, where rows come from a slot, the witness \
                  can be neither read nor written, and no router starts.",
        remedy: "`kafka-topics.sh --bootstrap-server {brokers} --describe --topic {topic}` names \
                 its brokers: start them",
        cases: &[],
    },
    Explanation {
        code: Advice::SettingsUnknown.as_str(),
        title: "the broker does not tell a topic's settings",
        meaning: "The principal lacks the operation DescribeConfigs. The router works without it, \
                  but learns max.message.bytes from a refused record, and what depends on settings \
                  is not checked.",
        remedy: "`kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:NAME \
                 --operation DescribeConfigs --topic {topic}`",
        cases: &[],
    },
    Explanation {
        code: Advice::CreateForbidden.as_str(),
        title: "the router may not create topics, although it is to",
        meaning: "kafka.create_topics is set, and the principal lacks the operation Create on the \
                  cluster. Unless it is granted for the names of the topics, the first event of a \
                  new aggregate type waits for a person (K010).",
        remedy: "`kafka-acls.sh --bootstrap-server {brokers} --add --allow-principal User:NAME \
                 --operation Create --cluster`; or, with --topic PREFIX --resource-pattern-type \
                 prefixed, for some names alone",
        cases: &[],
    },
    Explanation {
        code: Advice::TooFewBrokers.as_str(),
        title: "the configured replication factor exceeds the cluster",
        meaning: "The cluster cannot create a topic as kafka.create_topics says, so the first \
                  event of a new aggregate type waits for a person (K010).",
        remedy: "set kafka.create_topics.replication_factor to {replication_factor}, or start more \
                 brokers",
        cases: &[],
    },
];
