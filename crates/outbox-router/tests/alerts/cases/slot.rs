//! How far behind the slot is, and whether it is there and in use.

use crate::case::{Case, Fired, fires, quiet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "far behind, past both limits; exported by two routers, alerted once",
        interval: "1m",
        series: &[
            (r#"outbox_slot_bytes_behind{pipeline="shop",slot="s",instance="a"}"#, "3221225472x20"),
            (r#"outbox_slot_bytes_behind{pipeline="shop",slot="s",instance="b"}"#, "3221225472x20"),
            (
                r#"outbox_slot_bytes_behind_threshold{pipeline="shop",slot="s",severity="warning",instance="a"}"#,
                "268435456x20",
            ),
            (
                r#"outbox_slot_bytes_behind_threshold{pipeline="shop",slot="s",severity="critical",instance="a"}"#,
                "2147483648x20",
            ),
        ],
        checks: &[
            quiet("4m", "OutboxSlotBytesBehindWarning"),
            quiet("4m", "OutboxSlotBytesBehindCritical"),
            fires(
                "5m",
                "OutboxSlotBytesBehindWarning",
                &[Fired("severity=warning pipeline=shop slot=s", "slot s is 3GiB behind")],
            ),
            fires(
                "5m",
                "OutboxSlotBytesBehindCritical",
                &[Fired(
                    "severity=critical pipeline=shop slot=s",
                    "slot s is 3GiB behind: the disk or the slot is at risk",
                )],
            ),
        ],
    },
    Case {
        name: "between the limits; each pipeline has its own",
        interval: "1m",
        series: &[
            (r#"outbox_slot_bytes_behind{pipeline="shop",slot="s"}"#, "1000x20"),
            (
                r#"outbox_slot_bytes_behind_threshold{pipeline="shop",slot="s",severity="warning"}"#,
                "2000x20",
            ),
            (
                r#"outbox_slot_bytes_behind_threshold{pipeline="shop",slot="s",severity="critical"}"#,
                "3000x20",
            ),
            (
                r#"outbox_slot_bytes_behind_threshold{pipeline="other",slot="s",severity="warning"}"#,
                "10x20",
            ),
        ],
        checks: &[
            quiet("10m", "OutboxSlotBytesBehindWarning"),
            quiet("10m", "OutboxSlotBytesBehindCritical"),
        ],
    },
    Case {
        name: "PostgreSQL does not answer: the values stay, their age grows, nothing resolves",
        interval: "15s",
        series: &[
            (r#"outbox_slot_bytes_behind{pipeline="shop",slot="s"}"#, "3000x100"),
            (
                r#"outbox_slot_bytes_behind_threshold{pipeline="shop",slot="s",severity="critical"}"#,
                "2000x100",
            ),
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s"}"#,
                "0+15x24 360x76",
            ),
            // A router that has never read anything.
            (r#"outbox_slot_last_poll_timestamp_seconds{pipeline="new",slot="s"}"#, "_x60 0x40"),
            // One of two routers still reads.
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="pair",slot="s",instance="a"}"#,
                "0+15x24 360x76",
            ),
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="pair",slot="s",instance="b"}"#,
                "0+15x100",
            ),
        ],
        checks: &[
            quiet("8m", "OutboxSlotMonitorStale"),
            fires("8m15s", "OutboxSlotMonitorStale", SHOP_STALE),
            fires(
                "8m15s",
                "OutboxSlotBytesBehindCritical",
                &[Fired(
                    "severity=critical pipeline=shop slot=s",
                    "slot s is 2.93kiB behind: the disk or the slot is at risk",
                )],
            ),
            fires(
                "24m",
                "OutboxSlotBytesBehindCritical",
                &[Fired(
                    "severity=critical pipeline=shop slot=s",
                    "slot s is 2.93kiB behind: the disk or the slot is at risk",
                )],
            ),
            fires(
                "24m",
                "OutboxSlotMonitorStale",
                &[
                    SHOP_STALE_ONE,
                    Fired(
                        "severity=warning pipeline=new slot=s",
                        "the state of slot s is not read from PostgreSQL any more",
                    ),
                ],
            ),
        ],
    },
    Case {
        name: "no router streams; a standby that reads of a holder prevents the alert",
        interval: "1m",
        series: &[
            (r#"outbox_slot_active{pipeline="idle",slot="s",instance="a"}"#, "0x20"),
            (r#"outbox_slot_active{pipeline="shop",slot="s",instance="a"}"#, "0x20"),
            (r#"outbox_slot_active{pipeline="shop",slot="s",instance="b"}"#, "1x20"),
        ],
        checks: &[
            quiet("1m", "OutboxSlotInactive"),
            fires(
                "2m",
                "OutboxSlotInactive",
                &[Fired("severity=critical pipeline=idle slot=s", "no router streams from slot s")],
            ),
        ],
    },
    Case {
        name: "the slot was dropped, and one of two routers cannot see it; nobody has looked yet",
        interval: "15s",
        series: &[
            (r#"outbox_slot_exists{pipeline="shop",slot="s",instance="a"}"#, "1x8 0x20 1x20"),
            (r#"outbox_slot_exists{pipeline="shop",slot="s",instance="b"}"#, "1x50"),
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s",instance="a"}"#,
                "0+15x50",
            ),
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s",instance="b"}"#,
                "0+15x8 120x42",
            ),
            (r#"outbox_slot_exists{pipeline="new",slot="s"}"#, "0x50"),
            (r#"outbox_slot_last_poll_timestamp_seconds{pipeline="new",slot="s"}"#, "0x50"),
        ],
        checks: &[
            quiet("3m", "OutboxSlotMissing"),
            fires(
                "3m15s",
                "OutboxSlotMissing",
                &[Fired("severity=critical pipeline=shop slot=s", "slot s does not exist")],
            ),
            quiet("8m", "OutboxSlotMissing"),
        ],
    },
];

const SHOP_STALE_ONE: Fired = Fired(
    "severity=warning pipeline=shop slot=s",
    "the state of slot s is not read from PostgreSQL any more",
);

const SHOP_STALE: &[Fired] = &[SHOP_STALE_ONE];
