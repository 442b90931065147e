//! Kafka as a whole, and the state topic.

use relay::{Case, Code, Failure, Name};

use super::{
    check::{Check, either, error, warning},
    facts::{KafkaFacts, Part},
    finding::{Finding, Severity},
};
use crate::{
    codes::Advice,
    kafka::{Operation, StateTopicInspected},
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "Kafka answers and takes the credentials",
        reports: &[
            error(Code::KafkaUnreachable.as_str()),
            error(Code::KafkaAuthentication.as_str()),
            error(Code::ProducerFatal.as_str()),
        ],
        judge: |facts| Ok(connects(&facts.kafka)),
    },
    Check {
        name: "the state topic keeps the witness, and may be read and written",
        reports: &[
            either(Code::StateTopicUnsuitable.as_str(), &[Severity::Error, Severity::Warning]),
            error(Code::TopicMissing.as_str()),
            error(Code::TopicForbidden.as_str()),
        ],
        judge: |facts| Ok(state_topic(facts.kafka()?)),
    },
    Check {
        name: "topics can be created, where the configuration says so",
        reports: &[
            warning(Advice::CreateForbidden.as_str()),
            error(Advice::TooFewBrokers.as_str()),
        ],
        judge: |facts| Ok(creation(facts.kafka()?)),
    },
];

fn connects(kafka: &Part<KafkaFacts>) -> Vec<Finding> {
    kafka.as_ref().err().map(Finding::of).into_iter().collect()
}

/// Adds the names that remedies for Kafka contain.
fn named(kafka: &KafkaFacts, failure: Failure, topic: &str) -> Failure {
    let named =
        kafka.names.iter().fold(failure, |failure, (name, value)| failure.naming(name, value));
    named.naming(Name::Topic, topic)
}

fn state_topic(kafka: &KafkaFacts) -> Vec<Finding> {
    let Some((name, found)) = &kafka.state_topic else { return Vec::new() };
    match found {
        Err(failure) => vec![Finding::of(failure)],
        Ok(StateTopicInspected::Missing) => {
            let may_create = kafka.on_cluster.as_ref().is_none_or(|on| on.allow(Operation::Create));
            if may_create {
                return Vec::new();
            }
            let what = format!("the state topic {name} does not exist, and may not be created");
            let failure = Failure::of(Case::StateTopicMissing, what);
            vec![Finding::of(&named(kafka, failure, name.as_str()))]
        }
        Ok(StateTopicInspected::Suitable(cautions)) => {
            let may = kafka.operations.get(name.as_str());
            let lacks = |operation| may.is_some_and(|may| !may.allow(operation));
            let mut findings: Vec<Finding> = cautions.iter().map(Finding::caution).collect();
            if lacks(Operation::Read) || lacks(Operation::Write) {
                let what = format!("the state topic {name} may not be read and written");
                let failure = Failure::of(Case::StateTopicForbidden, what);
                findings.push(Finding::of(&named(kafka, failure, name.as_str())));
            }
            findings
        }
    }
}

fn creation(kafka: &KafkaFacts) -> Vec<Finding> {
    let Some(create) = kafka.create else { return Vec::new() };
    let mut findings = Vec::new();
    if kafka.on_cluster.as_ref().is_some_and(|on| !on.allow(Operation::Create)) {
        let what = "kafka.create_topics is set, and the operation Create is not allowed on the \
                    cluster";
        let advice = Advice::CreateForbidden;
        findings.push(Finding::advice(Severity::Warning, advice, what, &kafka.names));
    }
    let brokers = kafka.brokers.len();
    if usize::try_from(create.replication_factor).is_ok_and(|factor| factor > brokers) {
        let what = format!(
            "kafka.create_topics.replication_factor is {}, and the cluster has {brokers} broker{}",
            create.replication_factor,
            if brokers == 1 { "" } else { "s" }
        );
        let advice = Advice::TooFewBrokers;
        findings.push(Finding::advice(Severity::Error, advice, what, &kafka.names));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::doctor::samples::{codes, kafka, topic_name},
        config::CreateTopics,
        kafka::Operations,
    };

    fn with_state(found: Part<StateTopicInspected>) -> KafkaFacts {
        KafkaFacts { state_topic: Some((topic_name("state"), found)), ..kafka() }
    }

    #[test]
    fn a_cluster_that_does_not_answer_is_named_by_its_failure() {
        assert!(connects(&Ok(kafka())).is_empty());
        let silent = Failure::new(Code::KafkaUnreachable, "nobody answers");
        assert_eq!(codes(&connects(&Err(silent))), ["K001"]);
    }

    #[test]
    fn a_missing_state_topic_is_created_by_run_where_that_is_allowed() {
        let missing = with_state(Ok(StateTopicInspected::Missing));
        assert!(state_topic(&missing).is_empty());
        let none = Some(Operations::of(&[Operation::Describe]));
        let forbidden = KafkaFacts { on_cluster: none, ..missing };
        let found = state_topic(&forbidden);
        assert_eq!(codes(&found), ["K010"]);
        let remedy = found[0].remedy.as_deref().unwrap();
        assert!(remedy.contains("--topic state --partitions 1"), "{remedy}");
    }

    #[test]
    fn what_run_would_warn_of_is_a_warning_and_what_it_refuses_an_error() {
        let failure = || Failure::new(Code::StateTopicUnsuitable, "two partitions");
        let found = state_topic(&with_state(Err(failure())));
        assert_eq!((codes(&found), found[0].severity), (vec!["K020"], Severity::Error));
        let cautious = Ok(StateTopicInspected::Suitable(vec![failure()]));
        let found = state_topic(&with_state(cautious));
        assert_eq!((codes(&found), found[0].severity), (vec!["K020"], Severity::Warning));
    }

    #[test]
    fn a_state_topic_has_to_be_read_and_written() {
        let mut facts = with_state(Ok(StateTopicInspected::Suitable(Vec::new())));
        assert!(state_topic(&facts).is_empty(), "the broker does not say");
        for (operations, expected) in [
            (&[Operation::Read, Operation::Write][..], &[][..]),
            (&[Operation::Read], &["K011"]),
            (&[Operation::Write], &["K011"]),
        ] {
            facts.operations.insert("state".to_owned(), Operations::of(operations));
            assert_eq!(codes(&state_topic(&facts)), expected);
        }
    }

    #[test]
    fn topics_are_created_only_where_that_is_allowed_and_possible() {
        let create = |replication_factor| KafkaFacts {
            create: Some(CreateTopics { partitions: 6, replication_factor }),
            on_cluster: Some(Operations::of(&[Operation::Create])),
            ..kafka()
        };
        assert!(creation(&kafka()).is_empty() && creation(&create(-1)).is_empty());
        assert!(creation(&create(1)).is_empty());
        let found = creation(&create(3));
        assert_eq!(codes(&found), ["D038"]);
        assert!(found[0].remedy.as_deref().unwrap().contains("replication_factor to 1"));
        let forbidden = KafkaFacts { on_cluster: Some(Operations::of(&[])), ..create(1) };
        assert_eq!(codes(&creation(&forbidden)), ["D037"]);
    }
}
