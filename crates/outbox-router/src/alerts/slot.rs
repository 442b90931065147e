//! Alerts on how far behind the slot is, and whether it is there and in use.
//!
//! While PostgreSQL does not answer, the slot's series keep their last values, so that none of
//! these resolves because nobody looks. How old the values are is said by
//! `outbox_slot_last_poll_timestamp_seconds` and `outbox_slot_figures_last_poll_timestamp_seconds`,
//! which have an alert of their own.

use super::alert::{Alert, Expression, MINUTE, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "OutboxSlotBytesBehindWarning",
        expression: Expression::Same(concat!(
            known_of_slot!("max", "outbox_slot_bytes_behind"),
            " > on (namespace, pipeline, slot) max by (namespace, pipeline, slot) \
             (outbox_slot_bytes_behind_threshold{severity=\"warning\"})",
        )),
        hold: 5 * MINUTE,
        severity: Severity::Warning,
        summary: "slot {{ $labels.slot }} is {{ $value | humanize1024 }}B behind",
        description: "Events of pipeline {{ $labels.pipeline }} reach Kafka late, and PostgreSQL \
                      keeps their WAL. Who is to blame: outbox_lag_bytes by stage (unread: \
                      PostgreSQL or a full window; unacked: Kafka; unconfirmed: the router), or \
                      `outbox-router status`.",
    },
    Alert {
        name: "OutboxSlotBytesBehindCritical",
        expression: Expression::Same(concat!(
            known_of_slot!("max", "outbox_slot_bytes_behind"),
            " > on (namespace, pipeline, slot) max by (namespace, pipeline, slot) \
             (outbox_slot_bytes_behind_threshold{severity=\"critical\"})",
        )),
        hold: 5 * MINUTE,
        severity: Severity::Critical,
        summary: "slot {{ $labels.slot }} is {{ $value | humanize1024 }}B behind: the disk or the \
                  slot is at risk",
        description: "PostgreSQL keeps the WAL until its disk is full, or, with \
                      max_slot_wal_keep_size, invalidates the slot: outbox_slot_safe_wal_bytes and \
                      outbox_slot_seconds_to_limit say how long that takes. `outbox-router status` \
                      says who is to blame. If Kafka cannot come back in time, raise \
                      max_slot_wal_keep_size (a reload is enough), within the free disk.",
    },
    Alert {
        name: "OutboxSlotInactive",
        expression: Expression::Same(
            "max by (namespace, pipeline, slot) (outbox_slot_active) == 0",
        ),
        hold: 2 * MINUTE,
        severity: Severity::Critical,
        summary: "no router streams from slot {{ $labels.slot }}",
        description: "The router runs but does not stream, so no event of pipeline \
                      {{ $labels.pipeline }} reaches Kafka and WAL accumulates. Its state and \
                      reason: `outbox-router status`, or /readyz.",
    },
    Alert {
        name: "OutboxSlotMissing",
        // Min, and not max: a router that no longer reads the server keeps the last value. Of each
        // router by itself: for one that has never looked, nothing is missing.
        expression: Expression::Same(
            "min by (namespace, pipeline, slot) (outbox_slot_exists == 0 \
             and outbox_slot_last_poll_timestamp_seconds > 0)",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "slot {{ $labels.slot }} does not exist",
        description: "Before the first event `outbox-router setup --apply` creates it. Later it was \
                      dropped: rows that it had not sent may be missing in Kafka, and the router \
                      stops (P010). `outbox-router status` says what to type.",
    },
    Alert {
        name: "OutboxSlotMonitorStale",
        expression: Expression::Same(
            "time() - max by (namespace, pipeline, slot) \
             (outbox_slot_last_poll_timestamp_seconds) > 60 \
             or time() - max by (namespace, pipeline, slot) \
             (outbox_slot_figures_last_poll_timestamp_seconds) > 300",
        ),
        hold: MINUTE,
        severity: Severity::Warning,
        summary: "the state of slot {{ $labels.slot }} is not read from PostgreSQL any more",
        description: "The slot's metrics show what was last read: how far behind the slot of \
                      pipeline {{ $labels.pipeline }} is now, nobody knows. Or the slot is read, \
                      and the figures around it are not (open transactions, other slots, limits). \
                      The monitor reads both every few seconds by a connection of its own. Why it \
                      does not: the log, or `outbox-router status`.",
    },
];
