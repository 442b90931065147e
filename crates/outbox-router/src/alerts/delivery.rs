//! Alerts on events that do not reach Kafka, or may not have.

use super::alert::{Alert, Expression, MINUTE, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "OutboxOldestUnacked",
        expression: Expression::Same(
            "max by (namespace, pipeline) (outbox_oldest_unacked_age_seconds) > 300",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "the oldest event of pipeline {{ $labels.pipeline }} that Kafka has not \
                  acknowledged is {{ $value | humanizeDuration }} old",
        description: "It was committed that long ago, and was read or is waited at. After an outage \
                      this is the backlog, which gets younger by itself. Else Kafka or a row stands \
                      in the way: `outbox-router status`.",
    },
    Alert {
        name: "OutboxStalled",
        expression: Expression::Same(
            "max by (namespace, pipeline) (outbox_seconds_without_progress) > 60",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "pipeline {{ $labels.pipeline }} has not moved for {{ $value | humanizeDuration }}",
        description: "There is something to do, and nothing has moved: nothing was read, \
                      acknowledged, and confirmed to the slot or marked in the table. Who stands: \
                      `outbox-router status`. If state and reason say nothing, keep the log and \
                      restart the router: nothing is lost by that.",
    },
    Alert {
        name: "OutboxErrorRatio",
        // P012 is how a standby begins. Where nothing is delivered and nothing fails, the ratio is
        // not a number, and no number is greater than one.
        expression: Expression::Same(
            "sum by (namespace, pipeline) (rate(outbox_errors_total{code!=\"P012\"}[5m])) \
             / (sum by (namespace, pipeline) (rate(outbox_events_total[5m])) \
             + sum by (namespace, pipeline) (rate(outbox_errors_total{code!=\"P012\"}[5m]))) \
             > 0.01",
        ),
        hold: 10 * MINUTE,
        severity: Severity::Warning,
        summary: "{{ $value | humanizePercentage }} of what pipeline {{ $labels.pipeline }} does \
                  fails",
        description: "More than one in a hundred outcomes was a failure, for ten minutes. Which: \
                      outbox_errors_total by code, and `outbox-router explain CODE`.",
    },
    Alert {
        name: "OutboxGapOpen",
        expression: Expression::Same("max by (namespace, pipeline) (outbox_gaps_open) > 0"),
        hold: 0,
        severity: Severity::Critical,
        summary: "pipeline {{ $labels.pipeline }} has stopped: events may be missing in Kafka",
        description: "`outbox-router status` says what happened, which rows are at risk (WAL \
                      positions and times) and what to type. `outbox-router recover` sends the \
                      missing rows and closes the gap (docs/recover.md), `outbox-router accept` \
                      gives them up: the router waits for one of them. While outbox_gap_recorded is \
                      0 the gap is not in the witness (the record in the state topic), and a \
                      restart forgets it.",
    },
    Alert {
        name: "OutboxWitnessMissing",
        expression: Expression::Same("max by (namespace, pipeline) (outbox_witness_missing) == 1"),
        hold: 0,
        severity: Severity::Warning,
        summary: "pipeline {{ $labels.pipeline }} began without a witness",
        description: "The state topic had no witness of it, the record that says what is \
                      acknowledged, so nothing shows whether the slot was moved before that. Events \
                      flow. Compare the outbox table with the topics, then `outbox-router accept`. \
                      The usual reason is a router that was started before `outbox-router setup \
                      --apply` had written the witness, a state topic that was deleted, or another \
                      name, database or slot.",
    },
    Alert {
        name: "OutboxTopicLost",
        expression: Expression::Same("max by (namespace, pipeline) (outbox_topics_lost) > 0"),
        hold: 0,
        severity: Severity::Warning,
        summary: "{{ $value }} topics of pipeline {{ $labels.pipeline }} were deleted with their \
                  records",
        description: "A topic that this pipeline had produced to was deleted, perhaps made again \
                      (K024): the events that it had are acknowledged, so no router sends them \
                      again by itself. Later events flow. `outbox-router status` names the topic; \
                      send again what the outbox tables still have with `outbox-router replay`, \
                      then `outbox-router accept`.",
    },
];
