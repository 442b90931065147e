//! Records that carry a time of long ago: that of a commit before an outage, or of a row that a
//! command sends from its table.
//!
//! Kafka deletes by that time (`retention.ms`) and may refuse by it
//! (`message.timestamp.before.max.ms`, KIP-937; before Kafka 3.6
//! `message.timestamp.difference.max.ms`). Neither applies where the broker sets its own time
//! (`message.timestamp.type=LogAppendTime`).
//!
//! A record that its topic would delete at once counts as delivered all the same, so its row may be
//! removed from the table: then it is nowhere. Hence a record that is older than its topic keeps
//! records carries the time of sending ([`Keeps`]). What a topic would refuse stops the router
//! instead, so a person is cautioned before ([`caution`]).

use std::{ffi::CStr, fmt, time::Duration};

use relay::{Code, Failure, Name, TopicName};

use super::errors::Cluster;
use crate::wording::roughly;

/// The topic's settings that are needed, in the order in which [`caution`] takes them.
pub(super) const SETTINGS: [&CStr; 6] = [
    c"cleanup.policy",
    c"retention.ms",
    c"message.timestamp.type",
    c"message.timestamp.before.max.ms",
    c"message.timestamp.difference.max.ms",
    c"message.timestamp.after.max.ms",
];

/// The longest outage that is considered: a day, within which people react to an alert even at a
/// weekend. A topic that takes records of that age is not cautioned against.
const OUTAGE_MS: i64 = 24 * 3600 * 1000;

/// How far PostgreSQL's clock may be ahead of the broker's: a topic that refuses such records is
/// cautioned against. Synchronised clocks differ by milliseconds.
const SKEW_MS: i64 = 10_000;

/// How long a record is to be in its topic at least, so that consumers get it: as long as a person
/// takes to react, and half of the time where the topic keeps records for less than twice that.
const READ_WITHIN_MS: i64 = OUTAGE_MS;

/// For how long a topic keeps a record, by the time that it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keeps {
    /// That time does not matter.
    #[default]
    Always,
    /// For so many milliseconds: `retention.ms`.
    Millis(i64),
    /// The broker does not say, so a day is assumed.
    Unknown,
}

impl Keeps {
    pub(super) fn by([policy, retention, kind, ..]: &[Option<String>; 6]) -> Self {
        let deletes = policy.as_ref().is_none_or(|policy| policy.contains("delete"));
        if kind.as_deref() == Some("LogAppendTime") || !deletes {
            return Self::Always;
        }
        match retention.as_ref().and_then(|millis| millis.parse::<i64>().ok()) {
            Some(..0) => Self::Always,
            Some(millis) => Self::Millis(millis),
            None => Self::Unknown,
        }
    }

    /// Whether a record that carries this time stays long enough to be read.
    #[inline]
    pub(super) fn admits(self, record_ms: i64, now_ms: i64) -> bool {
        let kept = match self {
            Self::Always => return true,
            Self::Millis(millis) => millis,
            Self::Unknown => OUTAGE_MS,
        };
        let oldest = kept - READ_WITHIN_MS.min(kept / 2);
        now_ms.saturating_sub(record_ms) <= oldest
    }
}

impl fmt::Display for Keeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("keeps records of any age"),
            Self::Millis(millis) => {
                let kept = roughly(Duration::from_millis(millis.unsigned_abs()));
                write!(f, "keeps records for {kept} (retention.ms={millis})")
            }
            Self::Unknown => f.write_str(
                "may keep records for a day, since its retention.ms cannot be read \
                 (DescribeConfigs)",
            ),
        }
    }
}

/// The caution about a topic that may refuse delayed records; `None` where there is nothing to say.
pub(super) fn caution(
    cluster: &Cluster,
    name: &TopicName,
    settings: &[Option<String>; 6],
) -> Option<Failure> {
    let [_, _, kind, before, difference, after] = settings;
    if kind.as_deref() == Some("LogAppendTime") {
        return None;
    }
    let below = |value: &Option<String>, limit: i64| {
        value.as_ref()?.parse().ok().filter(|value| (0..limit).contains(value))
    };
    let mut dangers = Dangers::default();
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
        // A week.
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
    fn a_topic_that_takes_records_over_an_outage_of_a_day_causes_no_caution() {
        for settings in [
            // As Kafka 4 has it by default.
            ["delete", "604800000", "CreateTime", NEVER, "", HOUR],
            ["delete", DAY, "CreateTime", DAY, DAY, "10000"],
            ["delete", "-1", "CreateTime", NEVER, NEVER, NEVER],
            // What it would delete carries another time.
            ["delete", "60000", "CreateTime", NEVER, "", HOUR],
            // The broker's own time.
            ["delete", "60000", "LogAppendTime", "1", "1", "0"],
            // Not reported.
            [""; 6],
            ["delete", DAY, "CreateTime", "soon", "", ""],
        ] {
            assert_eq!(caution_text(settings), None, "{settings:?}");
        }
    }

    #[test]
    fn a_setting_that_refuses_late_records_is_named_with_its_remedy() {
        for (settings, expected) in [
            (
                ["delete", "-1", "CreateTime", HOUR, "", HOUR],
                &["message.timestamp.before.max.ms=3600000 refuses for ever (K013)"][..],
            ),
            (["delete", "-1", "CreateTime", "", HOUR, ""], &["difference.max.ms=3600000 refuses"]),
            (["delete", "-1", "CreateTime", "", "", "0"], &["after.max.ms=0 refuses (K013)"]),
            (
                ["delete", "1", "CreateTime", "1", "2", HOUR],
                &[
                    "before.max.ms=1 ",
                    "difference.max.ms=2 ",
                    "before.max.ms=604800000,message.timestamp.difference",
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

    fn keeps(settings: [&str; 3]) -> Keeps {
        let [policy, retention, kind] =
            settings.map(|value| (!value.is_empty()).then(|| value.to_owned()));
        Keeps::by(&[policy, retention, kind, None, None, None])
    }

    #[test]
    fn a_record_that_its_topic_would_delete_before_it_is_read_is_not_admitted() {
        const DAY_MS: i64 = 86_400_000;
        const NOW: i64 = 1_800_000_000_000;
        for (settings, oldest) in [
            (["delete", "604800000", "CreateTime"], 6 * DAY_MS),
            (["compact,delete", "172800000", ""], DAY_MS),
            (["delete", "3600000", "CreateTime"], 1_800_000),
            (["delete", "0", "CreateTime"], 0),
            // The broker refuses to say, or its answer is none.
            (["", "", ""], DAY_MS / 2),
            (["delete", "soon", "CreateTime"], DAY_MS / 2),
            (["", "3600000", ""], 1_800_000),
        ] {
            let keeps = keeps(settings);
            assert!(keeps.admits(NOW - oldest, NOW), "{settings:?}");
            assert!(!keeps.admits(NOW - oldest - 1, NOW), "{settings:?}");
            assert!(keeps.admits(NOW + DAY_MS, NOW), "{settings:?}: of a clock that is ahead");
            assert!(!keeps.admits(i64::MIN, NOW), "{settings:?}");
        }
    }

    #[test]
    fn a_topic_that_deletes_nothing_by_the_time_of_its_records_admits_every_record() {
        for settings in [
            ["delete", "-1", "CreateTime"],
            ["", "-1", ""],
            ["compact", "60000", "CreateTime"],
            ["delete", "60000", "LogAppendTime"],
        ] {
            assert_eq!(keeps(settings), Keeps::Always, "{settings:?}");
        }
        assert!(Keeps::Always.admits(i64::MIN, i64::MAX));
    }

    #[test]
    fn how_long_a_topic_keeps_records_is_said_with_its_setting() {
        let text = Keeps::Millis(604_800_000).to_string();
        assert_eq!(text, "keeps records for 7 days (retention.ms=604800000)");
        assert!(Keeps::Unknown.to_string().contains("DescribeConfigs"));
    }
}
