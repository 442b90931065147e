//! The metrics that mean the same whatever the source is: the verdict, events by topic, failures by
//! code, and the version. Every series exists from the start, so that an alert sees its first
//! increase.

use std::{collections::BTreeMap, time::SystemTime};

use relay::{Code, LATENCY_BOUNDS, Latencies, OtherTopics, TopicTotals};

use super::{
    epoch::epoch,
    exposition::{Page, Type, seconds},
};
use crate::status::Word;

/// The label of the sum of the topics that are not counted one by one; a topic that really has this
/// name is included in the sum.
const OTHER_TOPICS: &str = "_other";

/// The verdict of `/status.json`.
pub(crate) fn of_verdict(page: &mut Page, word: Word, since: SystemTime) {
    page.family(
        "outbox_verdict",
        Type::Gauge,
        "The verdict of /status.json: 1 for the present one, 0 for the others.",
    )
    .states("verdict", Word::ALL.map(Word::as_str), word.as_str());
    page.gauge_float(
        "outbox_verdict_since_timestamp_seconds",
        "Since when the verdict holds.",
        epoch(since).as_secs_f64(),
    );
}

/// The state of the task that produces.
pub(crate) fn of_state<'w>(
    page: &mut Page,
    states: impl IntoIterator<Item = &'w str>,
    present: &str,
) {
    page.family(
        "outbox_state",
        Type::Gauge,
        "State of the router: 1 for the present state, 0 for the others.",
    )
    .states("state", states, present);
}

/// What is in flight.
pub(crate) fn of_flight(page: &mut Page, unacked: u64) {
    page.gauge("outbox_inflight_events", "Events that Kafka has not acknowledged.", unacked);
}

/// For how long nothing has moved.
pub(crate) fn of_progress(page: &mut Page, seconds: f64) {
    page.gauge_float(
        "outbox_seconds_without_progress",
        "For how long nothing was read, acknowledged or confirmed although something is outstanding; 0 when nothing is.",
        seconds,
    );
}

/// Failures by code.
pub(crate) fn of_errors(page: &mut Page, errors: &BTreeMap<Code, u64>) {
    let mut family =
        page.family("outbox_errors_total", Type::Counter, "Failures since the start, by code.");
    for code in Code::ALL {
        let count = errors.get(code).copied().unwrap_or_default();
        family.whole(&[("component", component(*code)), ("code", code.as_str())], count);
    }
}

/// Which part of the router a code belongs to.
fn component(code: Code) -> &'static str {
    match code.as_str().chars().next() {
        Some('P') => "postgres",
        Some('K') => "kafka",
        _ => "routing",
    }
}

/// The version.
pub(crate) fn of_build(page: &mut Page) {
    page.family("outbox_build_info", Type::Gauge, "The router's version; always 1.")
        .whole(&[("version", env!("CARGO_PKG_VERSION"))], 1);
}

/// Events and latencies by topic.
pub(crate) fn of_topics(page: &mut Page, topics: &[TopicTotals], others: &OtherTopics) {
    let rows = rows(topics, others);
    let mut events = page.family("outbox_events_total", Type::Counter, "Events by outcome.");
    for row in &rows {
        events.whole(&[("topic", row.name), ("result", "acked")], row.acked);
    }
    let mut latency = page.family(
        "outbox_event_latency_seconds",
        Type::Histogram,
        "From the commit in PostgreSQL, or of polled rows from their own time, to the acknowledgement by Kafka.",
    );
    for row in &rows {
        let sum = seconds(row.latencies.sum_micros);
        latency.histogram(&[("topic", row.name)], &LATENCY_BOUNDS, &row.latencies.buckets, sum);
    }
    page.gauge(
        "outbox_topics_other",
        "Topics that are summed up with the label topic=\"_other\": those after the first hundred.",
        others.topics,
    );
}

/// What is shown of a topic.
struct TopicRow<'t> {
    name: &'t str,
    acked: u64,
    latencies: Latencies,
}

/// One row for each topic with counters of its own, in the order of first use; the others as one
/// row, which is there from the start.
fn rows<'t>(topics: &'t [TopicTotals], others: &OtherTopics) -> Vec<TopicRow<'t>> {
    let OtherTopics { acked, latencies, .. } = others.clone();
    let mut other = TopicRow { name: OTHER_TOPICS, acked, latencies };
    let mut rows = Vec::with_capacity(topics.len() + 1);
    for TopicTotals { name, acked, latencies } in topics {
        if name.as_str() != OTHER_TOPICS {
            rows.push(TopicRow {
                name: name.as_str(),
                acked: *acked,
                latencies: latencies.clone(),
            });
            continue;
        }
        other.acked += acked;
        for (sum, count) in other.latencies.buckets.iter_mut().zip(latencies.buckets) {
            *sum += count;
        }
        other.latencies.sum_micros += latencies.sum_micros;
    }
    rows.push(other);
    rows
}
