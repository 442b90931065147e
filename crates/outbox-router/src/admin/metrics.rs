//! Every metric: its name, its labels and its meaning. `outbox_slot_bytes_behind` is the most
//! important one.
//!
//! All carry the label `pipeline`; those of the slot also carry `slot`. Label values come from
//! closed sets, except `topic`, `broker` and `address`: a hundred topics and a hundred brokers are
//! counted one by one. Every series exists from the start, so that an alert sees its first
//! increase; the few that may be absent say so.

use std::time::SystemTime;

use relay::{
    Code, LATENCY_BOUNDS, Latencies, OtherTopics, PauseReason, RowsIgnored, Snapshot, State,
    TopicTotals, witness::WitnessStore,
};

use super::{
    brokers,
    epoch::epoch,
    exposition::{Page, Type, seconds},
    held, process, retention, slot_metrics,
    view::View,
};
use crate::{
    monitor::Lag,
    status::{Facts, Word},
};

/// The content type of the text format that [`encode`] writes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The label of the sum of the topics that are not counted one by one; a topic that really has this
/// name is included in the sum.
const OTHER_TOPICS: &str = "_other";

/// The page that Prometheus scrapes.
pub fn encode(view: &View<'_>) -> String {
    let settings = view.settings;
    let mut slot = Page::new(&[("pipeline", &settings.name), ("slot", &settings.slot)]);
    slot_metrics::metrics(&mut slot, view);
    let mut pipeline = Page::new(&[("pipeline", &settings.name)]);
    let facts = view.facts();
    of_verdict(&mut pipeline, view, &facts);
    of_lag(&mut pipeline, &facts);
    of_witness(&mut pipeline, view);
    of_relay(&mut pipeline, &view.relay.snapshot);
    held::metrics(&mut pipeline, &view.relay.snapshot.held, view.monitor.decided);
    retention::metrics(&mut pipeline, view);
    of_topics(&mut pipeline, &view.relay.snapshot);
    brokers::metrics(&mut pipeline, view);
    pipeline
        .family("outbox_build_info", Type::Gauge, "The router's version; always 1.")
        .whole(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut own = Page::new(&[("pipeline", &settings.name)]);
    process::metrics(&mut own);
    slot.into_text() + &pipeline.into_text() + &own.into_text()
}

/// The verdict of `/status.json`, and the times that it depends on.
fn of_verdict(page: &mut Page, view: &View<'_>, facts: &Facts<'_>) {
    let verdict = view.verdict(facts);
    page.family(
        "outbox_verdict",
        Type::Gauge,
        "The verdict of /status.json: 1 for the present one, 0 for the others.",
    )
    .states("verdict", Word::ALL.map(Word::as_str), verdict.word.as_str());
    page.gauge_float(
        "outbox_verdict_since_timestamp_seconds",
        "Since when the verdict holds.",
        epoch(view.observed.since(&verdict, SystemTime::now())).as_secs_f64(),
    );
    page.gauge_float(
        "outbox_oldest_unacked_age_seconds",
        "Age since its commit of the oldest event that was read, or is waited at, and is not acknowledged by Kafka; 0 when there is none.",
        facts.oldest_unacked.unwrap_or_default().as_secs_f64(),
    );
    page.gauge_float(
        "outbox_seconds_without_progress",
        "For how long no position has moved although something is outstanding; 0 when nothing is.",
        view.observed.progress.without(view.now).as_secs_f64(),
    );
    let mut paused = page.family(
        "outbox_backpressure_seconds_total",
        Type::Counter,
        "For how long the replication connection was not read, by reason.",
    );
    for (reason, time) in PauseReason::ALL.iter().zip(facts.snapshot.paused) {
        paused.float(&[("reason", reason.as_str())], time.as_secs_f64());
    }
}

/// While the slot cannot be read, or another router holds it, nothing is known of the split: then
/// everything that the slot is behind is unread.
fn of_lag(page: &mut Page, facts: &Facts<'_>) {
    let unread = facts.bytes_behind.unwrap_or_default();
    let lag = facts.lag.unwrap_or(Lag { unread, ..Lag::default() });
    let mut family = page.family(
        "outbox_lag_bytes",
        Type::Gauge,
        "What the slot is behind, by what it waits for: unread by the router, unacked by Kafka, unconfirmed to PostgreSQL.",
    );
    family.whole(&[("stage", "unread")], lag.unread);
    family.whole(&[("stage", "unacked")], lag.unacked);
    family.whole(&[("stage", "unconfirmed")], lag.unconfirmed);
}

/// These series exist from the start, also at zero, so that an alert sees their first increase.
fn of_witness(page: &mut Page, view: &View<'_>) {
    let witness = &view.relay.snapshot.witness;
    // A gap that the monitor has found counts before the streaming task has acted on it.
    let gaps = witness.gaps.len().max(usize::from(view.gap().is_some()));
    let is_recorded = witness.store == WitnessStore::Kafka
        && witness.are_gaps_written
        && gaps > 0
        && witness.gaps.len() == gaps;
    page.gauge(
        "outbox_gaps_open",
        "Gaps that no person has accepted yet: rows may be missing in Kafka.",
        u64::try_from(gaps).unwrap_or(u64::MAX),
    );
    page.gauge(
        "outbox_gap_recorded",
        "Whether the open gaps are in the witness, the record in the state topic, so that they outlive a restart.",
        u64::from(is_recorded),
    );
    page.gauge(
        "outbox_witness_missing",
        "Whether the pipeline began without a witness, and no person has accepted that yet.",
        u64::from(witness.began_without.is_some()),
    );
    page.gauge(
        "outbox_topics_lost",
        "Topics that were deleted with the records of this pipeline, until a person has accepted that.",
        u64::try_from(witness.lost_topics.len()).unwrap_or(u64::MAX),
    );
}

fn of_relay(page: &mut Page, snapshot: &Snapshot) {
    page.family(
        "outbox_state",
        Type::Gauge,
        "State of the router: 1 for the present state, 0 for the others.",
    )
    .states("state", State::ALL.map(State::as_str), snapshot.condition.state.as_str());
    page.gauge(
        "outbox_leader",
        "Whether a session of this router holds the slot.",
        u64::from(snapshot.has_session),
    );
    page.gauge(
        "outbox_inflight_events",
        "Events that Kafka has not acknowledged.",
        snapshot.unacked_events,
    );
    page.gauge(
        "outbox_window_events",
        "Events past the last confirmable position.",
        snapshot.window_events,
    );
    page.gauge(
        "outbox_window_bytes",
        "Bytes of the events past the last confirmable position.",
        snapshot.window_bytes,
    );
    page.family(
        "outbox_transactions_total",
        Type::Counter,
        "Committed transactions with at least one event.",
    )
    .whole(&[], snapshot.transactions);
    let RowsIgnored { insert, update, delete, truncate } = snapshot.rows_ignored;
    let mut ignored = page.family(
        "outbox_rows_ignored_total",
        Type::Counter,
        "Changes that are no events: inserts into tables that are no outbox; updates, deletes and truncates of any table.",
    );
    for (op, count) in
        [("insert", insert), ("update", update), ("delete", delete), ("truncate", truncate)]
    {
        ignored.whole(&[("op", op)], count);
    }
    page.family(
        "outbox_rows_filtered_total",
        Type::Counter,
        "Rows of outbox tables that become no events, because `where` leaves them out.",
    )
    .whole(&[], snapshot.rows_filtered);
    let mut reconnects = page.family(
        "outbox_reconnects_total",
        Type::Counter,
        "Connections that were replaced since the start of the process.",
    );
    reconnects.whole(&[("peer", "postgres")], snapshot.reconnects.postgres);
    reconnects.whole(&[("peer", "kafka")], snapshot.reconnects.kafka);
    let mut errors =
        page.family("outbox_errors_total", Type::Counter, "Failures since the start, by code.");
    for code in Code::ALL {
        let count = snapshot.errors.get(code).copied().unwrap_or_default();
        errors.whole(&[("component", component(*code)), ("code", code.as_str())], count);
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

fn of_topics(page: &mut Page, snapshot: &Snapshot) {
    let rows = rows(snapshot);
    let mut events = page.family("outbox_events_total", Type::Counter, "Events by outcome.");
    for row in &rows {
        events.whole(&[("topic", row.name), ("result", "acked")], row.acked);
    }
    let mut latency = page.family(
        "outbox_event_latency_seconds",
        Type::Histogram,
        "From the commit in PostgreSQL to the acknowledgement by Kafka.",
    );
    for row in &rows {
        let sum = seconds(row.latencies.sum_micros);
        latency.histogram(&[("topic", row.name)], &LATENCY_BOUNDS, &row.latencies.buckets, sum);
    }
    page.gauge(
        "outbox_topics_other",
        "Topics that are summed up with the label topic=\"_other\": those after the first hundred.",
        snapshot.other_topics.topics,
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
fn rows(snapshot: &Snapshot) -> Vec<TopicRow<'_>> {
    let OtherTopics { acked, latencies, .. } = snapshot.other_topics.clone();
    let mut other = TopicRow { name: OTHER_TOPICS, acked, latencies };
    let mut rows = Vec::with_capacity(snapshot.topics.len() + 1);
    for TopicTotals { name, acked, latencies } in &snapshot.topics {
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
