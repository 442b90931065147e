//! Alerts on dead letters and what is held behind them.

use super::alert::{Alert, Expression, MINUTE, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "OutboxDeadLetter",
        // A session that ends reports nothing held until the next one has read the table.
        expression: Expression::Same(
            "max by (namespace, pipeline) (max_over_time(outbox_held_keys[5m])) > 0",
        ),
        hold: 0,
        severity: Severity::Warning,
        summary: "pipeline {{ $labels.pipeline }} holds events of {{ $value }} keys",
        description: "An event could not be delivered and is a dead letter \
                      (outbox_dead_letters_total by code); later events of its key are held behind \
                      it, in order. All other events flow. `outbox-router dead-letters list` shows \
                      why; when the cause is removed, `outbox-router dead-letters requeue`, or \
                      `drop`.",
    },
    Alert {
        name: "OutboxHeldForLong",
        expression: Expression::Same(
            "max by (namespace, pipeline) (max_over_time(outbox_held_oldest_seconds[10m])) > 86400",
        ),
        hold: 0,
        severity: Severity::Critical,
        summary: "pipeline {{ $labels.pipeline }} has held an event for \
                  {{ $value | humanizeDuration }}",
        description: "Nobody has decided about a dead letter for more than a day, and consumers get \
                      no event of its key. At the limits of [dead_letters] the router stops (R017). \
                      `outbox-router dead-letters list`, then `requeue` or `drop`.",
    },
    Alert {
        name: "OutboxDecisionWaits",
        // A router counts them with the slot, and exports nothing before it could (see `known`).
        expression: Expression::Same(
            "((max by (namespace, pipeline) (min_over_time(outbox_held_decided[5m])) \
             or max by (namespace, pipeline) (last_over_time(outbox_held_decided[1h])) \
             and on (namespace, pipeline) max by (namespace, pipeline) (outbox_build_info)) > 0) \
             unless on (namespace, pipeline) (sum by (namespace, pipeline) \
             (increase(outbox_held_delivered_total[5m]) + increase(outbox_held_dropped_total[5m])) \
             > 0)",
        ),
        hold: 10 * MINUTE,
        severity: Severity::Warning,
        summary: "pipeline {{ $labels.pipeline }} does not carry out what was decided about \
                  {{ $value }} dead letters",
        description: "Somebody has requeued or dropped them, and for a quarter of an hour nothing \
                      has left the table. A router that streams does it within seconds: \
                      `outbox-router status` says why this one does not.",
    },
];
