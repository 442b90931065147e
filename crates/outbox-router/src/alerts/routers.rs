//! Alerts on the routers themselves: whether one runs, streams, and has a standby.
//!
//! A state changes for moments: a session that is tried again streams for an instant, and a router
//! without Kafka goes between starting and blocked. So these rules ask for the greater part of the
//! last two minutes, or for one moment of the last three, and not for a state that holds all the
//! time; and a router that is replaced by its standby fires none of them.
//!
//! The ranges are so long that they hold a sample where Prometheus scrapes once a minute, which is
//! its default, also when one scrape is lost. Longer ones would make the alerts late: they fire
//! within three minutes at a scrape of 15 s, and within four and a half at one of a minute.

use super::alert::{Alert, Expression, MINUTE, Severity};

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "OutboxRouterAbsent",
        // The pipelines of the last day are those that should be there. If there was none, nothing
        // at all is scraped.
        expression: Expression::ByScope {
            every: "(max by (namespace, pipeline) (last_over_time(outbox_build_info[1d])) \
                    unless on (namespace, pipeline) \
                    max by (namespace, pipeline) (outbox_build_info)) \
                    or (absent(outbox_build_info) \
                    unless on () max(last_over_time(outbox_build_info[1d])))",
            one: "absent(outbox_build_info)",
        },
        hold: 2 * MINUTE,
        severity: Severity::Critical,
        summary: "{{ with $labels.pipeline }}no router of pipeline {{ . }}{{ else }}no outbox \
                  router{{ end }} is scraped",
        description: "No metric of it arrives any more, so no other alert can fire; and if no \
                      router runs, events wait, and WAL accumulates where there is a slot. Check that the process runs and is not \
                      stopped, and that its [admin] listen address is the one that is scraped. \
                      `outbox-router status` works with the router down.",
    },
    Alert {
        name: "OutboxNotConnected",
        expression: Expression::Same(
            "(max by (namespace, pipeline) (avg_over_time(outbox_state{state=\"starting\"}[2m])) \
             > 0.5 unless on (namespace, pipeline) \
             max by (namespace, pipeline) (avg_over_time(outbox_state{state=~\"streaming|polling\"}[2m])) \
             > 0.5) unless on (namespace, pipeline) \
             max by (namespace, pipeline) \
             (max_over_time(outbox_state{state=~\"blocked|failed\"}[3m])) == 1",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "pipeline {{ $labels.pipeline }} gets no connection",
        description: "The router runs and tries again and again; no event reaches Kafka, and WAL \
                      accumulates where there is a slot. The usual reason is a PostgreSQL that is down, does not answer, \
                      or cannot be reached. Its reason: `outbox-router status`, or /readyz.",
    },
    Alert {
        name: "OutboxBlocked",
        expression: Expression::Same(
            "max by (namespace, pipeline) (max_over_time(outbox_state{state=\"blocked\"}[3m])) \
             == 1 unless on (namespace, pipeline) \
             max by (namespace, pipeline) (avg_over_time(outbox_state{state=~\"streaming|polling\"}[2m])) \
             > 0.5",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "pipeline {{ $labels.pipeline }} is blocked by Kafka",
        description: "The router reads from PostgreSQL, and Kafka acknowledges nothing: no broker \
                      answers, a topic is missing, or the router may not write. It continues by \
                      itself when the cause is gone. The code and what to type: \
                      `outbox-router status`, or /readyz.",
    },
    Alert {
        name: "OutboxFailed",
        expression: Expression::Same(
            "max by (namespace, pipeline) (max_over_time(outbox_state{state=\"failed\"}[3m])) \
             == 1 unless on (namespace, pipeline) \
             max by (namespace, pipeline) (avg_over_time(outbox_state{state=~\"streaming|polling\"}[2m])) \
             > 0.5",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "pipeline {{ $labels.pipeline }} has stopped: a person is needed",
        description: "The router cannot go on by itself: a row cannot become a record, a right or a \
                      setting is missing, or rows may be missing in Kafka (OutboxGapOpen). The \
                      code, the object and what to type: `outbox-router status`, or /readyz.",
    },
    Alert {
        name: "OutboxTaskHung",
        // The state is what the streaming task said last; the verdict knows that it says nothing.
        // What else makes the verdict `failed` has an alert that says more.
        expression: Expression::Same(
            "(max by (namespace, pipeline) \
             (max_over_time(outbox_verdict{verdict=\"failed\"}[3m])) == 1 \
             unless on (namespace, pipeline) max by (namespace, pipeline) \
             (avg_over_time(outbox_verdict{verdict=~\"ok|catching_up\"}[2m])) > 0.5) \
             unless on (namespace, pipeline) (max by (namespace, pipeline) \
             (max_over_time(outbox_state{state=\"failed\"}[3m])) == 1 \
             or max by (namespace, pipeline) (max_over_time(outbox_gaps_open[3m])) > 0)",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "a task of the router of pipeline {{ $labels.pipeline }} hangs",
        description: "The process answers, and its streaming task, worker, monitor or survey has reported \
                      nothing for half a minute or more, so outbox_state may still say \
                      streaming or polling. \
                      Which: `outbox-router status`, or /livez. Keep the log and restart the \
                      router: nothing is lost by that.",
    },
    Alert {
        name: "OutboxSlotHeldElsewhere",
        // Only a worker that polls has the state `polling`. It has no slot, whatever its state is:
        // one that was forgotten at the switch to the stream has failed, beside the routers.
        expression: Expression::Same(
            "max by (namespace, pipeline) (avg_over_time(outbox_state{state=\"standby\"}[2m]) \
             unless ignoring (state) outbox_state{state=\"polling\"}) > 0.5 \
             unless on (namespace, pipeline) max by (namespace, pipeline) \
             (max_over_time(outbox_state{state!=\"standby\"}[90s]) \
             unless ignoring (state) outbox_state{state=\"polling\"}) == 1",
        ),
        hold: MINUTE,
        severity: Severity::Critical,
        summary: "every router of pipeline {{ $labels.pipeline }} stands by: another process has \
                  the slot",
        description: "A process that is not scraped streams from the slot. If it is no router of \
                      this pipeline, it takes the events away. Which one: `outbox-router status`, or \
                      active_pid in pg_replication_slots.",
    },
    Alert {
        name: "OutboxStandbyMissing",
        // A standby is a router that stood by for half an hour: during a roll-out, the new process
        // stands by for seconds. Workers that poll share their tables, and none is a standby: a
        // pipeline with workers and no router has none and misses none.
        expression: Expression::Same(
            "(max by (namespace, pipeline) \
             (max_over_time((outbox_state{state=\"standby\"} == 1 \
             and (outbox_state{state=\"standby\"} offset 30m) == 1 \
             unless ignoring (state) outbox_state{state=\"polling\"})[1d:5m])) == 1 \
             unless on (namespace, pipeline) \
             (max by (namespace, pipeline) (outbox_state{state=\"standby\"} \
             unless ignoring (state) outbox_state{state=\"polling\"}) == 1 \
             or (max by (namespace, pipeline) (outbox_state{state=\"polling\"}) \
             unless on (namespace, pipeline) \
             max by (namespace, pipeline) (outbox_state{state=\"streaming\"})))) \
             and on (namespace, pipeline) max by (namespace, pipeline) (outbox_build_info)",
        ),
        hold: 10 * MINUTE,
        severity: Severity::Warning,
        summary: "pipeline {{ $labels.pipeline }} has no standby any more",
        description: "Within the last day a second router stood by, and now none does: nobody takes \
                      over when the one that streams ends. It ended, is not scraped, has failed, or \
                      has taken over and nothing took its place.",
    },
    Alert {
        name: "OutboxReconnectFlapping",
        expression: Expression::Same(
            "max by (namespace, pipeline, peer) (increase(outbox_reconnects_total[15m])) > 5",
        ),
        hold: 0,
        severity: Severity::Warning,
        summary: "pipeline {{ $labels.pipeline }} loses its connection to {{ $labels.peer }} again \
                  and again",
        description: "More than five connections were replaced within a quarter of an hour. Events \
                      flow in between, late, and some are produced twice. Look for a time limit of \
                      a proxy or firewall on the way, and in the log for the code (P001, P009, \
                      K001).",
    },
];
