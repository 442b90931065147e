//! Events that do not reach Kafka, or may not have.

use crate::case::{Case, Fired, fires, quiet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "an event waits; its standby knows nothing of it; another drains in time",
        interval: "15s",
        series: &[
            (
                r#"outbox_oldest_unacked_age_seconds{pipeline="shop",instance="a"}"#,
                "0x4 15+15x40 0x20",
            ),
            (r#"outbox_oldest_unacked_age_seconds{pipeline="shop",instance="b"}"#, "0x70"),
            (r#"outbox_oldest_unacked_age_seconds{pipeline="other"}"#, "0 240x40 0x20"),
        ],
        checks: &[
            quiet("7m", "OutboxOldestUnacked"),
            fires(
                "8m",
                "OutboxOldestUnacked",
                &[Fired(
                    "severity=critical pipeline=shop",
                    "the oldest event of pipeline shop that Kafka has not acknowledged is 7m 0s \
                     old",
                )],
            ),
            quiet("13m", "OutboxOldestUnacked"),
        ],
    },
    Case {
        name: "something is outstanding and no position moves",
        interval: "15s",
        series: &[
            (
                r#"outbox_seconds_without_progress{pipeline="shop",instance="a"}"#,
                "0x4 15+15x20 0x20",
            ),
            (r#"outbox_seconds_without_progress{pipeline="shop",instance="b"}"#, "0x50"),
            (r#"outbox_seconds_without_progress{pipeline="other"}"#, "0 15 30 45 0 15 30 45 0x40"),
        ],
        checks: &[
            quiet("3m", "OutboxStalled"),
            fires(
                "3m15s",
                "OutboxStalled",
                &[Fired(
                    "severity=critical pipeline=shop",
                    "pipeline shop has not moved for 2m 15s",
                )],
            ),
            quiet("8m", "OutboxStalled"),
        ],
    },
    Case {
        name: "one in twenty fails; one failure an hour; a standby that waits",
        interval: "1m",
        series: &[
            (r#"outbox_events_total{pipeline="shop",topic="t",result="acked"}"#, "0+19x60"),
            (r#"outbox_errors_total{pipeline="shop",component="kafka",code="K013"}"#, "0+1x60"),
            (r#"outbox_events_total{pipeline="good",topic="t",result="acked"}"#, "0+19x60"),
            (r#"outbox_errors_total{pipeline="good",component="kafka",code="K013"}"#, "0x20 1x40"),
            (r#"outbox_events_total{pipeline="idle",topic="_other",result="acked"}"#, "0x60"),
            (r#"outbox_errors_total{pipeline="idle",component="kafka",code="K013"}"#, "0x60"),
            (r#"outbox_errors_total{pipeline="idle",component="postgres",code="P012"}"#, "0+9x60"),
        ],
        checks: &[
            quiet("10m", "OutboxErrorRatio"),
            fires(
                "20m",
                "OutboxErrorRatio",
                &[Fired("severity=warning pipeline=shop", "5% of what pipeline shop does fails")],
            ),
            fires(
                "30m",
                "OutboxErrorRatio",
                &[Fired("severity=warning pipeline=shop", "5% of what pipeline shop does fails")],
            ),
        ],
    },
    Case {
        name: "a gap is open, exported by two routers; it is accepted",
        interval: "1m",
        series: &[
            (r#"outbox_gaps_open{pipeline="shop",instance="a"}"#, "0x2 2x5 0x5"),
            (r#"outbox_gaps_open{pipeline="shop",instance="b"}"#, "0x3 2x4 0x5"),
            (r#"outbox_gaps_open{pipeline="other",instance="c"}"#, "0x20"),
        ],
        checks: &[
            quiet("2m", "OutboxGapOpen"),
            fires(
                "3m",
                "OutboxGapOpen",
                &[Fired(
                    "severity=critical pipeline=shop",
                    "pipeline shop has stopped: events may be missing in Kafka",
                )],
            ),
            quiet("12m", "OutboxGapOpen"),
        ],
    },
    Case {
        name: "a pipeline began without a witness, and a person accepts that",
        interval: "1m",
        series: &[
            (r#"outbox_witness_missing{pipeline="shop"}"#, "0x2 1x5 0x5"),
            (r#"outbox_witness_missing{pipeline="other"}"#, "0x20"),
        ],
        checks: &[
            quiet("2m", "OutboxWitnessMissing"),
            fires(
                "3m",
                "OutboxWitnessMissing",
                &[Fired("severity=warning pipeline=shop", "pipeline shop began without a witness")],
            ),
            quiet("12m", "OutboxWitnessMissing"),
        ],
    },
    Case {
        name: "a topic was deleted with its records, and a person accepts that",
        interval: "1m",
        series: &[
            (r#"outbox_topics_lost{pipeline="shop"}"#, "0x2 1x5 0x5"),
            (r#"outbox_topics_lost{pipeline="other"}"#, "0x20"),
        ],
        checks: &[
            quiet("2m", "OutboxTopicLost"),
            fires(
                "3m",
                "OutboxTopicLost",
                &[Fired(
                    "severity=warning pipeline=shop",
                    "1 topics of pipeline shop were deleted with their records",
                )],
            ),
            quiet("12m", "OutboxTopicLost"),
        ],
    },
];
