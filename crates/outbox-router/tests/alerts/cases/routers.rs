//! Whether a router runs, streams, and has a standby.

use crate::case::{Case, Fired, fires, quiet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "one pipeline of two vanishes; of a third, one router of two",
        interval: "15s",
        series: &[
            (r#"outbox_build_info{pipeline="shop",version="0.1.0",instance="a"}"#, "1x8 stale"),
            (r#"outbox_build_info{pipeline="other",version="0.1.0",instance="b"}"#, "1x160"),
            (r#"outbox_build_info{pipeline="pair",version="0.1.0",instance="c"}"#, "1x8 stale"),
            (r#"outbox_build_info{pipeline="pair",version="0.1.0",instance="d"}"#, "1x160"),
        ],
        checks: &[
            quiet("4m", "OutboxRouterAbsent"),
            fires("4m15s", "OutboxRouterAbsent", SHOP_ABSENT),
            // It does not resolve while the router is away.
            fires("40m", "OutboxRouterAbsent", SHOP_ABSENT),
        ],
    },
    Case {
        name: "the only router is gone, and comes back",
        interval: "15s",
        series: &[(r#"outbox_build_info{pipeline="shop",version="0.1.0"}"#, "1x8 stale _x30 1x8")],
        checks: &[
            quiet("2m", "OutboxRouterAbsent"),
            fires("6m", "OutboxRouterAbsent", SHOP_ABSENT),
            quiet("11m", "OutboxRouterAbsent"),
        ],
    },
    Case {
        name: "no router was ever scraped",
        interval: "15s",
        series: &[(r#"up{job="outbox-router"}"#, "0x20")],
        checks: &[
            quiet("1m45s", "OutboxRouterAbsent"),
            fires(
                "2m",
                "OutboxRouterAbsent",
                &[Fired("severity=critical", "no outbox router is scraped")],
            ),
        ],
    },
    Case {
        name: "PostgreSQL is away for some minutes; a router starts within seconds",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="streaming"}"#, "1x8 0x20 1x20"),
            (r#"outbox_state{pipeline="shop",state="starting"}"#, "0x8 1x20 0x20"),
            (r#"outbox_state{pipeline="shop",state="blocked"}"#, "0x50"),
            (r#"outbox_state{pipeline="shop",state="failed"}"#, "0x50"),
            (r#"outbox_state{pipeline="new",state="streaming"}"#, "0x2 1x50"),
            (r#"outbox_state{pipeline="new",state="starting"}"#, "1x2 0x50"),
        ],
        checks: &[
            quiet("2m15s", "OutboxNotConnected"),
            fires(
                "4m30s",
                "OutboxNotConnected",
                &[Fired("severity=critical pipeline=shop", "pipeline shop gets no connection")],
            ),
            fires(
                "7m15s",
                "OutboxNotConnected",
                &[Fired("severity=critical pipeline=shop", "pipeline shop gets no connection")],
            ),
            quiet("9m", "OutboxNotConnected"),
        ],
    },
    Case {
        name: "one router of two gets no connection, and the other streams",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="streaming",instance="a"}"#, "1x8 0x40"),
            (r#"outbox_state{pipeline="shop",state="starting",instance="a"}"#, "0x8 1x40"),
            (r#"outbox_state{pipeline="shop",state="standby",instance="b"}"#, "1x8 0x40"),
            (r#"outbox_state{pipeline="shop",state="streaming",instance="b"}"#, "0x8 1x40"),
        ],
        checks: &[quiet("5m", "OutboxNotConnected"), quiet("10m", "OutboxNotConnected")],
    },
    Case {
        name: "Kafka is away: blocked, with attempts to connect in between; for a moment only",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="streaming"}"#, "1x8 0x20 1x20"),
            (
                r#"outbox_state{pipeline="shop",state="blocked"}"#,
                "0x8 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0x20",
            ),
            (
                r#"outbox_state{pipeline="shop",state="starting"}"#,
                "0x8 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 0x20",
            ),
            (r#"outbox_state{pipeline="brief",state="streaming"}"#, "1x8 0x1 1x40"),
            (r#"outbox_state{pipeline="brief",state="blocked"}"#, "0x8 1x1 0x40"),
        ],
        checks: &[
            quiet("2m30s", "OutboxBlocked"),
            fires(
                "4m30s",
                "OutboxBlocked",
                &[Fired("severity=critical pipeline=shop", "pipeline shop is blocked by Kafka")],
            ),
            quiet("4m", "OutboxNotConnected"),
            fires(
                "7m",
                "OutboxBlocked",
                &[Fired("severity=critical pipeline=shop", "pipeline shop is blocked by Kafka")],
            ),
            quiet("10m", "OutboxBlocked"),
        ],
    },
    Case {
        name: "a row stops the stream, and is tried again; a standby cannot help; another can",
        interval: "15s",
        series: &[
            (
                r#"outbox_state{pipeline="shop",state="failed",instance="a"}"#,
                "0x8 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0x20",
            ),
            (
                r#"outbox_state{pipeline="shop",state="streaming",instance="a"}"#,
                "1x8 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1x20",
            ),
            (r#"outbox_state{pipeline="shop",state="standby",instance="b"}"#, "1x50"),
            (r#"outbox_state{pipeline="shop",state="failed",instance="b"}"#, "0x50"),
            (r#"outbox_state{pipeline="helped",state="failed",instance="a"}"#, "0x8 1x40"),
            (r#"outbox_state{pipeline="helped",state="streaming",instance="b"}"#, "0x8 1x40"),
        ],
        checks: &[
            quiet("2m30s", "OutboxFailed"),
            fires(
                "4m45s",
                "OutboxFailed",
                &[Fired(
                    "severity=critical pipeline=shop",
                    "pipeline shop has stopped: a person is needed",
                )],
            ),
            fires(
                "7m",
                "OutboxFailed",
                &[Fired(
                    "severity=critical pipeline=shop",
                    "pipeline shop has stopped: a person is needed",
                )],
            ),
            quiet("7m", "OutboxSlotHeldElsewhere"),
            quiet("10m", "OutboxFailed"),
        ],
    },
    Case {
        name: "both routers stand by: another process has the slot; else one of two streams",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="standby",instance="a"}"#, "0x8 1x20 0x20"),
            (r#"outbox_state{pipeline="shop",state="streaming",instance="a"}"#, "1x8 0x20 1x20"),
            (r#"outbox_state{pipeline="shop",state="standby",instance="b"}"#, "1x50"),
            (r#"outbox_state{pipeline="shop",state="streaming",instance="b"}"#, "0x50"),
            (r#"outbox_state{pipeline="pair",state="standby",instance="c"}"#, "1x50"),
            (r#"outbox_state{pipeline="pair",state="streaming",instance="d"}"#, "1x50"),
        ],
        checks: &[
            quiet("3m", "OutboxSlotHeldElsewhere"),
            fires(
                "5m",
                "OutboxSlotHeldElsewhere",
                &[Fired(
                    "severity=critical pipeline=shop",
                    "every router of pipeline shop stands by: another process has the slot",
                )],
            ),
            quiet("8m", "OutboxSlotHeldElsewhere"),
        ],
    },
    Case {
        name: "the standby ends; a new process of a roll-out was none",
        interval: "1m",
        series: &[
            (r#"outbox_build_info{pipeline="shop",version="0.1.0",instance="a"}"#, "1x120"),
            (r#"outbox_state{pipeline="shop",state="standby",instance="a"}"#, "0x120"),
            (r#"outbox_state{pipeline="shop",state="standby",instance="b"}"#, "1x60 stale"),
            (r#"outbox_build_info{pipeline="single",version="0.1.0",instance="c"}"#, "1x60 stale"),
            (r#"outbox_build_info{pipeline="single",version="0.1.1",instance="d"}"#, "_x59 1x61"),
            (r#"outbox_state{pipeline="single",state="standby",instance="c"}"#, "0x60 stale"),
            (r#"outbox_state{pipeline="single",state="standby",instance="d"}"#, "_x59 1x2 0x59"),
            (r#"outbox_build_info{pipeline="pair",version="0.1.0",instance="e"}"#, "1x120"),
            (r#"outbox_state{pipeline="pair",state="standby",instance="f"}"#, "1x120"),
        ],
        checks: &[
            quiet("70m", "OutboxStandbyMissing"),
            fires(
                "72m",
                "OutboxStandbyMissing",
                &[Fired("severity=warning pipeline=shop", "pipeline shop has no standby any more")],
            ),
        ],
    },
    Case {
        name: "connections are replaced again and again; and now and then",
        interval: "1m",
        series: &[
            (r#"outbox_reconnects_total{pipeline="shop",peer="postgres",instance="a"}"#, "0+1x60"),
            (r#"outbox_reconnects_total{pipeline="shop",peer="postgres",instance="b"}"#, "0+1x60"),
            (r#"outbox_reconnects_total{pipeline="shop",peer="kafka",instance="a"}"#, "0x60"),
            (
                r#"outbox_reconnects_total{pipeline="calm",peer="postgres",instance="c"}"#,
                "0x10 1x20 2x20 3x10",
            ),
        ],
        checks: &[
            quiet("4m", "OutboxReconnectFlapping"),
            fires(
                "20m",
                "OutboxReconnectFlapping",
                &[Fired(
                    "severity=warning pipeline=shop peer=postgres",
                    "pipeline shop loses its connection to postgres again and again",
                )],
            ),
        ],
    },
];

const SHOP_ABSENT: &[Fired] =
    &[Fired("severity=critical pipeline=shop", "no router of pipeline shop is scraped")];
