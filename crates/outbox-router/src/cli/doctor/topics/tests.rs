use super::*;
use crate::{
    cli::doctor::samples::{codes, kafka, topic, topic_name, with_topic},
    config::CreateTopics,
    kafka::{Operations, StateTopicInspected},
};

const BROKERS: [i32; 3] = [1, 2, 3];

fn judged(judge: fn(&Described<'_>) -> Vec<Finding>, found: TopicInspected) -> Vec<Finding> {
    of_each(&with_topic(found, BROKERS.to_vec()), judge)
}

#[test]
fn a_topic_as_it_should_be_gives_no_cause() {
    for judge in [permissions, replicas, compacted, timestamps] {
        assert!(judged(judge, topic()).is_empty());
    }
    let facts = with_topic(topic(), BROKERS.to_vec());
    assert!(existence(&facts).is_empty() && record_limit(&facts).is_empty());
    assert!(leaders(&facts).is_empty());
}

#[test]
fn a_topic_that_is_missing_has_the_code_of_run_unless_run_creates_it() {
    let missing = || TopicReading {
        name: topic_name("orders"),
        found: Err(Failure::new(Code::TopicMissing, "topic orders does not exist")),
    };
    let facts = KafkaFacts { topics: vec![missing()], ..kafka() };
    assert_eq!(codes(&existence(&facts)), ["K010"]);
    let create = Some(CreateTopics { partitions: 6, replication_factor: 1 });
    assert!(existence(&KafkaFacts { create, ..facts }).is_empty());
}

#[test]
fn a_template_without_a_topic_is_noted_unless_run_creates_them() {
    let template = |has_topic| vec![("outbox.event.${aggregate_type}".to_owned(), has_topic)];
    let facts = KafkaFacts { templates: template(false), ..kafka() };
    let found = existence(&facts);
    assert_eq!((codes(&found), found[0].severity), (vec!["D030"], Severity::Note));
    let create = Some(CreateTopics { partitions: 6, replication_factor: 1 });
    assert!(existence(&KafkaFacts { create, ..facts }).is_empty());
    assert!(existence(&KafkaFacts { templates: template(true), ..kafka() }).is_empty());
}

#[test]
fn a_topic_has_to_be_written_and_its_settings_read() {
    let with = |operations: &[Operation]| {
        let mut facts = with_topic(topic(), vec![1]);
        facts.operations.insert("orders".to_owned(), Operations::of(operations));
        of_each(&facts, permissions)
    };
    let found = with(&[Operation::Describe, Operation::DescribeConfigs]);
    assert_eq!(codes(&found), ["K011"]);
    let remedy = found[0].remedy.as_deref().unwrap();
    assert!(remedy.contains("--bootstrap-server kafka:9092 --add"), "{remedy}");
    assert!(remedy.ends_with("--topic orders"), "{remedy}");
    assert_eq!(codes(&with(&[Operation::Write])), ["D036"]);
    assert!(with(&[Operation::Write, Operation::DescribeConfigs]).is_empty());
    assert_eq!(codes(&judged(permissions, TopicInspected { policy: None, ..topic() })), ["D036"]);
}

#[test]
fn a_partition_without_a_leader_is_named() {
    let mut found = topic();
    found.partitions[1].has_leader = false;
    let partitions = vec![PartitionLayout { has_leader: false, ..found.partitions[0].clone() }];
    let facts = with_topic(found, BROKERS.to_vec());
    let found = leaders(&facts);
    assert_eq!(codes(&found), ["D035"]);
    assert!(found[0].message.ends_with("no broker leads partition 1"), "{found:?}");
    let state = Some((topic_name("state"), Ok(StateTopicInspected::Suitable(Vec::new()))));
    let facts = KafkaFacts { state_topic: state, state_partitions: partitions, ..kafka() };
    let found = leaders(&facts);
    assert_eq!(codes(&found), ["D035"]);
    assert_eq!(found[0].message, "topic state: no broker leads partition 0");
}

fn with_replicas(count: usize, in_sync: usize, brokers: Vec<i32>) -> Vec<Finding> {
    let mut found = TopicInspected { in_sync: Some(in_sync), ..topic() };
    found.partitions.iter_mut().for_each(|partition| partition.replicas.truncate(count));
    of_each(&with_topic(found, brokers), replicas)
}

#[test]
fn one_replica_among_several_brokers_is_named_with_a_plan_that_spreads_the_others() {
    let found = with_replicas(1, 1, BROKERS.to_vec());
    assert_eq!(codes(&found), ["D031"]);
    let remedy = found[0].remedy.as_deref().unwrap();
    let first = r#"{"topic":"orders","partition":0,"replicas":[1,2,3]}"#;
    let second = r#"{"topic":"orders","partition":2,"replicas":[1,3,2]}"#;
    assert!(remedy.contains(first) && remedy.contains(second), "{remedy}");
    assert!(with_replicas(1, 1, vec![1]).is_empty(), "there is no second broker");
}

#[test]
fn the_number_of_replicas_in_sync_is_one_less_than_there_are() {
    for (count, in_sync, expected) in [
        (3, 2, None),
        (2, 1, None),
        (3, 1, Some(Severity::Warning)),
        (3, 3, Some(Severity::Warning)),
        (2, 3, Some(Severity::Error)),
    ] {
        let found = with_replicas(count, in_sync, BROKERS.to_vec());
        let severity = found.first().map(|finding| finding.severity);
        assert_eq!(severity, expected, "{count} {in_sync}");
        assert!(found.iter().all(|finding| finding.code == "D032"), "{found:?}");
    }
}

#[test]
fn a_compacted_topic_and_its_limits_of_time_are_named() {
    let policy = Some("compact,delete".to_owned());
    assert_eq!(codes(&judged(compacted, TopicInspected { policy, ..topic() })), ["D033"]);
    let caution =
        Some(Failure::new(Code::TopicTimestamps, "message.timestamp.before.max.ms=1 refuses"));
    let found = judged(timestamps, TopicInspected { caution, ..topic() });
    assert_eq!((codes(&found), found[0].severity), (vec!["K023"], Severity::Warning));
}

#[test]
fn the_smallest_limit_of_all_topics_is_noted_once() {
    let mut found = topic();
    found.facts.max_message_bytes = Some(1_048_588);
    let mut facts = with_topic(found.clone(), vec![1]);
    facts.topics.push(TopicReading { name: topic_name("other"), found: Ok(found) });
    let found = record_limit(&facts);
    assert_eq!((codes(&found), found[0].severity), (vec!["D034"], Severity::Note));
    let remedy = found[0].remedy.as_deref().unwrap();
    assert!(remedy.contains("max.message.bytes=16777216"), "{remedy}");
}
