//! Alerts on polled tables. What is counted keeps its last value while PostgreSQL does not answer,
//! and OutboxPollingSurveyStale says when it is old. Only routers that poll export these metrics.

use super::alert::{Alert, Expression, MINUTE, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "OutboxPollingPendingOld",
        expression: Expression::Same(
            "max by (namespace, pipeline, table) (outbox_polling_oldest_pending_seconds) > 300",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "the oldest pending row of {{ $labels.table }} has waited for \
                  {{ $value | humanizeDuration }}",
        description: "A row of pipeline {{ $labels.pipeline }} is not in Kafka. After an outage this \
                      is the backlog, which gets younger by itself. Else Kafka, a lock of another \
                      worker, or a row before it in its key stands in the way: `outbox-router \
                      status`.",
    },
    Alert {
        name: "OutboxPollingShardsUnheld",
        // The sum, since workers share a table: each of 64 shards has one of them.
        expression: Expression::Same(
            "64 - sum by (namespace, pipeline, table) \
             (max_over_time(outbox_polling_shards_held[90s])) > 0 \
             and max by (namespace, pipeline, table) (outbox_polling_ready_rows) > 0",
        ),
        hold: 3 * MINUTE,
        severity: Severity::Critical,
        summary: "{{ $value }} of 64 shards of {{ $labels.table }} have no worker, and rows are \
                  pending",
        // Rows that are not due, or that another program has locked, wait for no worker.
        description: "Rows whose keys belong to these shards are not read. A worker of pipeline \
                      {{ $labels.pipeline }} is not scraped, cannot renew its leases (P042), or has \
                      ended and its lease has not; or nobody takes what it gave back; or a switch to \
                      the stream is not complete (P043). Who holds what: `outbox-router status`.",
    },
    Alert {
        name: "OutboxPollingRowsAbandoned",
        expression: Expression::Same(
            "max by (namespace, pipeline, table) (outbox_polling_abandoned_rows) > 0",
        ),
        hold: 0,
        severity: Severity::Warning,
        summary: "{{ $value }} rows of {{ $labels.table }} are abandoned",
        description: "They could not be delivered in as many attempts as retry.max_attempts allows. \
                      With dead_letters.hold_key, later rows of their keys wait behind them. \
                      `outbox-router dead-letters list` shows why; when the cause is removed, \
                      `outbox-router dead-letters requeue`, or `drop`.",
    },
    Alert {
        name: "OutboxPollingRetries",
        expression: Expression::Same(
            "sum by (namespace, pipeline, table) (increase(outbox_polling_retries_total[15m])) > 10",
        ),
        hold: 5 * MINUTE,
        severity: Severity::Warning,
        summary: "rows of {{ $labels.table }} fail again and again",
        description: "More than ten attempts within a quarter of an hour failed for a reason that \
                      lies in the row, and rows of their keys wait. The code: outbox_errors_total, \
                      last_error of the row where the table has it, or `outbox-router status`.",
    },
    Alert {
        name: "OutboxPollingClaimsLost",
        expression: Expression::Same(
            "sum by (namespace, pipeline) (increase(outbox_polling_claims_lost_total[15m])) > 3",
        ),
        hold: 0,
        severity: Severity::Warning,
        summary: "workers of pipeline {{ $labels.pipeline }} lose their leases while they work",
        description: "Batches were given up because their lease had ended or another worker had the \
                      shards. Nothing is lost; what was in flight is read and sent again. A process \
                      is stopped for seconds (CPU limits, swapping), PostgreSQL answers too late, or \
                      polling.lease is too short for a batch.",
    },
    Alert {
        name: "OutboxPollingLeasesUnusable",
        expression: Expression::Same(
            "sum by (namespace, pipeline) (increase(outbox_errors_total{code=\"P042\"}[5m])) > 0",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "workers of pipeline {{ $labels.pipeline }} cannot use outbox_router.lease",
        description: "The tables by which workers share the polled tables are missing, or the role \
                      may not use them, so a worker cannot take or renew shards and reads nothing \
                      when its lease has ended. `outbox-router setup --apply` makes them.",
    },
    Alert {
        name: "OutboxPollingSurveyStale",
        expression: Expression::Same(
            "time() - max by (namespace, pipeline) (outbox_polling_survey_timestamp_seconds) > 300",
        ),
        hold: MINUTE,
        severity: Severity::Warning,
        summary: "the polled tables of pipeline {{ $labels.pipeline }} are not counted any more",
        description: "How many rows are pending, and for how long, is what was last counted. The \
                      survey counts every few seconds by a connection of its own. Why it does not: \
                      the log, or `outbox-router status`.",
    },
];
