//! Checks whether a topic would delete or refuse records that carry their commit time and were
//! delayed by an outage.
//!
//! The timestamp of a delayed record is as far in the past as the outage was long. Kafka deletes by
//! that time (`retention.ms`) and may refuse by it (`message.timestamp.before.max.ms`, KIP-937;
//! before Kafka 3.6 `message.timestamp.difference.max.ms`). Neither applies where the broker sets
//! its own time (`message.timestamp.type=LogAppendTime`).

use std::ffi::CStr;

use relay::{Code, Failure, Name, TopicName};

use super::errors::Cluster;

/// The topic's settings that the check needs, in the order in which [`caution`] takes them.
pub(super) const SETTINGS: [&CStr; 6] = [
    c"cleanup.policy",
    c"retention.ms",
    c"message.timestamp.type",
    c"message.timestamp.before.max.ms",
    c"message.timestamp.difference.max.ms",
    c"message.timestamp.after.max.ms",
];

/// The longest outage that is considered: a day, within which people react to an alert even at a
/// weekend. A topic that keeps records for longer is not cautioned against; Kafka's default is
/// seven days.
const OUTAGE_MS: i64 = 24 * 3600 * 1000;

/// How far PostgreSQL's clock may be ahead of the broker's: a topic that refuses such records is
/// cautioned against. Synchronised clocks differ by milliseconds.
const SKEW_MS: i64 = 10_000;

/// The caution about a topic that may delete or refuse delayed records; `None` where there is
/// nothing to say.
pub(super) fn caution(
    cluster: &Cluster,
    name: &TopicName,
    settings: &[Option<String>; 6],
) -> Option<Failure> {
    let [policy, retention, kind, before, difference, after] = settings;
    if kind.as_deref() == Some("LogAppendTime") {
        return None;
    }
    let deletes = policy.as_ref().is_some_and(|policy| policy.contains("delete"));
    let below = |value: &Option<String>, limit: i64| {
        value.as_ref()?.parse().ok().filter(|value| (0..limit).contains(value))
    };
    let mut dangers = Dangers::default();
    if deletes && let Some(ms) = below(retention, OUTAGE_MS) {
        dangers.add("retention.ms", ms, "deletes what an outage held up before anybody reads it");
    }
    let refuses = "refuses for ever (K013) what an outage held up";
    if let Some(ms) = below(before, OUTAGE_MS) {
        dangers.add("message.timestamp.before.max.ms", ms, refuses);
    }
    if let Some(ms) = below(difference, OUTAGE_MS) {
        dangers.add("message.timestamp.difference.max.ms", ms, refuses);
    }
    if let Some(ms) = below(after, SKEW_MS) {
        let what = "refuses (K013) what was committed while PostgreSQL's clock was ahead";
        dangers.add("message.timestamp.after.max.ms", ms, what);
    }
    dangers.failure(cluster, name)
}

#[derive(Default)]
struct Dangers {
    what: Vec<String>,
    settings: Vec<String>,
}

impl Dangers {
    fn add(&mut self, setting: &str, ms: i64, what: &str) {
        self.what.push(format!("{setting}={ms} {what}"));
        // A week, which is Kafka's default for `retention.ms`.
        self.settings.push(format!("{setting}={}", 7 * OUTAGE_MS));
    }

    fn failure(self, cluster: &Cluster, name: &TopicName) -> Option<Failure> {
        if self.what.is_empty() {
            return None;
        }
        let message =
            format!("topic {name}: records carry their commit time, and {}", self.what.join("; "));
        let failure =
            cluster.named(Failure::new(Code::TopicTimestamps, message), Some(name.as_str()));
        Some(failure.naming(Name::Settings, self.settings.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::hint;

    const DAY: &str = "86400000";
    const NEVER: &str = "9223372036854775807";
    const HOUR: &str = "3600000";

    fn caution_text(settings: [&str; 6]) -> Option<String> {
        let settings = settings.map(|value| (!value.is_empty()).then(|| value.to_owned()));
        let name = TopicName::new("orders").unwrap();
        let failure = caution(&Cluster::new("kafka:9092"), &name, &settings)?;
        assert_eq!(failure.code, Code::TopicTimestamps);
        let hint = hint(&failure).unwrap();
        assert!(hint.starts_with("set timestamp = \"now\""));
        Some(format!("{} | {hint}", failure.message))
    }

    #[test]
    fn a_topic_that_keeps_records_over_an_outage_of_a_day_causes_no_caution() {
        for settings in [
            // As Kafka 4 has it by default.
            ["delete", "604800000", "CreateTime", NEVER, "", HOUR],
            ["delete", DAY, "CreateTime", DAY, DAY, "10000"],
            ["delete", "-1", "CreateTime", NEVER, NEVER, NEVER],
            // Nothing is deleted by age.
            ["compact", "60000", "CreateTime", NEVER, "", HOUR],
            // The broker's own time.
            ["delete", "60000", "LogAppendTime", "1", "1", "0"],
            // Not reported.
            [""; 6],
            ["delete", "soon", "CreateTime", "", "", ""],
        ] {
            assert_eq!(caution_text(settings), None, "{settings:?}");
        }
    }

    #[test]
    fn a_setting_that_deletes_or_refuses_late_records_is_named_with_its_remedy() {
        for (settings, expected) in [
            (
                ["delete", "60000", "CreateTime", NEVER, "", HOUR],
                &["retention.ms=60000 deletes", "--add-config retention.ms=604800000"][..],
            ),
            (["compact,delete", "86399999", "", "", "", ""], &["retention.ms=86399999"]),
            (
                ["delete", "-1", "CreateTime", HOUR, "", HOUR],
                &["message.timestamp.before.max.ms=3600000 refuses for ever (K013)"],
            ),
            (["delete", "-1", "CreateTime", "", HOUR, ""], &["difference.max.ms=3600000 refuses"]),
            (["delete", "-1", "CreateTime", "", "", "0"], &["after.max.ms=0 refuses (K013)"]),
            (
                ["delete", "1", "CreateTime", "2", "", HOUR],
                &[
                    "retention.ms=1 ",
                    "before.max.ms=2 ",
                    "retention.ms=604800000,message.timestamp.before",
                ],
            ),
        ] {
            let text = caution_text(settings).unwrap();
            for expected in expected {
                assert!(text.contains(expected), "{text}");
            }
            assert!(text.contains("topic orders") && text.contains("kafka:9092"), "{text}");
        }
    }
}
