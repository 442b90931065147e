//! Every metric: its name, its labels and its meaning. `outbox_slot_bytes_behind` is the most
//! important one.
//!
//! All carry the label `pipeline`; those of the slot also carry `slot`. Label values come from
//! closed sets, except `topic`, of which a hundred are shown one by one. While PostgreSQL does not
//! answer, the slot's series are absent and do not keep their last values.

use relay::{
    Code, LATENCY_BOUNDS, Latencies, RowsIgnored, Snapshot, State, TopicTotals,
    witness::WitnessStore,
};

use super::{
    epoch::epoch,
    exposition::{Page, Type, seconds},
    held, retention,
    view::View,
};
use crate::monitor::{ObservedSlot, SlotHealth, WalStatus};

/// The content type of the text format that [`encode`] writes.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How many topics are shown one by one; the others are summed up as `_other`.
pub const TOPICS_MAX: usize = 100;

/// The label of the sum; a topic that really has this name is included in the sum.
const OTHER_TOPICS: &str = "_other";

/// The page that Prometheus scrapes.
pub fn encode(view: &View<'_>) -> String {
    let settings = view.settings;
    let mut slot = Page::new(&[("pipeline", &settings.name), ("slot", &settings.slot)]);
    of_thresholds(&mut slot, view);
    match &view.monitor.slot {
        ObservedSlot::Seen(health) => of_slot(&mut slot, health, view.monitor.seconds_to_limit),
        // Nobody streams from a slot that does not exist, so the alert on an inactive slot must
        // keep firing.
        ObservedSlot::Missing => slot.gauge(ACTIVE, ACTIVE_HELP, 0),
        ObservedSlot::Unknown => {}
    }
    let mut pipeline = Page::new(&[("pipeline", &settings.name)]);
    of_lag(&mut pipeline, view);
    of_witness(&mut pipeline, view);
    of_relay(&mut pipeline, &view.relay.snapshot);
    held::metrics(&mut pipeline, &view.relay.snapshot.held, view.monitor.decided);
    retention::metrics(&mut pipeline, view);
    of_topics(&mut pipeline, &view.relay.snapshot.topics);
    pipeline
        .family("outbox_build_info", Type::Gauge, "The router's version; always 1.")
        .whole(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    slot.into_text() + &pipeline.into_text()
}

const ACTIVE: &str = "outbox_slot_active";
const ACTIVE_HELP: &str = "Whether a walsender streams from the slot.";

fn of_thresholds(page: &mut Page, view: &View<'_>) {
    let thresholds = view.settings.thresholds;
    let mut family = page.family(
        "outbox_slot_bytes_behind_threshold",
        Type::Gauge,
        "Configured limits on outbox_slot_bytes_behind.",
    );
    family.whole(&[("severity", "warning")], thresholds.warning);
    family.whole(&[("severity", "critical")], thresholds.critical);
    if let Some(polled) = view.monitor.polled_at {
        page.gauge_float(
            "outbox_slot_last_poll_timestamp_seconds",
            "When the state of the slot was last read from PostgreSQL.",
            epoch(polled.wall).as_secs_f64(),
        );
    }
}

fn of_slot(page: &mut Page, slot: &SlotHealth, seconds_to_limit: Option<f64>) {
    page.gauge(
        "outbox_slot_bytes_behind",
        "WAL that is not confirmed: current position - confirmed_flush_lsn. It includes the WAL of all other tables.",
        slot.bytes_behind(),
    );
    if let Some(bytes) = slot.retained_bytes() {
        page.gauge(
            "outbox_slot_retained_bytes",
            "WAL that the slot keeps on disk: current position - restart_lsn.",
            bytes,
        );
    }
    if let Some(bytes) = slot.safe_wal_bytes {
        page.gauge(
            "outbox_slot_safe_wal_bytes",
            "WAL that may still be written before the slot may be invalidated (safe_wal_size); absent without a limit.",
            bytes,
        );
    }
    if let Some(time) = seconds_to_limit {
        page.gauge_float(
            "outbox_slot_seconds_to_limit",
            "How long outbox_slot_safe_wal_bytes lasts at the present rate.",
            time,
        );
    }
    page.family(
        "outbox_slot_wal_status",
        Type::Gauge,
        "wal_status of the slot: 1 for the one that holds.",
    )
    .states("wal_status", WalStatus::KNOWN.map(WalStatus::as_str), slot.wal_status.as_str());
    page.gauge(ACTIVE, ACTIVE_HELP, u64::from(slot.is_active()));
}

fn of_lag(page: &mut Page, view: &View<'_>) {
    let Some(lag) = view.lag() else { return };
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
}

fn of_relay(page: &mut Page, snapshot: &Snapshot) {
    page.family(
        "outbox_state",
        Type::Gauge,
        "State of the router: 1 for the present state, 0 for the others.",
    )
    .states("state", State::ALL.map(State::as_str), snapshot.condition.state.as_str());
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
    if !snapshot.errors.is_empty() {
        let mut errors =
            page.family("outbox_errors_total", Type::Counter, "Failures since the start, by code.");
        for (code, &count) in &snapshot.errors {
            errors.whole(&[("component", component(*code)), ("code", code.as_str())], count);
        }
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

fn of_topics(page: &mut Page, topics: &[TopicTotals]) {
    let rows = capped(topics);
    if rows.is_empty() {
        return;
    }
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
}

/// What is shown of a topic.
struct TopicRow<'t> {
    name: &'t str,
    acked: u64,
    latencies: Latencies,
}

/// One row per topic up to [`TOPICS_MAX`], in the order of first use, so that a topic keeps its
/// row; the other topics as one row.
fn capped(topics: &[TopicTotals]) -> Vec<TopicRow<'_>> {
    let mut rows: Vec<TopicRow<'_>> = Vec::new();
    let mut other = TopicRow { name: OTHER_TOPICS, acked: 0, latencies: Latencies::default() };
    let mut others = 0;
    for topic in topics {
        if rows.len() < TOPICS_MAX && topic.name.as_str() != OTHER_TOPICS {
            let latencies = topic.latencies.clone();
            rows.push(TopicRow { name: topic.name.as_str(), acked: topic.acked, latencies });
            continue;
        }
        others += 1;
        other.acked += topic.acked;
        for (sum, count) in other.latencies.buckets.iter_mut().zip(topic.latencies.buckets) {
            *sum += count;
        }
        other.latencies.sum_micros += topic.latencies.sum_micros;
    }
    if others > 0 {
        rows.push(other);
    }
    rows
}
