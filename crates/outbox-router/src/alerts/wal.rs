//! Alerts on the WAL that the slot keeps, and on how long PostgreSQL goes on keeping it.

use super::alert::{Alert, Expression, MINUTE, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "OutboxSlotTimeToLimitShort",
        expression: Expression::Same(concat!(
            known_of_slot!("min", "outbox_slot_seconds_to_limit"),
            " < 14400"
        )),
        hold: 10 * MINUTE,
        severity: Severity::Warning,
        summary: "at the present rate slot {{ $labels.slot }} reaches its limit in \
                  {{ $value | humanizeDuration }}",
        description: "max_slot_wal_keep_size limits the WAL that PostgreSQL keeps for the slot; past \
                      it the slot is invalidated and events of pipeline {{ $labels.pipeline }} are \
                      lost. Who holds the slot back: `outbox-router status`. Raising \
                      max_slot_wal_keep_size, within the free disk, gains time (a reload is \
                      enough).",
    },
    Alert {
        name: "OutboxSlotWalAlmostGone",
        expression: Expression::Same(concat!(
            known_of_slot!("min", "outbox_slot_seconds_to_limit"),
            " < 3600"
        )),
        hold: 2 * MINUTE,
        severity: Severity::Critical,
        summary: "slot {{ $labels.slot }} reaches its limit in {{ $value | humanizeDuration }}",
        description: "Then PostgreSQL invalidates the slot and events of pipeline \
                      {{ $labels.pipeline }} are lost. Raise max_slot_wal_keep_size now, within the \
                      free disk (a reload is enough); then remove what holds the slot back: \
                      `outbox-router status`.",
    },
    Alert {
        name: "OutboxSlotUnreserved",
        expression: Expression::Same(concat!(
            known_of_slot!("max", "outbox_slot_wal_status{wal_status=\"unreserved\"}"),
            " == 1"
        )),
        hold: 0,
        severity: Severity::Critical,
        summary: "slot {{ $labels.slot }} is unreserved: the next checkpoint may invalidate it",
        description: "The slot is past max_slot_wal_keep_size, and its WAL is removed with the next \
                      checkpoint. Raise max_slot_wal_keep_size at once, within the free disk (a \
                      reload is enough). If the router streams and catches up in time, the status \
                      returns to extended.",
    },
    Alert {
        name: "OutboxSlotLost",
        expression: Expression::Same(concat!(
            known_of_slot!("max", "outbox_slot_wal_status{wal_status=\"lost\"}"),
            " == 1"
        )),
        hold: 0,
        severity: Severity::Critical,
        summary: "slot {{ $labels.slot }} is lost: events are missing in Kafka",
        description: "PostgreSQL removed WAL that the slot still needed. The router has stopped and \
                      does not continue by itself. `outbox-router recover` makes a new slot, sends \
                      the rows of the tables that are in no topic, and closes the gap \
                      (docs/recover.md; `outbox-router status` names the interval).",
    },
    Alert {
        name: "OutboxSlotWalPinned",
        expression: Expression::Same(concat!(
            known_of_slot!("max", "outbox_slot_pin_age_seconds"),
            " > 3600"
        )),
        hold: 5 * MINUTE,
        severity: Severity::Warning,
        summary: "a transaction that is {{ $value | humanizeDuration }} old makes PostgreSQL keep \
                  the WAL of slot {{ $labels.slot }}",
        description: "restart_lsn cannot pass the beginning of a transaction that is still open, \
                      although events are delivered. `outbox-router status` names its process; \
                      prepared transactions are in pg_prepared_xacts.",
    },
    Alert {
        name: "OutboxOtherSlotsInactive",
        expression: Expression::Same(concat!(
            known_of_slot!("max", "outbox_slot_others_inactive"),
            " > 0"
        )),
        hold: 30 * MINUTE,
        severity: Severity::Warning,
        summary: "{{ $value }} other slots on the server of pipeline {{ $labels.pipeline }} are \
                  not in use",
        description: "A slot that nobody reads keeps WAL for ever and fills the same disk. Which: \
                      select slot_name, slot_type, restart_lsn from pg_replication_slots where not \
                      active. Drop those that nobody needs: select pg_drop_replication_slot('NAME').",
    },
];
