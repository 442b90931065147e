//! Delivered rows that are not removed.

use crate::case::{Case, Fired, fires, quiet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "no delivered row has been removed for an hour",
        interval: "1m",
        series: &[
            (
                r#"outbox_retention_last_success_timestamp_seconds{pipeline="shop"}"#,
                "0x80 4860+60x40",
            ),
            (r#"outbox_state{pipeline="shop",state="streaming"}"#, "1x120"),
            (r#"outbox_retention_last_success_timestamp_seconds{pipeline="standby"}"#, "0x120"),
            (r#"outbox_state{pipeline="standby",state="streaming"}"#, "0x120"),
            (r#"outbox_retention_last_success_timestamp_seconds{pipeline="other"}"#, "0+60x120"),
            (r#"outbox_state{pipeline="other",state="streaming"}"#, "1x120"),
            (
                r#"outbox_retention_last_success_timestamp_seconds{pipeline="polls"}"#,
                "0x80 4860+60x40",
            ),
            (r#"outbox_state{pipeline="polls",state="polling"}"#, "1x120"),
        ],
        checks: &[
            quiet("65m", "OutboxRetentionStopped"),
            fires(
                "75m",
                "OutboxRetentionStopped",
                &[
                    Fired(
                        "severity=warning pipeline=polls",
                        "pipeline polls has removed no delivered rows for 1h 15m 0s",
                    ),
                    Fired(
                        "severity=warning pipeline=shop",
                        "pipeline shop has removed no delivered rows for 1h 15m 0s",
                    ),
                ],
            ),
            quiet("90m", "OutboxRetentionStopped"),
        ],
    },
    Case {
        name: "a table grows although retention is on",
        interval: "1m",
        series: &[
            (r#"outbox_table_rows{pipeline="shop",table="public.outbox"}"#, "1000+1x600"),
            (
                r#"outbox_table_oldest_row_seconds{pipeline="shop",table="public.outbox"}"#,
                "86000+60x600",
            ),
            (r#"outbox_retention_keep_seconds{pipeline="shop"}"#, "86400x600"),
            (r#"outbox_table_rows{pipeline="young",table="public.outbox"}"#, "1000+10x600"),
            (
                r#"outbox_table_oldest_row_seconds{pipeline="young",table="public.outbox"}"#,
                "86500x600",
            ),
            (r#"outbox_retention_keep_seconds{pipeline="young"}"#, "86400x600"),
            (r#"outbox_table_rows{pipeline="level",table="public.outbox"}"#, "1000x600"),
            (
                r#"outbox_table_oldest_row_seconds{pipeline="level",table="public.outbox"}"#,
                "186400x600",
            ),
            (r#"outbox_retention_keep_seconds{pipeline="level"}"#, "86400x600"),
        ],
        checks: &[
            quiet("6h", "OutboxTableGrows"),
            fires(
                "7h",
                "OutboxTableGrows",
                &[Fired(
                    "severity=warning pipeline=shop table=public.outbox",
                    "outbox table public.outbox grows, and its rows are not removed",
                )],
            ),
        ],
    },
    Case {
        name: "without retention a table only grows; others are level, swept, or young",
        interval: "5m",
        series: &[
            // 200 MiB a day, and 1 MiB a day.
            (r#"outbox_table_bytes{pipeline="shop",table="public.outbox"}"#, "0+728178x2880"),
            (r#"outbox_table_bytes{pipeline="slow",table="public.outbox"}"#, "0+3641x2880"),
            (r#"outbox_table_bytes{pipeline="level",table="public.outbox"}"#, "9000000000x2880"),
            (r#"outbox_table_bytes{pipeline="swept",table="public.outbox"}"#, "0+728178x2880"),
            (r#"outbox_retention_keep_seconds{pipeline="swept"}"#, "86400x2880"),
            // Linear growth for days, with retention on, from the beginning of the table.
            (r#"outbox_table_rows{pipeline="stuck",table="public.outbox"}"#, "0+100x2880"),
            (
                r#"outbox_table_oldest_row_seconds{pipeline="stuck",table="public.outbox"}"#,
                "0+300x2880",
            ),
            (r#"outbox_retention_keep_seconds{pipeline="stuck"}"#, "86400x2880"),
        ],
        checks: &[
            quiet("20h", "OutboxTableGrows"),
            fires("30h", "OutboxTableGrows", &[STUCK_GROWS]),
            fires("8d", "OutboxTableGrows", &[STUCK_GROWS, SHOP_GROWS]),
            fires("9d", "OutboxTableGrows", &[STUCK_GROWS, SHOP_GROWS]),
        ],
    },
];

const GROWS: &str = "outbox table public.outbox grows, and its rows are not removed";
const STUCK_GROWS: Fired = Fired("severity=warning pipeline=stuck table=public.outbox", GROWS);
const SHOP_GROWS: Fired = Fired("severity=warning pipeline=shop table=public.outbox", GROWS);
