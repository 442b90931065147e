//! Alerts on delivered rows that are not removed. Where retention is off, only the sizes of the
//! tables are exported; nothing tells then which rows should be gone.

use super::alert::{Alert, Expression, MINUTE, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "OutboxRetentionStopped",
        expression: Expression::Same(
            "time() - max by (namespace, pipeline) \
             (outbox_retention_last_success_timestamp_seconds) > 3600 \
             and on (namespace, pipeline) \
             max by (namespace, pipeline) (outbox_state{state=~\"streaming|polling\"}) == 1",
        ),
        hold: 10 * MINUTE,
        severity: Severity::Warning,
        summary: "pipeline {{ $labels.pipeline }} has removed no delivered rows for \
                  {{ $value | humanizeDuration }}",
        description: "[retention] is on and rows flow, but no sweep over the tables has \
                      ended without an error for an hour. /status.json says why (retention.failure, \
                      retention.waits), and the log has what to type (P038). Events flow; the \
                      tables grow.",
    },
    Alert {
        name: "OutboxTableGrows",
        expression: Expression::Same(
            "(max by (namespace, pipeline, table) (outbox_table_rows) \
             > 1.2 * max by (namespace, pipeline, table) (outbox_table_rows offset 6h) \
             or max by (namespace, pipeline, table) (outbox_table_rows) \
             > 1.2 * max by (namespace, pipeline, table) (outbox_table_rows offset 7d)) \
             and max by (namespace, pipeline, table) (outbox_table_oldest_row_seconds) \
             > on (namespace, pipeline) group_left () \
             (max by (namespace, pipeline) (outbox_retention_keep_seconds) + 3600) \
             or (max by (namespace, pipeline, table) (outbox_table_bytes) \
             - max by (namespace, pipeline, table) (outbox_table_bytes offset 7d) > 1073741824 \
             unless on (namespace, pipeline) \
             max by (namespace, pipeline) (outbox_retention_keep_seconds))",
        ),
        hold: 15 * MINUTE,
        severity: Severity::Warning,
        summary: "outbox table {{ $labels.table }} grows, and its rows are not removed",
        description: "With [retention] on: the oldest row is an hour older than retention.keep, and \
                      the table has a fifth more rows than six hours or seven days ago. With \
                      [retention] off: it has become a GiB larger in seven days, so nobody removes \
                      its rows, or not enough of them; turn [retention] on (docs/retention.md). \
                      Rows stay while they are \
                      not delivered (outbox_slot_bytes_behind, \
                      outbox_polling_pending_rows), while a transaction has been open \
                      for long, and while their events are dead letters; or a sweep is slower than \
                      the writers (retention.batch, pause, interval). `outbox-router cleanup \
                      --dry-run` counts the rows by reason.",
    },
];
