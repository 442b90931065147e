//! Every metric: its name, its labels and its meaning. `outbox_slot_bytes_behind` is the most
//! important one.
//!
//! All carry the label `pipeline`; those of the slot also carry `slot`. Label values come from
//! closed sets, except `topic`, `broker` and `address`: a hundred topics and a hundred brokers are
//! counted one by one. Every series exists from the start, so that an alert sees its first
//! increase; the few that may be absent say so.

use std::time::SystemTime;

use relay::{PauseReason, RowsIgnored, Snapshot, State, witness::WitnessStore};

use super::{
    brokers,
    exposition::{Page, Type},
    held, process, retention, shared_metrics, slot_metrics,
    view::View,
};
use crate::{monitor::Lag, status::Facts};

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
    retention::metrics(&mut pipeline, view.settings.keep, &view.retention, &view.monitor.tables);
    let Snapshot { topics, other_topics, .. } = &view.relay.snapshot;
    shared_metrics::of_topics(&mut pipeline, topics, other_topics);
    brokers::metrics(&mut pipeline, view.brokers.as_ref());
    shared_metrics::of_build(&mut pipeline);
    let mut own = Page::new(&[("pipeline", &settings.name)]);
    process::metrics(&mut own);
    slot.into_text() + &pipeline.into_text() + &own.into_text()
}

/// The verdict of `/status.json`, and the times that it depends on.
fn of_verdict(page: &mut Page, view: &View<'_>, facts: &Facts<'_>) {
    let verdict = view.verdict(facts);
    let since = view.observed.since(&verdict, SystemTime::now());
    shared_metrics::of_verdict(page, verdict.word, since);
    page.gauge_float(
        "outbox_oldest_unacked_age_seconds",
        "Age since its commit of the oldest event that was read, or is waited at, and is not acknowledged by Kafka; 0 when there is none.",
        facts.oldest_unacked.unwrap_or_default().as_secs_f64(),
    );
    let still = view.observed.progress.without(view.now);
    shared_metrics::of_progress(page, still.as_secs_f64());
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
    let state = snapshot.condition.state.as_str();
    shared_metrics::of_state(page, State::ALL.map(State::as_str), state);
    page.gauge(
        "outbox_leader",
        "Whether a session of this router holds the slot.",
        u64::from(snapshot.has_session),
    );
    shared_metrics::of_flight(page, snapshot.unacked_events);
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
    shared_metrics::of_errors(page, &snapshot.errors);
}
