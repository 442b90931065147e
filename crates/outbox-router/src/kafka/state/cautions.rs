//! Cautions about a state topic: settings that are a risk but do not prevent its use. They are
//! logged once, and the router goes on.

use relay::{Case, Failure, Name, TopicName};

use crate::kafka::{errors::Cluster, topics::TopicMetadata};

/// Below this `max.message.bytes` there is a caution. The witness of any pipeline without thousands
/// of tables fits; Kafka's default, 1048588, is slightly larger.
///
/// A witness names every table that the publication had when it was last without defects: once as
/// published and, for an outbox, once more as it is. Each takes some 200 bytes, 400 with the
/// longest names. A publication FOR ALL TABLES names all tables. A witness also names up to 500
/// topics with their partition counts, 250 bytes each. The rest is some kilobytes, and more only
/// where a gap's message is long.
const AMPLE_RECORD_BYTES: usize = 1_000_000;

/// The `max.message.bytes` that the hint proposes when a record was too large: enough for some ten
/// thousand tables.
pub(super) const LARGE_RECORD_BYTES: usize = 4 << 20;

/// As many replicas as Kafka's internal topics have by default.
const REPLICAS: usize = 3;

/// A topic's settings; `None` where the broker does not report one.
pub(super) struct TopicSettings<'s> {
    pub(super) policy: Option<&'s str>,
    pub(super) record_bytes: Option<usize>,
    pub(super) in_sync: Option<usize>,
}

/// The cautions about the topic.
pub(super) fn cautions(
    cluster: &Cluster,
    name: &TopicName,
    known: &TopicMetadata,
    settings: &TopicSettings<'_>,
) -> Vec<Failure> {
    let replicas = known.replicas.len();
    let alter = |why: &str, setting: &str| to_alter(cluster, name, why, setting);
    let mut cautions = Vec::new();
    if settings.policy.is_none() {
        let why = "may not be compacted: the broker does not report its cleanup.policy";
        cautions.push(caution(cluster, name, Case::StateTopicSettingsUnknown, why));
    }
    if let Some(limit) = settings.record_bytes.filter(|limit| *limit < AMPLE_RECORD_BYTES) {
        let why = format!(
            "takes records of {limit} bytes at most, and the witness of a pipeline with many topics or tables may need more"
        );
        cautions.push(alter(&why, "max.message.bytes=1048588"));
    }
    if replicas == 1 && known.brokers.len() > 1 {
        let why = format!(
            "has one replica on a cluster of {} brokers: when that broker is lost, so is the witness",
            known.brokers.len()
        );
        let failure = caution(cluster, name, Case::StateTopicReplicas, &why);
        cautions.push(failure.naming(Name::Reassignment, reassignment(name, known)));
    }
    match settings.in_sync {
        Some(in_sync) if replicas > 0 && in_sync > replicas => {
            let why = format!(
                "has {replicas} replicas and min.insync.replicas={in_sync}: no record will ever be acknowledged"
            );
            let setting = format!("min.insync.replicas={}", replicas.saturating_sub(1).max(1));
            cautions.push(alter(&why, &setting));
        }
        Some(1) if replicas >= REPLICAS => {
            let why = format!(
                "has {replicas} replicas and min.insync.replicas=1: what one broker alone has acknowledged is lost with it"
            );
            cautions.push(alter(&why, "min.insync.replicas=2"));
        }
        Some(_) | None => {}
    }
    cautions
}

fn caution(cluster: &Cluster, name: &TopicName, case: Case, why: &str) -> Failure {
    let failure = Failure::of(case, format!("the state topic {name} {why}"));
    cluster.named(failure, Some(name.as_str()))
}

/// The failure of a topic that has a setting to change.
pub(super) fn to_alter(cluster: &Cluster, name: &TopicName, why: &str, setting: &str) -> Failure {
    caution(cluster, name, Case::StateTopicSettings, why).naming(Name::Settings, setting)
}

/// The reassignment that gives the topic more replicas (`kafka-reassign-partitions.sh`). The
/// present replica stays the first, the preferred leader.
fn reassignment(name: &TopicName, known: &TopicMetadata) -> String {
    let others = known.brokers.iter().filter(|id| !known.replicas.contains(id));
    let replicas: Vec<String> =
        known.replicas.iter().chain(others).take(REPLICAS).map(i32::to_string).collect();
    let replicas = replicas.join(",");
    format!(
        r#"{{"version":1,"partitions":[{{"topic":"{name}","partition":0,"replicas":[{replicas}]}}]}}"#
    )
}

#[cfg(test)]
mod tests {
    use relay::Code;

    use super::*;
    use crate::codes::hint;

    const WELL: TopicSettings<'_> =
        TopicSettings { policy: Some("compact"), record_bytes: Some(1_048_588), in_sync: Some(2) };

    fn caution_texts(
        replicas: &[i32],
        brokers: &[i32],
        settings: &TopicSettings<'_>,
    ) -> Vec<String> {
        let known = TopicMetadata {
            partitions: std::num::NonZeroI32::new(1).unwrap(),
            broker: 1,
            replicas: replicas.to_vec(),
            brokers: brokers.to_vec(),
        };
        let name = TopicName::new("s").unwrap();
        let texts = cautions(&Cluster::new("kafka:9092"), &name, &known, settings).into_iter();
        texts
            .map(|caution| {
                assert_eq!(caution.code, Code::StateTopicUnsuitable);
                assert!(caution.message.starts_with("the state topic s "), "{caution}");
                let hint = hint(&caution).unwrap();
                assert!(hint.contains("kafka:9092"), "{hint}");
                format!("{} | {hint}", caution.message)
            })
            .collect()
    }

    #[test]
    fn a_topic_that_survives_the_loss_of_a_broker_causes_no_caution() {
        assert!(caution_texts(&[1, 2, 3], &[1, 2, 3, 4], &WELL).is_empty());
        assert!(
            caution_texts(&[1, 2], &[1, 2], &TopicSettings { in_sync: Some(1), ..WELL }).is_empty()
        );
        let alone = TopicSettings { in_sync: Some(1), ..WELL };
        assert!(caution_texts(&[1], &[1], &alone).is_empty(), "there is no second broker");
        let unreported = TopicSettings { record_bytes: None, in_sync: None, ..WELL };
        assert!(caution_texts(&[], &[1, 2, 3], &unreported).is_empty(), "not reported");
    }

    #[test]
    fn a_single_replica_among_several_brokers_is_named_with_its_remedy() {
        let texts = caution_texts(&[2], &[1, 2, 3, 4], &TopicSettings { in_sync: Some(1), ..WELL });
        assert_eq!(texts.len(), 1);
        assert!(texts[0].contains("one replica on a cluster of 4 brokers"), "{}", texts[0]);
        let json = r#"{"version":1,"partitions":[{"topic":"s","partition":0,"replicas":[2,1,3]}]}"#;
        assert!(texts[0].contains(json), "{}", texts[0]);
        assert!(texts[0].contains("kafka-reassign-partitions.sh"), "{}", texts[0]);
    }

    #[test]
    fn what_one_broker_acknowledges_or_no_number_of_them_can_is_named() {
        let one =
            caution_texts(&[1, 2, 3], &[1, 2, 3], &TopicSettings { in_sync: Some(1), ..WELL });
        assert!(one.len() == 1 && one[0].contains("--add-config min.insync.replicas=2"), "{one:?}");
        let never = caution_texts(&[1], &[1], &WELL);
        assert_eq!(never.len(), 1);
        assert!(never[0].contains("no record will ever be acknowledged"), "{never:?}");
        assert!(never[0].ends_with("--add-config min.insync.replicas=1"), "{never:?}");
    }

    #[test]
    fn a_cleanup_policy_that_the_broker_does_not_report_is_a_caution() {
        let texts =
            caution_texts(&[1], &[1], &TopicSettings { policy: None, in_sync: None, ..WELL });
        assert_eq!(texts.len(), 1);
        assert!(texts[0].contains("does not report its cleanup.policy"), "{texts:?}");
        assert!(texts[0].contains("--describe --all --entity-type topics"), "{texts:?}");
    }

    #[test]
    fn a_limit_that_many_tables_may_exceed_is_named() {
        let texts = caution_texts(
            &[1],
            &[1],
            &TopicSettings { record_bytes: Some(100_000), in_sync: Some(1), ..WELL },
        );
        assert_eq!(texts.len(), 1);
        assert!(texts[0].contains("records of 100000 bytes at most"), "{texts:?}");
        assert!(texts[0].ends_with("--add-config max.message.bytes=1048588"), "{texts:?}");
    }
}
