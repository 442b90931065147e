//! An hour in which nothing is wrong: a router and its standby, and two workers that poll; an event
//! every few seconds.

use std::sync::LazyLock;

use outbox_router::alerts::alerts;

use crate::case::{Case, Check, quiet};

/// What the rules read of a pipeline at work, and a standby, which stands by all the time.
const SERIES: &[(&str, &str)] = &[
    (r#"outbox_build_info{pipeline="shop",version="0.1.0",instance="a"}"#, "1x240"),
    (r#"outbox_build_info{pipeline="shop",version="0.1.0",instance="b"}"#, "1x240"),
    (r#"outbox_state{pipeline="shop",state="starting",instance="a"}"#, "1 0x240"),
    (r#"outbox_state{pipeline="shop",state="starting",instance="b"}"#, "1 0x240"),
    (r#"outbox_state{pipeline="shop",state="standby",instance="a"}"#, "0x240"),
    (r#"outbox_state{pipeline="shop",state="standby",instance="b"}"#, "0 1x240"),
    (r#"outbox_state{pipeline="shop",state="streaming",instance="a"}"#, "0 1x240"),
    (r#"outbox_state{pipeline="shop",state="streaming",instance="b"}"#, "0x240"),
    (r#"outbox_state{pipeline="shop",state="blocked",instance="a"}"#, "0x240"),
    (r#"outbox_state{pipeline="shop",state="blocked",instance="b"}"#, "0x240"),
    (r#"outbox_state{pipeline="shop",state="failed",instance="a"}"#, "0x240"),
    (r#"outbox_state{pipeline="shop",state="failed",instance="b"}"#, "0x240"),
    (r#"outbox_reconnects_total{pipeline="shop",peer="postgres",instance="a"}"#, "0x100 1x140"),
    (r#"outbox_reconnects_total{pipeline="shop",peer="kafka",instance="a"}"#, "0x240"),
    (r#"outbox_oldest_unacked_age_seconds{pipeline="shop",instance="a"}"#, "0 0.003 0x238"),
    (r#"outbox_oldest_unacked_age_seconds{pipeline="shop",instance="b"}"#, "0x240"),
    (r#"outbox_seconds_without_progress{pipeline="shop",instance="a"}"#, "0 0.2 0x238"),
    (r#"outbox_seconds_without_progress{pipeline="shop",instance="b"}"#, "0x240"),
    (
        r#"outbox_errors_total{pipeline="shop",component="postgres",code="P001",instance="a"}"#,
        "0x100 1x140",
    ),
    (
        r#"outbox_errors_total{pipeline="shop",component="postgres",code="P012",instance="b"}"#,
        "0 1x240",
    ),
    (r#"outbox_events_total{pipeline="shop",topic="t",result="acked",instance="a"}"#, "0+3x240"),
    (r#"outbox_events_total{pipeline="shop",topic="_other",result="acked",instance="b"}"#, "0x240"),
    (r#"outbox_gaps_open{pipeline="shop",instance="a"}"#, "0x240"),
    (r#"outbox_gaps_open{pipeline="shop",instance="b"}"#, "0x240"),
    (r#"outbox_witness_missing{pipeline="shop",instance="a"}"#, "0x240"),
    (r#"outbox_topics_lost{pipeline="shop",instance="a"}"#, "0x240"),
    (r#"outbox_slot_bytes_behind{pipeline="shop",slot="s",instance="a"}"#, "0 1000 0 90000 0x236"),
    (r#"outbox_slot_bytes_behind{pipeline="shop",slot="s",instance="b"}"#, "0 0 7000 0x237"),
    (
        r#"outbox_slot_bytes_behind_threshold{pipeline="shop",slot="s",severity="warning",instance="a"}"#,
        "268435456x240",
    ),
    (
        r#"outbox_slot_bytes_behind_threshold{pipeline="shop",slot="s",severity="critical",instance="a"}"#,
        "2147483648x240",
    ),
    (r#"outbox_slot_active{pipeline="shop",slot="s",instance="a"}"#, "0 1x240"),
    (r#"outbox_slot_active{pipeline="shop",slot="s",instance="b"}"#, "0 1x240"),
    (r#"outbox_slot_exists{pipeline="shop",slot="s",instance="a"}"#, "0 1x240"),
    (r#"outbox_slot_exists{pipeline="shop",slot="s",instance="b"}"#, "0 1x240"),
    (
        r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s",instance="a"}"#,
        "0+15x240",
    ),
    (
        r#"outbox_slot_last_poll_timestamp_seconds{pipeline="shop",slot="s",instance="b"}"#,
        "0+15x240",
    ),
    (
        r#"outbox_slot_figures_last_poll_timestamp_seconds{pipeline="shop",slot="s",instance="a"}"#,
        "0+15x240",
    ),
    (r#"outbox_verdict{pipeline="shop",verdict="ok",instance="a"}"#, "0x2 1x240"),
    (r#"outbox_verdict{pipeline="shop",verdict="catching_up",instance="a"}"#, "1x2 0x240"),
    (r#"outbox_verdict{pipeline="shop",verdict="failed",instance="a"}"#, "0x242"),
    (r#"outbox_verdict{pipeline="shop",verdict="standby",instance="b"}"#, "1x242"),
    (r#"outbox_slot_seconds_to_limit{pipeline="shop",slot="s",instance="a"}"#, "1e18x240"),
    (
        r#"outbox_slot_wal_status{pipeline="shop",slot="s",wal_status="reserved",instance="a"}"#,
        "1x240",
    ),
    (
        r#"outbox_slot_wal_status{pipeline="shop",slot="s",wal_status="unreserved",instance="a"}"#,
        "0x240",
    ),
    (r#"outbox_slot_wal_status{pipeline="shop",slot="s",wal_status="lost",instance="a"}"#, "0x240"),
    (r#"outbox_slot_pin_age_seconds{pipeline="shop",slot="s",instance="a"}"#, "0 15 30 45 0x236"),
    (r#"outbox_slot_others_inactive{pipeline="shop",slot="s",instance="a"}"#, "0x240"),
    (r#"outbox_held_keys{pipeline="shop",instance="a"}"#, "0x240"),
    (r#"outbox_held_oldest_seconds{pipeline="shop",instance="a"}"#, "0x240"),
    (r#"outbox_held_decided{pipeline="shop",instance="a"}"#, "0x240"),
    (r#"outbox_held_delivered_total{pipeline="shop",instance="a"}"#, "0x240"),
    (r#"outbox_held_dropped_total{pipeline="shop",instance="a"}"#, "0x240"),
    (
        r#"outbox_retention_last_success_timestamp_seconds{pipeline="shop",instance="a"}"#,
        "0+15x240",
    ),
    (r#"outbox_retention_keep_seconds{pipeline="shop",instance="a"}"#, "86400x240"),
    (r#"outbox_table_bytes{pipeline="shop",table="public.outbox",instance="a"}"#, "16384x240"),
    (r#"outbox_table_rows{pipeline="shop",table="public.outbox",instance="a"}"#, "1000x240"),
    (
        r#"outbox_table_oldest_row_seconds{pipeline="shop",table="public.outbox",instance="a"}"#,
        "86000x240",
    ),
];

/// No alert fires, at any of these times.
pub(crate) static CALM_HOUR: LazyLock<Case> = LazyLock::new(|| {
    let checks: Vec<Check> = alerts()
        .flat_map(|alert| ["2m", "10m", "30m", "60m"].map(|at| quiet(at, alert.name)))
        .collect();
    Case { name: "a calm hour", interval: "15s", series: SERIES, checks: checks.leak() }
});

/// What the rules read of two workers that share a table.
const POLLING: &[(&str, &str)] = &[
    (r#"outbox_build_info{pipeline="shop",version="0.1.0",instance="a"}"#, "1x240"),
    (r#"outbox_build_info{pipeline="shop",version="0.1.0",instance="b"}"#, "1x240"),
    (r#"outbox_state{pipeline="shop",state="starting",instance="a"}"#, "1 0x240"),
    (r#"outbox_state{pipeline="shop",state="starting",instance="b"}"#, "1 0x240"),
    (r#"outbox_state{pipeline="shop",state="standby",instance="a"}"#, "0x240"),
    (r#"outbox_state{pipeline="shop",state="standby",instance="b"}"#, "0 1 0x239"),
    (r#"outbox_state{pipeline="shop",state="polling",instance="a"}"#, "0 1x240"),
    (r#"outbox_state{pipeline="shop",state="polling",instance="b"}"#, "0 0 1x239"),
    (r#"outbox_state{pipeline="shop",state="blocked",instance="a"}"#, "0x240"),
    (r#"outbox_state{pipeline="shop",state="failed",instance="a"}"#, "0x240"),
    (r#"outbox_verdict{pipeline="shop",verdict="ok",instance="a"}"#, "0x2 1x240"),
    (r#"outbox_verdict{pipeline="shop",verdict="failed",instance="a"}"#, "0x242"),
    (r#"outbox_reconnects_total{pipeline="shop",peer="postgres",instance="a"}"#, "0x100 1x140"),
    (r#"outbox_seconds_without_progress{pipeline="shop",instance="a"}"#, "0 0.2 0x238"),
    (
        r#"outbox_errors_total{pipeline="shop",component="postgres",code="P042",instance="a"}"#,
        "0x240",
    ),
    (
        r#"outbox_errors_total{pipeline="shop",component="postgres",code="P001",instance="a"}"#,
        "0x100 1x140",
    ),
    (r#"outbox_events_total{pipeline="shop",topic="t",result="acked",instance="a"}"#, "0+3x240"),
    (r#"outbox_events_total{pipeline="shop",topic="t",result="acked",instance="b"}"#, "0+3x240"),
    (
        r#"outbox_polling_shards_held{pipeline="shop",table="public.outbox",instance="a"}"#,
        "0 64x3 32x240",
    ),
    (
        r#"outbox_polling_shards_held{pipeline="shop",table="public.outbox",instance="b"}"#,
        "0x4 32x240",
    ),
    (
        r#"outbox_polling_pending_rows{pipeline="shop",table="public.outbox",instance="a"}"#,
        "3 0 2 1x240",
    ),
    (
        r#"outbox_polling_ready_rows{pipeline="shop",table="public.outbox",instance="a"}"#,
        "3 0 2 1x240",
    ),
    (
        r#"outbox_polling_oldest_pending_seconds{pipeline="shop",table="public.outbox",instance="a"}"#,
        "90 0 0.4 0.2x240",
    ),
    (
        r#"outbox_polling_abandoned_rows{pipeline="shop",table="public.outbox",instance="a"}"#,
        "0x240",
    ),
    (
        r#"outbox_polling_retries_total{pipeline="shop",table="public.outbox",instance="a"}"#,
        "0x100 1x140",
    ),
    (r#"outbox_polling_claims_lost_total{pipeline="shop",instance="a"}"#, "0x100 1x140"),
    (r#"outbox_polling_survey_timestamp_seconds{pipeline="shop",instance="a"}"#, "0+15x240"),
];

/// No alert fires of them either, whatever it is about.
pub(crate) static CALM_HOUR_OF_POLLING: LazyLock<Case> = LazyLock::new(|| {
    let checks: Vec<Check> = alerts()
        .flat_map(|alert| ["2m", "10m", "30m", "60m"].map(|at| quiet(at, alert.name)))
        .collect();
    let name = "a calm hour of two workers";
    Case { name, interval: "15s", series: POLLING, checks: checks.leak() }
});
