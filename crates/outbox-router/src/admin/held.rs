//! Dead letters and held events, in the metrics and in `/status.json`.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use relay::{Code, ErrorClass, HeldReport};
use serde::Serialize;

use super::exposition::{Page, Type};
use crate::status::facts::age;

/// Events in the table of held events.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeldView {
    /// Keys, and events without one, that wait for a person or are being delivered.
    pub keys: u64,
    /// Their events: dead letters, and what is held behind them.
    pub events: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long ago the oldest of them was committed; `null` where nothing is held.
    pub oldest_seconds: Option<f64>,
    /// Dead letters since the start of the process, by code.
    pub dead_letters: BTreeMap<&'static str, u64>,
    /// Dead letters that were requeued and refused again, since the start of the process.
    pub refused_again: u64,
    /// Events delivered out of the table since the start of the process.
    pub delivered: u64,
    /// Events dropped since the start of the process.
    pub dropped: u64,
    /// Rows skipped since the start of the process.
    pub skipped: u64,
}

impl HeldView {
    pub(super) fn of(report: &HeldReport) -> Self {
        let HeldReport { held, oldest, totals, .. } = report;
        Self {
            keys: held.keys,
            events: held.events,
            bytes: held.bytes,
            oldest_seconds: oldest.map(|at| age(at, SystemTime::now()).as_secs_f64()),
            dead_letters: totals.letters.iter().map(|(code, &n)| (code.as_str(), n)).collect(),
            refused_again: totals.refused_again,
            delivered: totals.delivered,
            dropped: totals.dropped,
            skipped: totals.skipped,
        }
    }
}

/// All of these series exist from the start, also at zero, so that an alert sees their first
/// increase; but `decided` is absent before it was counted, and stays as it was counted last.
pub(super) fn metrics(page: &mut Page, report: &HeldReport, decided: Option<u64>) {
    let HeldReport { held, oldest, totals, .. } = report;
    let mut letters = page.family(
        "outbox_dead_letters_total",
        Type::Counter,
        "Events that cannot be delivered and went into the table of dead letters, by code.",
    );
    for code in Code::ALL.iter().filter(|code| ErrorClass::of(**code).is_some()) {
        let count = totals.letters.get(code).copied().unwrap_or_default();
        letters.whole(&[("code", code.as_str())], count);
    }
    page.gauge(
        "outbox_held_keys",
        "Keys of which events are held, and held events without a key.",
        held.keys,
    );
    page.gauge("outbox_held_events", "Dead letters, and events held behind them.", held.events);
    page.gauge("outbox_held_bytes", "Bytes of the events that are held.", held.bytes);
    if let Some(decided) = decided {
        page.gauge(
            "outbox_held_decided",
            "Dead letters that a person has requeued or dropped, and that the router has yet to \
             deliver or drop; at most 1000 are counted.",
            decided,
        );
    }
    let oldest = oldest.map_or(Duration::ZERO, |at| age(at, SystemTime::now()));
    page.gauge_float(
        "outbox_held_oldest_seconds",
        "How long ago the oldest event that is held was committed; 0 when nothing is held.",
        oldest.as_secs_f64(),
    );
    let mut count = |name, help, value| page.family(name, Type::Counter, help).whole(&[], value);
    count(
        "outbox_held_refused_again_total",
        "Dead letters that were requeued, and could not be delivered again.",
        totals.refused_again,
    );
    count(
        "outbox_held_delivered_total",
        "Events that were held, and then delivered.",
        totals.delivered,
    );
    count("outbox_rows_skipped_total", "Rows that a person has skipped.", totals.skipped);
    count("outbox_held_dropped_total", "Events that were held, and then dropped.", totals.dropped);
}
