//! Polled tables, and that no rule of the slot's is about them.

use crate::case::{Case, Fired, fires, quiet};

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "a row waits, and a backlog gets younger",
        interval: "1m",
        series: &[
            (
                r#"outbox_polling_oldest_pending_seconds{pipeline="shop",table="public.outbox"}"#,
                "0+60x20 0x20",
            ),
            (
                r#"outbox_polling_oldest_pending_seconds{pipeline="other",table="public.outbox"}"#,
                "290-10x20 0x20",
            ),
        ],
        checks: &[
            quiet("6m", "OutboxPollingPendingOld"),
            fires(
                "7m",
                "OutboxPollingPendingOld",
                &[Fired(
                    "severity=critical pipeline=shop table=public.outbox",
                    "the oldest pending row of public.outbox has waited for 7m 0s",
                )],
            ),
            quiet("25m", "OutboxPollingPendingOld"),
        ],
    },
    Case {
        name: "one worker of two ends and nobody takes its shards; a pair shares its table",
        interval: "15s",
        series: &[
            (
                r#"outbox_polling_shards_held{pipeline="shop",table="public.outbox",instance="a"}"#,
                "32x80",
            ),
            (
                r#"outbox_polling_shards_held{pipeline="shop",table="public.outbox",instance="b"}"#,
                "32x8 stale",
            ),
            (
                r#"outbox_polling_ready_rows{pipeline="shop",table="public.outbox",instance="a"}"#,
                "5x80",
            ),
            (
                r#"outbox_polling_shards_held{pipeline="pair",table="public.outbox",instance="a"}"#,
                "32x8 64x72",
            ),
            (
                r#"outbox_polling_shards_held{pipeline="pair",table="public.outbox",instance="b"}"#,
                "32x8 0x72",
            ),
            (
                r#"outbox_polling_ready_rows{pipeline="pair",table="public.outbox",instance="a"}"#,
                "5x80",
            ),
            // Nobody works, and nothing is to be done: no row is due.
            (
                r#"outbox_polling_pending_rows{pipeline="idle",table="public.outbox",instance="a"}"#,
                "9x80",
            ),
            (
                r#"outbox_polling_not_due_rows{pipeline="idle",table="public.outbox",instance="a"}"#,
                "9x80",
            ),
            (
                r#"outbox_polling_shards_held{pipeline="idle",table="public.outbox",instance="a"}"#,
                "0x80",
            ),
            (
                r#"outbox_polling_ready_rows{pipeline="idle",table="public.outbox",instance="a"}"#,
                "0x80",
            ),
        ],
        checks: &[
            quiet("5m", "OutboxPollingShardsUnheld"),
            fires(
                "7m",
                "OutboxPollingShardsUnheld",
                &[Fired(
                    "severity=critical pipeline=shop table=public.outbox",
                    "32 of 64 shards of public.outbox have no worker, and rows are pending",
                )],
            ),
        ],
    },
    Case {
        name: "rows are abandoned, and a person requeues them",
        interval: "15s",
        series: &[
            (
                r#"outbox_polling_abandoned_rows{pipeline="shop",table="public.outbox",instance="a"}"#,
                "0x4 2x20 0x20",
            ),
            (
                r#"outbox_polling_abandoned_rows{pipeline="shop",table="public.outbox",instance="b"}"#,
                "0x4 2x20 0x20",
            ),
        ],
        checks: &[
            quiet("1m", "OutboxPollingRowsAbandoned"),
            fires(
                "2m",
                "OutboxPollingRowsAbandoned",
                &[Fired(
                    "severity=warning pipeline=shop table=public.outbox",
                    "2 rows of public.outbox are abandoned",
                )],
            ),
            quiet("8m", "OutboxPollingRowsAbandoned"),
        ],
    },
    Case {
        name: "rows fail again and again; one fails now and then",
        interval: "1m",
        series: &[
            (
                r#"outbox_polling_retries_total{pipeline="shop",table="public.outbox"}"#,
                "0x5 2+2x30 62x40",
            ),
            (
                r#"outbox_polling_retries_total{pipeline="other",table="public.outbox"}"#,
                "0x5 1x10 2x30 3x40",
            ),
        ],
        checks: &[
            quiet("10m", "OutboxPollingRetries"),
            fires(
                "20m",
                "OutboxPollingRetries",
                &[Fired(
                    "severity=warning pipeline=shop table=public.outbox",
                    "rows of public.outbox fail again and again",
                )],
            ),
            quiet("60m", "OutboxPollingRetries"),
        ],
    },
    Case {
        name: "a worker is frozen again and again; another once",
        interval: "1m",
        series: &[
            (r#"outbox_polling_claims_lost_total{pipeline="shop"}"#, "0x5 1+1x10 11x40"),
            (r#"outbox_polling_claims_lost_total{pipeline="other"}"#, "0x5 1x50"),
        ],
        checks: &[
            quiet("7m", "OutboxPollingClaimsLost"),
            fires(
                "12m",
                "OutboxPollingClaimsLost",
                &[Fired(
                    "severity=warning pipeline=shop",
                    "workers of pipeline shop lose their leases while they work",
                )],
            ),
            quiet("40m", "OutboxPollingClaimsLost"),
        ],
    },
    Case {
        name: "the tables of leases are dropped, and made again",
        interval: "15s",
        series: &[
            (
                r#"outbox_errors_total{pipeline="shop",component="postgres",code="P042"}"#,
                "0x8 1+1x40 41x60",
            ),
            (r#"outbox_errors_total{pipeline="other",component="postgres",code="P042"}"#, "0x110"),
        ],
        checks: &[
            quiet("2m", "OutboxPollingLeasesUnusable"),
            fires(
                "5m",
                "OutboxPollingLeasesUnusable",
                &[Fired(
                    "severity=critical pipeline=shop",
                    "workers of pipeline shop cannot use outbox_router.lease",
                )],
            ),
            quiet("20m", "OutboxPollingLeasesUnusable"),
        ],
    },
    Case {
        name: "the tables are not counted; before the first count they are not, either",
        interval: "15s",
        series: &[
            (
                r#"outbox_polling_survey_timestamp_seconds{pipeline="shop",instance="a"}"#,
                "0+15x8 120x80",
            ),
            (
                r#"outbox_polling_survey_timestamp_seconds{pipeline="shop",instance="b"}"#,
                "0+15x8 120x80",
            ),
            (
                r#"outbox_polling_survey_timestamp_seconds{pipeline="other",instance="a"}"#,
                "0+15x80",
            ),
        ],
        checks: &[
            quiet("7m", "OutboxPollingSurveyStale"),
            fires(
                "9m",
                "OutboxPollingSurveyStale",
                &[Fired(
                    "severity=warning pipeline=shop",
                    "the polled tables of pipeline shop are not counted any more",
                )],
            ),
        ],
    },
    Case {
        name: "workers that poll: all begin, get no connection, and poll again",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="polling"}"#, "1x8 0x20 1x20"),
            (r#"outbox_state{pipeline="shop",state="starting"}"#, "0x8 1x20 0x20"),
            (r#"outbox_state{pipeline="shop",state="blocked"}"#, "0x50"),
            (r#"outbox_state{pipeline="shop",state="failed"}"#, "0x50"),
            // One of two begins again and again, and the other polls.
            (r#"outbox_state{pipeline="pair",state="polling",instance="a"}"#, "1x50"),
            (r#"outbox_state{pipeline="pair",state="starting",instance="b"}"#, "1x50"),
            (r#"outbox_state{pipeline="pair",state="blocked",instance="b"}"#, "0 1 0x48"),
        ],
        checks: &[
            quiet("2m", "OutboxNotConnected"),
            fires(
                "4m30s",
                "OutboxNotConnected",
                &[Fired("severity=critical pipeline=shop", "pipeline shop gets no connection")],
            ),
            quiet("9m", "OutboxNotConnected"),
            quiet("4m", "OutboxBlocked"),
        ],
    },
    Case {
        name: "workers that wait for shards are neither kept from a slot nor standbys",
        interval: "5m",
        series: &[
            (r#"outbox_build_info{pipeline="shop",version="0.1.0",instance="a"}"#, "1x400"),
            // Followed a slot, with a standby, and polls since then.
            (r#"outbox_state{pipeline="shop",state="standby",instance="a"}"#, "1x20 1x20 0x360"),
            (r#"outbox_state{pipeline="shop",state="polling",instance="a"}"#, "_x20 0x20 1x360"),
        ],
        checks: &[
            quiet("2h30m", "OutboxSlotHeldElsewhere"),
            quiet("2h30m", "OutboxStandbyMissing"),
            quiet("5h", "OutboxStandbyMissing"),
            quiet("5h", "OutboxSlotHeldElsewhere"),
        ],
    },
    Case {
        name: "a worker that was forgotten at the switch fails beside a router that stands by",
        interval: "15s",
        series: &[
            (r#"outbox_state{pipeline="shop",state="standby",instance="a"}"#, "1x40"),
            (r#"outbox_state{pipeline="shop",state="streaming",instance="a"}"#, "0x40"),
            (r#"outbox_state{pipeline="shop",state="failed",instance="b"}"#, "1x40"),
            (r#"outbox_state{pipeline="shop",state="polling",instance="b"}"#, "0x40"),
            // A worker that waits for shards does not stand by for the slot.
            (r#"outbox_state{pipeline="both",state="standby",instance="a"}"#, "0x40"),
            (r#"outbox_state{pipeline="both",state="streaming",instance="a"}"#, "1x40"),
            (r#"outbox_state{pipeline="both",state="standby",instance="b"}"#, "1x40"),
            (r#"outbox_state{pipeline="both",state="polling",instance="b"}"#, "0x40"),
        ],
        checks: &[fires(
            "5m",
            "OutboxSlotHeldElsewhere",
            &[Fired(
                "severity=critical pipeline=shop",
                "every router of pipeline shop stands by: another process has the slot",
            )],
        )],
    },
    Case {
        name: "a standby ends, and a worker that was forgotten at the switch is left",
        interval: "5m",
        series: &[
            (r#"outbox_build_info{pipeline="shop",version="0.1.0",instance="a"}"#, "1x40"),
            (r#"outbox_state{pipeline="shop",state="standby",instance="a"}"#, "0x40"),
            (r#"outbox_state{pipeline="shop",state="streaming",instance="a"}"#, "1x40"),
            (r#"outbox_state{pipeline="shop",state="standby",instance="b"}"#, "1x20 stale"),
            (r#"outbox_state{pipeline="shop",state="streaming",instance="b"}"#, "0x20 stale"),
            (r#"outbox_state{pipeline="shop",state="standby",instance="c"}"#, "0x40"),
            (r#"outbox_state{pipeline="shop",state="polling",instance="c"}"#, "0x40"),
            // One router, which never had a standby, and a worker that waited for shards.
            (r#"outbox_build_info{pipeline="one",version="0.1.0",instance="a"}"#, "1x40"),
            (r#"outbox_state{pipeline="one",state="standby",instance="a"}"#, "_x20 0x20"),
            (r#"outbox_state{pipeline="one",state="streaming",instance="a"}"#, "_x20 1x20"),
            (r#"outbox_state{pipeline="one",state="standby",instance="b"}"#, "1x20 stale"),
            (r#"outbox_state{pipeline="one",state="polling",instance="b"}"#, "0x20 stale"),
        ],
        checks: &[
            quiet("1h30m", "OutboxStandbyMissing"),
            fires(
                "2h30m",
                "OutboxStandbyMissing",
                &[Fired("severity=warning pipeline=shop", "pipeline shop has no standby any more")],
            ),
        ],
    },
    Case {
        name: "a pipeline was switched from its slot to polling",
        interval: "15s",
        series: &[
            (r#"outbox_build_info{pipeline="shop",version="0.1.0"}"#, "1x200"),
            (r#"outbox_state{pipeline="shop",state="streaming"}"#, "1x20 stale"),
            (r#"outbox_state{pipeline="shop",state="polling"}"#, "_x21 1x180"),
            (r#"outbox_slot_exists{pipeline="shop",slot="s"}"#, "1x20 stale"),
            (r#"outbox_slot_active{pipeline="shop",slot="s"}"#, "1x20 stale"),
            (r#"outbox_slot_bytes_behind{pipeline="shop",slot="s"}"#, "9e9x20 stale"),
            (
                r#"outbox_slot_bytes_behind_threshold{pipeline="shop",slot="s",severity="critical"}"#,
                "2e9x20 stale",
            ),
            (
                r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s"}"#,
                "0+15x20 stale",
            ),
            (
                r#"outbox_slot_figures_last_poll_timestamp_seconds{pipeline="shop",slot="s"}"#,
                "0+15x20 stale",
            ),
            (r#"outbox_slot_seconds_to_limit{pipeline="shop",slot="s"}"#, "10x20 stale"),
        ],
        checks: &[
            quiet("20m", "OutboxSlotBytesBehindCritical"),
            quiet("20m", "OutboxSlotInactive"),
            quiet("20m", "OutboxSlotMissing"),
            quiet("20m", "OutboxSlotMonitorStale"),
            quiet("20m", "OutboxSlotWalAlmostGone"),
            quiet("20m", "OutboxRouterAbsent"),
        ],
    },
];
