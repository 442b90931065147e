//! `/status.json` of a router that polls. Its shape is a contract, as that of [`crate::admin`] is:
//! fields are added, never renamed. It has `source`, by which a reader knows which of the two
//! documents it has. Durations are seconds, unknown is `null`.

use std::collections::BTreeMap;

use relay::polling::{PolledTableReport, SHARDS};
use serde::Serialize;

use super::{
    facts::{Facts, ready},
    standing::acked,
    view::View,
    waiting,
};
use crate::{
    admin::{
        epoch::epoch,
        reason::Reason,
        retention::RetentionView,
        verdict::{ChangeView, VerdictView},
    },
    polling::survey::{Holder, RowCount, SurveyedTable, TableSurvey},
};

/// The version of the document. A new one means that a field has got another meaning.
const SCHEMA: u32 = 1;

/// The document.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PollingDocument {
    /// The version of this document, 1: fields are added, and none is renamed.
    pub schema: u32,
    /// Where rows come from: `polling`. The document of a router that follows a slot has no such
    /// field.
    pub source: &'static str,
    /// One word and one sentence, who has to act, since when, and what to type.
    pub verdict: VerdictView,
    /// The latest verdicts, the oldest first.
    pub history: Vec<ChangeView>,
    /// `name` of the configuration.
    pub name: String,
    /// The router's version.
    pub version: &'static str,
    /// `starting`, `standby`, `polling`, `blocked`, `draining` or `failed`.
    pub state: &'static str,
    /// Why the state is what it is; `null` where it needs no reason.
    pub reason: Option<Reason>,
    /// At which part of the pipeline it stands: `nobody`, `postgresql`, `router`, `kafka` or
    /// `holder`, which is another worker. Who has to act is in `verdict.acts`.
    pub blame: &'static str,
    /// Age of the worker's report, in seconds.
    pub age_seconds: f64,
    /// What is pending in all tables together.
    pub pending: PendingView,
    /// The tables, in the order of the configuration.
    pub tables: Vec<TableView>,
    /// Workers that share the tables, this one included.
    pub workers: u32,
    /// Rows that were produced and are not acknowledged.
    pub unacked_rows: u64,
    /// Counts since the start of the process.
    pub totals: TotalsView,
    /// The survey, which counts rows.
    pub survey: SurveyView,
    /// Rows that are removed after they were published, or abandoned.
    pub retention: RetentionView,
}

/// What is pending.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PendingView {
    /// Rows; `null` before they were counted.
    pub rows: Option<u64>,
    /// Whether there may be more than that, since counting ends at a bound.
    pub is_at_least: bool,
    /// For how long the oldest of them has waited.
    pub oldest_seconds: Option<f64>,
    /// How many of them were not tried, and wait for their time (`available_at`).
    pub not_due: u64,
    /// In what time the first of those is due; `null` without such rows, or where that is never.
    pub due_in_seconds: Option<f64>,
    /// By how many they become fewer in a second, over the last two minutes; less than zero: more.
    pub fewer_per_second: Option<f64>,
    /// In what time nothing is pending at this pace; `null` where that cannot be said, as while a
    /// row waits for another attempt, or is abandoned, and others may wait behind it.
    pub empty_in_seconds: Option<f64>,
}

/// A polled table.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TableView {
    /// Its name.
    pub name: String,
    /// Shards that this worker holds.
    pub shards_held: u32,
    /// Into how many shards its keys are divided.
    pub shards: u32,
    /// What was counted; `null` before that, and where it cannot be counted.
    pub rows: Option<RowsView>,
    /// The workers that hold shards, this one included; `null` where that cannot be read.
    pub holders: Option<Vec<HolderView>>,
    /// Rows that this worker has marked as published since it started.
    pub published: u64,
    /// Rows that somebody changed while they were sent, and that are sent again for that.
    pub changed: u64,
    /// Attempts that failed for a reason that lies in the row.
    pub failed_attempts: u64,
    /// Rows that this worker has abandoned.
    pub abandoned: u64,
    /// Rows that wait for another attempt, as far as this worker knows.
    pub waiting: u64,
    /// Why none of its rows, or one of them, cannot be produced or counted.
    pub reason: Option<Reason>,
}

/// What was counted of a table.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RowsView {
    /// Rows that are to be published.
    pub pending: u64,
    /// Whether there may be more of them.
    pub is_at_least: bool,
    /// For how long the oldest pending row that is due had waited.
    pub oldest_seconds: Option<f64>,
    /// Pending rows that were not tried, and wait for their time (`available_at`).
    pub not_due: u64,
    /// In how many seconds the first of those is due.
    pub due_in_seconds: Option<f64>,
    /// Pending rows that could be read now: their time has come, and no other worker or program has
    /// a lock on them.
    pub ready: u64,
    /// Rows that could not be delivered, and wait for another attempt. Where the table does not
    /// count attempts, those of which this worker knows.
    pub failed: u64,
    /// Rows that were abandoned.
    pub abandoned: u64,
    /// Rows that are neither pending, nor published, nor abandoned: `outbox.mark` knows nothing of
    /// their status. They are not sent, and neither are the later rows of their keys.
    pub stranded: u64,
    /// Rows that a worker has claimed.
    pub processing: u64,
}

/// A worker that holds shards.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HolderView {
    /// Which one: another at each start of a process.
    pub worker: String,
    /// `name` of its configuration; `null` where it is not known.
    pub name: Option<String>,
    /// How many shards it holds.
    pub shards: u32,
    /// For how long its lease lasted when it was read; less than zero: it had ended so long ago.
    pub lease_seconds: f64,
}

/// Counts since the start of the process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TotalsView {
    /// Events that Kafka acknowledged.
    pub events_acked: u64,
    /// How often tables were read.
    pub batches: u64,
    /// Batches that were given up because their shards had another worker, or the lease had ended.
    pub claims_lost: u64,
    /// Connections to PostgreSQL that broke.
    pub reconnects_postgres: u64,
    /// Failures by code.
    pub errors: BTreeMap<&'static str, u64>,
}

/// The survey itself.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SurveyView {
    /// When the tables were last read, in seconds of the epoch.
    pub read_at: Option<f64>,
    /// How long ago, when this was written.
    pub read_seconds_ago: Option<f64>,
    /// Why they cannot be read now.
    pub trouble: Option<Reason>,
}

impl PollingDocument {
    /// The document of one moment.
    pub(super) fn of(view: &View<'_>) -> Self {
        let facts = view.facts();
        let report = facts.report;
        let (verdict, since) = view.verdict(&facts);
        let read = view.survey.read;
        Self {
            schema: SCHEMA,
            source: "polling",
            verdict: VerdictView::at(verdict, since, facts.oldest, facts.still),
            history: ChangeView::all(&view.memory.timeline),
            name: view.settings.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            state: report.state.as_str(),
            reason: report.reason.as_ref().map(Reason::of_failure),
            blame: facts.blame.as_str(),
            age_seconds: view.now.saturating_duration_since(view.worker.at).as_secs_f64(),
            pending: PendingView::of(&facts, view),
            tables: report.tables.iter().map(|table| TableView::of(table, view)).collect(),
            workers: report.workers,
            unacked_rows: report.unacked,
            totals: TotalsView {
                events_acked: acked(report),
                batches: report.tables.iter().map(|table| table.batches).sum(),
                claims_lost: report.claims_lost,
                reconnects_postgres: report.reconnects,
                errors: report.errors.iter().map(|(code, &n)| (code.as_str(), n)).collect(),
            },
            survey: SurveyView {
                read_at: read.map(|read| epoch(read.wall).as_secs_f64()),
                read_seconds_ago: read
                    .map(|read| view.now.saturating_duration_since(read.at).as_secs_f64()),
                trouble: view.survey.failure.as_ref().map(Reason::of_failure),
            },
            retention: RetentionView::of(view.settings.keep, &view.retention, Reason::of_failure),
        }
    }
}

impl PendingView {
    fn of(facts: &Facts<'_>, view: &View<'_>) -> Self {
        let pending = facts.rows.map(|rows| rows.pending);
        Self {
            rows: pending.map(RowCount::rows),
            is_at_least: matches!(pending, Some(RowCount::AtLeast(_))),
            oldest_seconds: facts.oldest.map(|age| age.as_secs_f64()),
            not_due: facts.not_due.map_or(0, |later| later.rows),
            due_in_seconds: facts.not_due.and_then(|later| Some(later.first?.as_secs_f64())),
            fewer_per_second: view.memory.pace.fewer_per_second(),
            empty_in_seconds: facts.empty_in.map(|time| time.as_secs_f64()),
        }
    }
}

impl TableView {
    fn of(table: &PolledTableReport, view: &View<'_>) -> Self {
        let survey = view.survey.tables.iter().find(|survey| survey.name == table.name);
        let figures = survey.map(|survey| survey.figures.as_ref());
        let uncounted = figures.and_then(Result::err);
        let holders = survey.and_then(|survey| survey.holders.as_ref().ok());
        Self {
            name: table.name.to_string(),
            shards_held: table.shards.len(),
            shards: SHARDS,
            rows: figures.and_then(Result::ok).map(|figures| RowsView {
                failed: waiting::of_table(table, &view.survey),
                ..RowsView::of(figures)
            }),
            holders: holders.map(|holders| holders.iter().map(HolderView::of).collect()),
            published: table.published,
            changed: table.changed,
            failed_attempts: table.failed,
            abandoned: table.abandoned,
            waiting: table.waiting,
            reason: table.failure.as_ref().or(uncounted).map(Reason::of_failure),
        }
    }
}

impl RowsView {
    /// What was counted.
    pub(crate) fn of(figures: &TableSurvey) -> Self {
        Self {
            pending: figures.pending.rows(),
            is_at_least: matches!(figures.pending, RowCount::AtLeast(_)),
            oldest_seconds: figures.oldest().map(|age| age.as_secs_f64()),
            not_due: figures.not_due,
            due_in_seconds: figures.due_in().map(|time| time.as_secs_f64()),
            ready: ready(figures),
            failed: figures.failed.rows(),
            abandoned: figures.abandoned.rows(),
            stranded: figures.stranded.rows(),
            processing: figures.processing.rows(),
        }
    }
}

impl HolderView {
    /// A holder as it was read.
    pub(crate) fn of(holder: &Holder) -> Self {
        Self {
            worker: holder.worker.clone(),
            name: (!holder.name.is_empty()).then(|| holder.name.clone()),
            shards: holder.shards,
            lease_seconds: holder.lasts_seconds,
        }
    }
}

/// A table as SQL shows it, without a router: for `outbox-router status`.
#[derive(Debug, Serialize)]
pub(crate) struct SurveyedView {
    name: String,
    rows: Option<RowsView>,
    holders: Option<Vec<HolderView>>,
}

impl SurveyedView {
    pub(crate) fn of(survey: &SurveyedTable) -> Self {
        let holders = survey.holders.as_ref().ok();
        Self {
            name: survey.name.to_string(),
            rows: survey.figures.as_ref().ok().map(RowsView::of),
            holders: holders.map(|holders| holders.iter().map(HolderView::of).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::PollingDocument;

    /// The schema is made of the types above. `UPDATE_DOCS=1` writes it again.
    #[test]
    fn the_schema_in_the_docs_is_current() {
        let schema = schemars::schema_for!(PollingDocument);
        let wanted = format!("{:#}\n", schema.as_value());
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/status-polling.schema.json");
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&file, wanted).expect("the file can be written");
            return;
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == wanted, "UPDATE_DOCS=1 cargo test -p outbox-router --lib schema");
    }
}
