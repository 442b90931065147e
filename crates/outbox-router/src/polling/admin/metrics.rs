//! Every metric of a router that polls. Those that mean the same whatever the source is have the
//! same names (`shared_metrics`); those of polled tables begin with `outbox_polling_`. There is no
//! metric of a slot, so no alert about one can fire.
//!
//! What the survey reads is absent before its first reading, and keeps its last value while
//! PostgreSQL does not answer: an alert must not end because nobody sees any more what it warns of.
//! `outbox_polling_survey_timestamp_seconds` says how old the values are.

use relay::{
    LATENCY_BOUNDS,
    polling::{PollState, PolledTableReport, PollerReport},
};

use super::{facts::ready, view::View, waiting};
use crate::{
    admin::{
        brokers,
        epoch::epoch,
        exposition::{Page, Type, seconds},
        process, retention, shared_metrics,
    },
    monitor::rates::number,
    polling::survey::{SurveyReport, SurveyedTable, TableSurvey},
};

/// The page that Prometheus scrapes.
pub(super) fn encode(view: &View<'_>) -> String {
    let mut page = Page::new(&[("pipeline", &view.settings.name)]);
    let report = &view.worker.poller;
    let facts = view.facts();
    let (verdict, since) = view.verdict(&facts);
    shared_metrics::of_verdict(&mut page, verdict.word, since);
    shared_metrics::of_progress(&mut page, facts.still.as_secs_f64());
    shared_metrics::of_state(
        &mut page,
        PollState::ALL.map(PollState::as_str),
        report.state.as_str(),
    );
    shared_metrics::of_flight(&mut page, report.unacked);
    of_worker(&mut page, report);
    of_tables(&mut page, report);
    of_survey(&mut page, report, &view.survey);
    let sizes: Vec<_> = view.survey.tables.iter().filter_map(|it| it.size.clone()).collect();
    retention::metrics(&mut page, view.settings.keep, &view.retention, &sizes);
    page.family(
        "outbox_reconnects_total",
        Type::Counter,
        "Connections that were replaced since the start of the process.",
    )
    .whole(&[("peer", "postgres")], report.reconnects);
    shared_metrics::of_errors(&mut page, &report.errors);
    shared_metrics::of_topics(&mut page, &report.topics, &report.other_topics);
    brokers::metrics(&mut page, view.brokers.as_ref());
    shared_metrics::of_build(&mut page);
    process::metrics(&mut page);
    page.into_text()
}

fn of_worker(page: &mut Page, report: &PollerReport) {
    page.gauge(
        "outbox_polling_workers",
        "Workers of the polled table that has the most, this one included, as the last lease says.",
        u64::from(report.workers),
    );
    page.family(
        "outbox_polling_claims_lost_total",
        Type::Counter,
        "Batches that were given up because their shards had another worker, or the lease had ended.",
    )
    .whole(&[], report.claims_lost);
    let sum = seconds(report.batch_times.sum_micros);
    page.family(
        "outbox_polling_batch_seconds",
        Type::Histogram,
        "From the request for rows to the commit of their marks, of batches that had rows.",
    )
    .histogram(&[], &LATENCY_BOUNDS, &report.batch_times.buckets, sum);
}

fn of_tables(page: &mut Page, report: &PollerReport) {
    let mut each = |name, kind, help: &str, value: fn(&PolledTableReport) -> u64| {
        let mut family = page.family(name, kind, help);
        for table in &report.tables {
            family.whole(&[("table", &table.name.to_string())], value(table));
        }
    };
    each(
        "outbox_polling_shards_held",
        Type::Gauge,
        "Shards of the table that this worker holds; all workers together hold 64.",
        |table| u64::from(table.shards.len()),
    );
    each(
        "outbox_polling_batches_total",
        Type::Counter,
        "How often the table was read, also where nothing was pending.",
        |table| table.batches,
    );
    each("outbox_polling_rows_read_total", Type::Counter, "Rows that were read.", |table| {
        table.fetched
    });
    each(
        "outbox_polling_rows_published_total",
        Type::Counter,
        "Rows that were marked as published.",
        |table| table.published,
    );
    each(
        "outbox_polling_rows_changed_total",
        Type::Counter,
        "Rows that somebody changed while they were sent, and that are sent again for that.",
        |table| table.changed,
    );
    each(
        "outbox_polling_retries_total",
        Type::Counter,
        "Attempts that failed for a reason that lies in the row, after which it is tried again.",
        |table| table.failed.saturating_sub(table.abandoned),
    );
    each(
        "outbox_polling_rows_abandoned_total",
        Type::Counter,
        "Rows that were abandoned.",
        |table| table.abandoned,
    );
}

fn of_survey(page: &mut Page, report: &PollerReport, survey: &SurveyReport) {
    page.gauge_float(
        "outbox_polling_survey_timestamp_seconds",
        "When the rows of the polled tables were last counted; 0 before that.",
        survey.read.map_or(0.0, |read| epoch(read.wall).as_secs_f64()),
    );
    let figures = |table: &SurveyedTable| {
        let known = report.tables.iter().find(|known| known.name == table.name);
        let figures = *table.figures.as_ref().ok()?;
        let failed = known.map_or(figures.failed.rows(), |known| waiting::of_table(known, survey));
        Some((table.name.to_string(), figures, failed))
    };
    let counted: Vec<(String, TableSurvey, u64)> =
        survey.tables.iter().filter_map(figures).collect();
    if counted.is_empty() {
        return;
    }
    let mut each = |name, help: &str, value: fn(&TableSurvey, u64) -> f64| {
        let mut family = page.family(name, Type::Gauge, help);
        for (table, figures, failed) in &counted {
            family.float(&[("table", table)], value(figures, *failed));
        }
    };
    each(
        "outbox_polling_pending_rows",
        "Rows that are neither published nor abandoned, also those that are not due. Counting ends \
         at a bound, so there may be more.",
        |figures, _| number(figures.pending.rows()),
    );
    each(
        "outbox_polling_not_due_rows",
        "Pending rows that were not tried, and whose time (available_at) has not come. Counting \
         ends at the same bound.",
        |figures, _| number(figures.not_due),
    );
    each(
        "outbox_polling_ready_rows",
        "Pending rows that could be read now: their time has come, and nobody else has a lock on \
         them. Counting ends at the same bound.",
        |figures, _| number(ready(figures)),
    );
    each(
        "outbox_polling_oldest_pending_seconds",
        "For how long the oldest pending row that is due has waited; 0 when there is none.",
        |figures, _| figures.oldest().unwrap_or_default().as_secs_f64(),
    );
    each(
        "outbox_polling_failed_rows",
        "Rows that could not be delivered, and wait for another attempt. Where the table does not \
         count attempts, those of which this worker knows.",
        |_, failed| number(failed),
    );
    each(
        "outbox_polling_abandoned_rows",
        "Rows that were abandoned, until a person requeues or drops them.",
        |figures, _| number(figures.abandoned.rows()),
    );
    each(
        "outbox_polling_stranded_rows",
        "Rows with a status of which outbox.mark knows nothing: not sent, until a person decides.",
        |figures, _| number(figures.stranded.rows()),
    );
    each(
        "outbox_polling_processing_rows",
        "Rows that a worker has claimed and not yet marked.",
        |figures, _| number(figures.processing.rows()),
    );
}
