//! Alerts on delivered rows that are not removed. Where retention is off, none of their series
//! exists.

use super::alert::{Alert, Expression, MINUTE, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "OutboxRetentionStopped",
        expression: Expression::Same(
            "time() - max by (namespace, pipeline) \
             (outbox_retention_last_success_timestamp_seconds) > 3600 \
             and on (namespace, pipeline) \
             max by (namespace, pipeline) (outbox_state{state=\"streaming\"}) == 1",
        ),
        hold: 10 * MINUTE,
        severity: Severity::Warning,
        summary: "pipeline {{ $labels.pipeline }} has removed no delivered rows for \
                  {{ $value | humanizeDuration }}",
        description: "[retention] is on and the router streams, but no sweep over the tables has \
                      ended without an error for an hour. /status.json says why (retention.failure, \
                      retention.waits), and the log has what to type (P038). Events flow; the \
                      tables grow.",
    },
    Alert {
        name: "OutboxTableGrows",
        expression: Expression::Same(
            "max by (namespace, pipeline, table) (outbox_table_rows) \
             > 1.2 * max by (namespace, pipeline, table) (outbox_table_rows offset 6h) \
             and max by (namespace, pipeline, table) (outbox_table_oldest_row_seconds) \
             > on (namespace, pipeline) group_left () \
             (max by (namespace, pipeline) (outbox_retention_keep_seconds) + 3600)",
        ),
        hold: 15 * MINUTE,
        severity: Severity::Warning,
        summary: "outbox table {{ $labels.table }} grows, and has rows that should be gone",
        description: "[retention] is on, the oldest row is an hour older than retention.keep, and \
                      the table has a fifth more rows than six hours ago. Rows stay while they are \
                      not delivered (outbox_slot_bytes_behind), while a transaction has been open \
                      for long, and while their events are dead letters; or a sweep is slower than \
                      the writers (retention.batch, pause, interval). `outbox-router cleanup \
                      --dry-run` counts the rows by reason.",
    },
];
