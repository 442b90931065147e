//! A router that is started while PostgreSQL does not answer knows nothing, and exports nothing of
//! what it does not know. No alert ends by that.

use crate::case::{Case, Fired, fires, quiet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "a router is replaced while PostgreSQL is down; another pipeline is given up",
        interval: "15s",
        series: &[
            (r#"outbox_slot_bytes_behind{pipeline="shop",slot="s",instance="a"}"#, BEHIND),
            (THRESHOLD, "2000x180"),
            (r#"outbox_slot_seconds_to_limit{pipeline="shop",slot="s",instance="a"}"#, NEAR),
            (r#"outbox_slot_pin_age_seconds{pipeline="shop",slot="s",instance="a"}"#, PINNED),
            (r#"outbox_slot_others_inactive{pipeline="shop",slot="s",instance="a"}"#, OTHERS),
            (
                r#"outbox_slot_wal_status{pipeline="shop",slot="s",wal_status="lost",instance="a"}"#,
                "1x60 stale",
            ),
            (r#"outbox_held_decided{pipeline="shop",instance="a"}"#, "3x60 stale"),
            (r#"outbox_held_delivered_total{pipeline="shop",instance="a"}"#, "0x60 stale"),
            (r#"outbox_held_dropped_total{pipeline="shop",instance="a"}"#, "0x60 stale"),
            (r#"outbox_build_info{pipeline="shop",version="0.1.0",instance="b"}"#, "_x61 1x120"),
            // The new one has read nothing, until it reads that all is well.
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s",instance="a"}"#,
                "0+15x60 stale",
            ),
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s",instance="b"}"#,
                "_x61 0x99 2400+15x20",
            ),
            (r#"outbox_slot_bytes_behind{pipeline="shop",slot="s",instance="b"}"#, "_x161 0x20"),
            (
                r#"outbox_slot_seconds_to_limit{pipeline="shop",slot="s",instance="b"}"#,
                "_x161 1e18x20",
            ),
            // Nobody is scraped of it any more.
            (r#"outbox_slot_bytes_behind{pipeline="gone",slot="s",instance="c"}"#, BEHIND),
            (
                r#"outbox_slot_bytes_behind_threshold{pipeline="gone",slot="s",severity="critical",instance="c"}"#,
                "2000x60 stale",
            ),
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="gone",slot="s",instance="c"}"#,
                "0+15x60 stale",
            ),
        ],
        checks: &[
            fires("14m", "OutboxSlotBytesBehindCritical", &[SHOP_BEHIND, GONE_BEHIND]),
            fires("38m", "OutboxSlotBytesBehindCritical", &[SHOP_BEHIND]),
            quiet("42m", "OutboxSlotBytesBehindCritical"),
            fires(
                "38m",
                "OutboxSlotTimeToLimitShort",
                &[Fired(
                    "severity=warning pipeline=shop slot=s",
                    "at the present rate slot s reaches its limit in 16m 40s",
                )],
            ),
            fires(
                "38m",
                "OutboxSlotWalAlmostGone",
                &[Fired(
                    "severity=critical pipeline=shop slot=s",
                    "slot s reaches its limit in 16m 40s",
                )],
            ),
            quiet("42m", "OutboxSlotWalAlmostGone"),
            fires(
                "38m",
                "OutboxSlotLost",
                &[Fired(
                    "severity=critical pipeline=shop slot=s",
                    "slot s is lost: events are missing in Kafka",
                )],
            ),
            fires(
                "38m",
                "OutboxSlotWalPinned",
                &[Fired(
                    "severity=warning pipeline=shop slot=s",
                    "a transaction that is 1h 6m 40s old makes PostgreSQL keep the WAL of slot s",
                )],
            ),
            fires(
                "38m",
                "OutboxOtherSlotsInactive",
                &[Fired(
                    "severity=warning pipeline=shop slot=s",
                    "2 other slots on the server of pipeline shop are not in use",
                )],
            ),
            fires(
                "38m",
                "OutboxDecisionWaits",
                &[Fired(
                    "severity=warning pipeline=shop",
                    "pipeline shop does not carry out what was decided about 3 dead letters",
                )],
            ),
        ],
    },
    Case {
        name: "the slot is read, and the figures around it are not",
        interval: "15s",
        series: &[
            (r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s"}"#, "0+15x100"),
            (
                r#"outbox_slot_figures_last_poll_timestamp_seconds{pipeline="shop",slot="s"}"#,
                "0+15x20 300x80",
            ),
        ],
        checks: &[
            quiet("11m", "OutboxSlotMonitorStale"),
            fires(
                "11m15s",
                "OutboxSlotMonitorStale",
                &[Fired(
                    "severity=warning pipeline=shop slot=s",
                    "the state of slot s is not read from PostgreSQL any more",
                )],
            ),
        ],
    },
    Case {
        name: "the slot is there; a new router beside the one that reads it cannot look",
        interval: "15s",
        series: &[
            (r#"outbox_slot_exists{pipeline="shop",slot="s",instance="a"}"#, "1x40"),
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s",instance="a"}"#,
                "0+15x40",
            ),
            (r#"outbox_slot_exists{pipeline="shop",slot="s",instance="b"}"#, "0x40"),
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s",instance="b"}"#,
                "0x40",
            ),
        ],
        checks: &[quiet("5m", "OutboxSlotMissing"), quiet("9m", "OutboxSlotMissing")],
    },
];

const BEHIND: &str = "3000x60 stale";
const NEAR: &str = "1000x60 stale";
const PINNED: &str = "4000x60 stale";
const OTHERS: &str = "2x60 stale";

const THRESHOLD: &str =
    r#"outbox_slot_bytes_behind_threshold{pipeline="shop",slot="s",severity="critical"}"#;

const SHOP_BEHIND: Fired = Fired(
    "severity=critical pipeline=shop slot=s",
    "slot s is 2.93kiB behind: the disk or the slot is at risk",
);

const GONE_BEHIND: Fired = Fired(
    "severity=critical pipeline=gone slot=s",
    "slot s is 2.93kiB behind: the disk or the slot is at risk",
);
