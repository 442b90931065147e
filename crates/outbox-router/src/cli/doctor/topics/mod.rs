//! The topics of events and of dead letters.

use relay::{Code, Failure, Name, Names};

use super::{
    check::{Check, either, error, note, warning},
    facts::{KafkaFacts, TopicReading},
    finding::{Finding, Severity},
};
use crate::{
    codes::Advice,
    kafka::{Operation, PartitionLayout, TopicInspected},
    wording,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "the topics exist, or are created",
        reports: &[error(Code::TopicMissing.as_str()), note(Advice::NoTopicYet.as_str())],
        judge: |facts| Ok(existence(facts.kafka()?)),
    },
    Check {
        name: "the topics may be written",
        reports: &[error(Code::TopicForbidden.as_str()), note(Advice::SettingsUnknown.as_str())],
        judge: |facts| Ok(of_each(facts.kafka()?, permissions)),
    },
    Check {
        name: "every partition has a leader",
        reports: &[error(Advice::NoLeader.as_str())],
        judge: |facts| Ok(leaders(facts.kafka()?)),
    },
    Check {
        name: "the topics survive the loss of a broker",
        reports: &[
            warning(Advice::OneReplica.as_str()),
            either(Advice::InSyncReplicas.as_str(), &[Severity::Error, Severity::Warning]),
        ],
        judge: |facts| Ok(of_each(facts.kafka()?, replicas)),
    },
    Check {
        name: "the topics keep every event",
        reports: &[warning(Advice::EventsCompacted.as_str())],
        judge: |facts| Ok(of_each(facts.kafka()?, compacted)),
    },
    Check {
        name: "the topics take events that an outage has delayed",
        reports: &[warning(Code::TopicTimestamps.as_str())],
        judge: |facts| Ok(of_each(facts.kafka()?, timestamps)),
    },
    Check {
        name: "the topics take every row that the router takes",
        reports: &[note(Advice::RecordLimit.as_str())],
        judge: |facts| Ok(record_limit(facts.kafka()?)),
    },
];

/// A topic that was described.
struct Described<'f> {
    kafka: &'f KafkaFacts,
    name: &'f str,
    found: &'f TopicInspected,
}

impl Described<'_> {
    fn names(&self, name: Option<(Name, String)>) -> Names {
        let mut names = self.kafka.names.clone();
        names.set(Name::Topic, self.name.to_owned());
        if let Some((name, value)) = name {
            names.set(name, value);
        }
        names
    }

    fn may_not(&self, operation: Operation) -> bool {
        self.kafka.operations.get(self.name).is_some_and(|may| !may.allow(operation))
    }
}

fn of_each(kafka: &KafkaFacts, judge: fn(&Described<'_>) -> Vec<Finding>) -> Vec<Finding> {
    let described = |topic: &'_ TopicReading| {
        let found = topic.found.as_ref().ok()?;
        Some(judge(&Described { kafka, name: topic.name.as_str(), found }))
    };
    kafka.topics.iter().filter_map(described).flatten().collect()
}

/// A topic that `run` creates need not exist.
fn existence(kafka: &KafkaFacts) -> Vec<Finding> {
    let creates = kafka.create.is_some();
    let refused = kafka.topics.iter().filter_map(|topic| topic.found.as_ref().err());
    let refused = refused.filter(|failure| !creates || failure.code != Code::TopicMissing);
    let mut findings: Vec<Finding> = refused.map(Finding::of).collect();
    for (template, has_topic) in &kafka.templates {
        if *has_topic || creates || !template.contains("${") {
            continue;
        }
        let what = format!("no topic like {template} exists, and kafka.create_topics is not set");
        findings.push(Finding::advice(Severity::Note, Advice::NoTopicYet, what, &kafka.names));
    }
    findings
}

fn permissions(topic: &Described<'_>) -> Vec<Finding> {
    let name = topic.name;
    if topic.may_not(Operation::Write) {
        let what = format!("writing to topic {name} is not allowed");
        let names = topic.names(None);
        let failure = names
            .iter()
            .fold(Failure::new(Code::TopicForbidden, what), |failure, (name, value)| {
                failure.naming(name, value)
            });
        return vec![Finding::of(&failure)];
    }
    let unknown = topic.found.policy.is_none() || topic.may_not(Operation::DescribeConfigs);
    if !unknown {
        return Vec::new();
    }
    let what = format!("the broker does not tell the settings of topic {name}");
    vec![Finding::advice(Severity::Note, Advice::SettingsUnknown, what, &topic.names(None))]
}

/// Of the state topic, too: without it, no router starts.
fn leaders(kafka: &KafkaFacts) -> Vec<Finding> {
    let of_topic = |topic: &Described<'_>| {
        let found = without_leader(topic.kafka, topic.name, &topic.found.partitions);
        found.into_iter().collect()
    };
    let mut findings = of_each(kafka, of_topic);
    if let Some((name, Ok(_))) = &kafka.state_topic {
        findings.extend(without_leader(kafka, name.as_str(), &kafka.state_partitions));
    }
    findings
}

fn without_leader(
    kafka: &KafkaFacts,
    topic: &str,
    partitions: &[PartitionLayout],
) -> Option<Finding> {
    let without = partitions.iter().filter(|partition| !partition.has_leader);
    let without: Vec<String> = without.map(|one| one.partition.to_string()).collect();
    if without.is_empty() {
        return None;
    }
    let mut names = kafka.names.clone();
    names.set(Name::Topic, topic.to_owned());
    let what = format!("topic {topic}: no broker leads partition {}", without.join(", "));
    Some(Finding::advice(Severity::Error, Advice::NoLeader, what, &names))
}

/// As many replicas as Kafka's documentation advises.
const REPLICAS: usize = 3;

fn replicas(topic: &Described<'_>) -> Vec<Finding> {
    let partitions = &topic.found.partitions;
    let Some(fewest) = partitions.iter().map(|partition| partition.replicas.len()).min() else {
        return Vec::new();
    };
    let brokers = &topic.kafka.brokers;
    let mut findings = Vec::new();
    if fewest == 1 && brokers.len() > 1 {
        let plan = reassignment(topic.name, partitions, brokers);
        let names = topic.names(Some((Name::Reassignment, plan)));
        let what = format!(
            "topic {} has one replica on a cluster of {} brokers",
            topic.name,
            brokers.len()
        );
        findings.push(Finding::advice(Severity::Warning, Advice::OneReplica, what, &names));
    }
    let Some(in_sync) = topic.found.in_sync else { return findings };
    let (severity, why, proposed) = if in_sync > fewest {
        (Severity::Error, "no record is ever acknowledged", fewest.saturating_sub(1).max(1))
    } else if in_sync == fewest && fewest > 1 {
        let why = "one broker that restarts stops all delivery";
        (Severity::Warning, why, fewest.saturating_sub(1))
    } else if in_sync == 1 && fewest >= REPLICAS {
        let why = "what one broker alone has acknowledged is lost with it";
        (Severity::Warning, why, fewest.saturating_sub(1))
    } else {
        return findings;
    };
    let settings = format!("min.insync.replicas={proposed}");
    let names = topic.names(Some((Name::Settings, settings)));
    let what = format!(
        "topic {} has {fewest} replica{} and min.insync.replicas={in_sync}: {why}",
        topic.name,
        if fewest == 1 { "" } else { "s" }
    );
    findings.push(Finding::advice(severity, Advice::InSyncReplicas, what, &names));
    findings
}

/// The reassignment that gives each partition more replicas. The present one stays the first, the
/// preferred leader; the others begin at another broker for each partition.
fn reassignment(topic: &str, partitions: &[PartitionLayout], brokers: &[i32]) -> String {
    let plan = |(index, partition): (usize, &PartitionLayout)| {
        let all = brokers.iter().cycle().skip(index).take(brokers.len());
        let others = all.filter(|id| !partition.replicas.contains(id));
        let ids: Vec<String> =
            partition.replicas.iter().chain(others).take(REPLICAS).map(i32::to_string).collect();
        let (number, ids) = (partition.partition, ids.join(","));
        format!(r#"{{"topic":"{topic}","partition":{number},"replicas":[{ids}]}}"#)
    };
    let plans: Vec<String> = partitions.iter().enumerate().map(plan).collect();
    format!(r#"{{"version":1,"partitions":[{}]}}"#, plans.join(","))
}

fn compacted(topic: &Described<'_>) -> Vec<Finding> {
    let policy = topic.found.policy.as_deref().filter(|policy| policy.contains("compact"));
    let Some(policy) = policy else { return Vec::new() };
    let what = format!("topic {} has cleanup.policy={policy}", topic.name);
    vec![Finding::advice(Severity::Warning, Advice::EventsCompacted, what, &topic.names(None))]
}

fn timestamps(topic: &Described<'_>) -> Vec<Finding> {
    topic.found.caution.iter().map(Finding::of).collect()
}

/// One finding for all, since most clusters have one limit for all topics: the smallest.
fn record_limit(kafka: &KafkaFacts) -> Vec<Finding> {
    let limit = |topic: &'_ TopicReading| {
        let limit = topic.found.as_ref().ok()?.facts.max_message_bytes?;
        Some((u64::try_from(limit).ok()?, topic.name.as_str().to_owned()))
    };
    let smallest = kafka.topics.iter().filter_map(limit).min();
    let Some((limit, topic)) = smallest.filter(|(limit, _)| *limit < kafka.row_bytes) else {
        return Vec::new();
    };
    let mut names = kafka.names.clone();
    names.set(Name::Topic, topic.clone());
    names.set(Name::Bytes, kafka.row_bytes.to_string());
    let what = format!(
        "topic {topic} takes records of {} at most, and limits.row_bytes is {}",
        wording::bytes(limit),
        wording::bytes(kafka.row_bytes)
    );
    vec![Finding::advice(Severity::Note, Advice::RecordLimit, what, &names)]
}

#[cfg(test)]
mod tests;
