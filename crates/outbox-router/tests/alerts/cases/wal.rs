//! The WAL that the slot keeps, and how long PostgreSQL goes on keeping it.

use crate::case::{Case, Fired, fires, quiet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "the limit comes nearer, by the reading of one router of two; another has none",
        interval: "1m",
        series: &[
            (
                r#"outbox_slot_seconds_to_limit{pipeline="shop",slot="s",instance="a"}"#,
                "18000-300x60",
            ),
            (r#"outbox_slot_seconds_to_limit{pipeline="shop",slot="s",instance="b"}"#, "20000x60"),
            // promtool's notation has no infinity.
            (r#"outbox_slot_seconds_to_limit{pipeline="free",slot="s"}"#, "1e18x60"),
        ],
        checks: &[
            quiet("22m", "OutboxSlotTimeToLimitShort"),
            fires(
                "23m",
                "OutboxSlotTimeToLimitShort",
                &[Fired(
                    "severity=warning pipeline=shop slot=s",
                    "at the present rate slot s reaches its limit in 3h 5m 0s",
                )],
            ),
            quiet("50m", "OutboxSlotWalAlmostGone"),
            fires(
                "51m",
                "OutboxSlotWalAlmostGone",
                &[Fired(
                    "severity=critical pipeline=shop slot=s",
                    "slot s reaches its limit in 45m 0s",
                )],
            ),
        ],
    },
    Case {
        name: "the slot is unreserved, catches up, is unreserved again and lost",
        interval: "1m",
        series: &[
            (
                r#"outbox_slot_wal_status{pipeline="shop",slot="s",wal_status="unreserved"}"#,
                "0x4 1x2 0x4 1x2 0x10",
            ),
            (r#"outbox_slot_wal_status{pipeline="shop",slot="s",wal_status="lost"}"#, "0x14 1x10"),
            (
                r#"outbox_slot_wal_status{pipeline="shop",slot="s",wal_status="extended"}"#,
                "1x4 0x2 1x4 0x14",
            ),
        ],
        checks: &[
            quiet("4m", "OutboxSlotUnreserved"),
            fires(
                "5m",
                "OutboxSlotUnreserved",
                &[Fired(
                    "severity=critical pipeline=shop slot=s",
                    "slot s is unreserved: the next checkpoint may invalidate it",
                )],
            ),
            quiet("9m", "OutboxSlotUnreserved"),
            quiet("12m", "OutboxSlotLost"),
            fires(
                "16m",
                "OutboxSlotLost",
                &[Fired(
                    "severity=critical pipeline=shop slot=s",
                    "slot s is lost: events are missing in Kafka",
                )],
            ),
        ],
    },
    Case {
        name: "a transaction stays open; another ends within the hour",
        interval: "1m",
        series: &[
            (r#"outbox_slot_pin_age_seconds{pipeline="shop",slot="s"}"#, "0+60x90 0x20"),
            (r#"outbox_slot_pin_age_seconds{pipeline="other",slot="s"}"#, "0+60x50 0x60"),
        ],
        checks: &[
            quiet("65m", "OutboxSlotWalPinned"),
            fires(
                "66m",
                "OutboxSlotWalPinned",
                &[Fired(
                    "severity=warning pipeline=shop slot=s",
                    "a transaction that is 1h 6m 0s old makes PostgreSQL keep the WAL of slot s",
                )],
            ),
            quiet("95m", "OutboxSlotWalPinned"),
        ],
    },
    Case {
        name: "two other slots are not in use; one is idle for a while",
        interval: "1m",
        series: &[
            (r#"outbox_slot_others_inactive{pipeline="shop",slot="s",instance="a"}"#, "0x5 2x60"),
            (r#"outbox_slot_others_inactive{pipeline="shop",slot="s",instance="b"}"#, "0x5 2x60"),
            (r#"outbox_slot_others_inactive{pipeline="other",slot="t"}"#, "0x5 1x20 0x40"),
        ],
        checks: &[
            quiet("35m", "OutboxOtherSlotsInactive"),
            fires(
                "36m",
                "OutboxOtherSlotsInactive",
                &[Fired(
                    "severity=warning pipeline=shop slot=s",
                    "2 other slots on the server of pipeline shop are not in use",
                )],
            ),
        ],
    },
];
