//! The rules of one configuration: its pipeline may be missing from the beginning, and no other is
//! its business.

use crate::case::{Case, Fired, fires, quiet};

/// The cases of the rules that `alerts` prints for the pipeline `shop` with the slot `s`.
pub(crate) const OF_ONE: &[Case] = &[
    Case {
        name: "the pipeline was never scraped, and another one is",
        interval: "15s",
        series: &[(r#"outbox_build_info{pipeline="other",version="0.1.0"}"#, "1x100")],
        checks: &[
            quiet("1m45s", "OutboxRouterAbsent"),
            fires(
                "2m",
                "OutboxRouterAbsent",
                &[Fired(
                    "severity=critical pipeline=shop",
                    "no router of pipeline shop is scraped",
                )],
            ),
        ],
    },
    Case {
        name: "another pipeline vanishes and loses its slot",
        interval: "15s",
        series: &[
            (r#"outbox_build_info{pipeline="shop",version="0.1.0"}"#, "1x100"),
            (r#"outbox_build_info{pipeline="other",version="0.1.0"}"#, "1x8 stale"),
            (r#"outbox_slot_wal_status{pipeline="other",slot="s",wal_status="lost"}"#, "1x100"),
            (r#"outbox_slot_wal_status{pipeline="shop",slot="s",wal_status="lost"}"#, "0x100"),
            (r#"outbox_slot_wal_status{pipeline="shop",slot="t",wal_status="lost"}"#, "1x100"),
        ],
        checks: &[quiet("10m", "OutboxRouterAbsent"), quiet("10m", "OutboxSlotLost")],
    },
    Case {
        name: "the slot is lost",
        interval: "15s",
        series: &[(
            r#"outbox_slot_wal_status{pipeline="shop",slot="s",wal_status="lost"}"#,
            "0x8 1x20",
        )],
        checks: &[
            quiet("2m", "OutboxSlotLost"),
            fires(
                "2m15s",
                "OutboxSlotLost",
                &[Fired(
                    "severity=critical pipeline=shop slot=s",
                    "slot s is lost: events are missing in Kafka",
                )],
            ),
        ],
    },
];
