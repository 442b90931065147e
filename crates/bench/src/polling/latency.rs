//! How soon a row that is written is in Kafka, by polling that a NOTIFY wakes and by the stream of
//! a slot, what that costs the server while rows come and while none come, and what writing alone
//! costs it.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;
use testbed::kafka::KafkaCluster;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::load::{RowCost, Used};
use super::source::Source;
use super::table::PolledTable;
use crate::args::Args;
use crate::figures::{Spread, float};
use crate::latency::TIME;
use crate::latency_figures::LatencyFigures;
use crate::listen::consume;
use crate::reader::Reader;
use crate::report::{Column, Report, Table, alternate_order};
use crate::shape::Distribution;
use crate::targets::{Limit, Target};
use crate::topic::RunTopics;
use crate::watch::Anomaly;
use crate::writers::{Timetable, WARM_UP, WriteResult, write};
use crate::yardstick::Needs;

const RATE: u64 = 1_000;
/// For how long no row comes.
const IDLE: Duration = Duration::from_secs(20);

/// The figures of one run.
#[derive(Debug, Clone, Copy, Serialize)]
struct Figures {
    /// `None` where nothing was delivered.
    #[serde(flatten)]
    latency: Option<LatencyFigures>,
    /// While rows are written, that included.
    #[serde(flatten)]
    cost: RowCost,
    /// Of a core, of the server while no row comes.
    idle_percent: Option<f64>,
}

/// Who delivers what is written, and its runs.
struct Row {
    source: Option<Source>,
    name: String,
    runs: Vec<Figures>,
}

impl Row {
    fn new(source: Option<Source>, reader: &Reader) -> Self {
        let name = match source {
            Some(Source::Polling) => format!("{}, polling with NOTIFY", reader.name()),
            Some(Source::Stream) => format!("{}, stream", reader.name()),
            None => "writers alone".to_owned(),
        };
        Self { source, name, runs: Vec::new() }
    }

    fn spread(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(figure))
    }

    fn show(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Option<String> {
        Some(self.spread(figure)?.show_fine())
    }

    fn latency(&self, figure: impl Fn(&LatencyFigures) -> f64) -> Option<String> {
        self.show(|run| run.latency.as_ref().map(&figure))
    }
}

pub(super) async fn measure(
    args: &Args,
    reader: &Reader,
    kafka: &KafkaCluster,
    report: &mut Report,
) -> anyhow::Result<()> {
    let sources = [Some(Source::Polling), Some(Source::Stream), None];
    let mut rows = sources.map(|source| Row::new(source, reader));
    for turn in 1..=args.latency_runs() {
        for row in alternate_order(turn, &mut rows) {
            let outcome = match row.source {
                Some(source) => delivered(args, reader, source, turn, kafka).await?,
                None => Ok(written_alone(args).await?),
            };
            let what = format!("polling latency {turn} of {}", row.name);
            let Some(figures) = report.require_no_anomaly(&what, outcome)? else { continue };
            let line = json!({ "reader": row.name, "rate": RATE, "run": turn });
            report.record("polling-latency", line, figures)?;
            row.runs.push(figures);
        }
    }
    let columns: [Column<'_, &Row>; 7] = [
        ("delivered by", &|row| Some(row.name.clone())),
        ("p50 ms", &|row| row.latency(|run| run.p50)),
        ("p99 ms", &|row| row.latency(|run| run.p99)),
        ("CPU us/row: router", &|row| row.show(|run| Some(run.cost.router))),
        ("server", &|row| row.show(|run| Some(run.cost.server))),
        ("WAL bytes/row", &|row| row.show(|run| Some(run.cost.wal))),
        ("server idle, % of a core", &|row| row.show(|run| run.idle_percent)),
    ];
    let shown = Table::of(&columns, rows.iter().filter(|row| !row.runs.is_empty())).show();
    report.print(&format!("\ncommit to consumer, {RATE} transactions a second\n{shown}"))?;
    let polling = rows.iter().find(|row| row.source == Some(Source::Polling));
    if let Some(p50) = polling.and_then(|row| row.spread(|run| Some(run.latency?.p50))) {
        let what =
            format!("{}, polling with NOTIFY, {RATE}/s: commit to consumer p50, ms", reader.name());
        let target = Target::new(what, Limit::AtMost(10.0), p50);
        report.add_target(target.needs(Needs::QuietMachine));
    }
    Ok(())
}

/// One run of a router.
async fn delivered(
    args: &Args,
    reader: &Reader,
    source: Source,
    turn: u32,
    kafka: &KafkaCluster,
) -> anyhow::Result<Result<Figures, Anomaly>> {
    let table = PolledTable::create(args).await?;
    let name = format!("polling-latency-{turn}-{}", source.name());
    let topics = RunTopics::create(&kafka.bootstrap(), &name, Distribution::default()).await?;
    let mut router = source.router(&table, reader, &topics)?;
    match source {
        Source::Polling => table.set_up(&router, &["--notify"]).await?,
        Source::Stream => source.before_rows(&table).await?,
    }
    source.start(&mut router).await?;
    let pid = [router.process()?.pid()];
    let timetable = Timetable::lasting(RATE, WARM_UP + TIME);
    let consuming = consume(&topics, &timetable, None).await?;
    let before = Used::now(&table.server, &pid).await?;
    let (url, rows, planned) = (table.url(), table.name(), timetable.clone());
    let writing = spawn_blocking(move || write(&url, &rows, &planned));
    let (written, seen) = tokio::try_join!(writing, consuming)?;
    let seen = seen.with_context(|| format!("log:\n{}", router.log()))?;
    let WriteResult { took, lateness, .. } = written?;
    source.wait_done(&table).await?;
    let after = Used::now(&table.server, &pid).await?;
    let cost = before.per_row(after, timetable.events);
    let idle_percent = Some(idle(&table).await?);
    source.stop(&table, &mut router).await?;
    let late = float(lateness.value_at_quantile(0.99)) / 1e6;
    let latency = LatencyFigures::of(&topics, &timetable, seen, (took, Some(late))).await?;
    Ok(latency.map(|latency| Figures { latency: Some(latency), cost, idle_percent }))
}

/// What the same rows cost that nobody delivers.
async fn written_alone(args: &Args) -> anyhow::Result<Figures> {
    let table = PolledTable::create(args).await?;
    let timetable = Timetable::lasting(RATE, WARM_UP + TIME);
    let before = Used::now(&table.server, &[]).await?;
    let (url, rows, planned) = (table.url(), table.name(), timetable.clone());
    spawn_blocking(move || write(&url, &rows, &planned)).await??;
    let cost = before.per_row(Used::now(&table.server, &[]).await?, timetable.events);
    Ok(Figures { latency: None, cost, idle_percent: Some(idle(&table).await?) })
}

/// What the server does while no row comes, in percent of a core.
async fn idle(table: &PolledTable) -> anyhow::Result<f64> {
    let before = Used::now(&table.server, &[]).await?;
    sleep(IDLE).await;
    let after = Used::now(&table.server, &[]).await?;
    Ok(before.server_percent(after, IDLE.as_secs_f64()))
}
