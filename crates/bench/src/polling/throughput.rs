//! How fast a table is drained, and what that costs.
//!
//! The same number of rows is written before each run, and delivered by polling, by the stream of a
//! slot that was made before them, and by the poller of the texts, in turns. The rate is measured
//! between the moments at which 30 % and 95 % of the records are in Kafka: several workers divide
//! the keys when the first one has renewed its lease, after some seconds.

use std::time::Duration;

use anyhow::{Context, bail};
use rdkafka::Message as _;
use serde::Serialize;
use serde_json::json;
use testbed::kafka::KafkaCluster;
use testbed::router::RouterProcess;
use tokio::time::Instant;

use super::literature;
use super::load::{RowCost, Used};
use super::source::Source;
use super::table::PolledTable;
use crate::args::Args;
use crate::audit::Audit;
use crate::figures::{Spread, float};
use crate::reader::{Reader, stop};
use crate::report::{Column, Report, Table, alternate_order};
use crate::shape::Distribution;
use crate::targets::{Limit, Target};
use crate::topic::{RunTopics, blocking};
use crate::yardstick::Needs;

/// Rows of the table, unless others are asked for.
const EVENTS: u64 = 200_000;
/// How long a run may take.
const DEADLINE: Duration = Duration::from_mins(10);
/// The part of the rows between which the rate is measured.
const FROM: f64 = 0.3;
const TO: f64 = 0.95;

/// The figures of one run.
#[derive(Debug, Clone, Copy, Serialize)]
struct Figures {
    events_per_second: f64,
    #[serde(flatten)]
    cost: RowCost,
    /// Of the server, for each row, by the VACUUM that follows.
    vacuum_cpu_us: f64,
}

/// Who delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Router(Source),
    /// So many workers that poll a table whose rows are claimed.
    Claiming(usize),
    Literature,
}

impl Way {
    fn name(self, reader: &Reader) -> String {
        match self {
            Self::Router(source) => format!("{}, {}", reader.name(), source.name()),
            Self::Claiming(1) => format!("{}, polling with claims", reader.name()),
            Self::Claiming(workers) => {
                format!("{}, polling with claims, {workers} workers", reader.name())
            }
            Self::Literature => "batches of 100, one UPDATE per row".to_owned(),
        }
    }

    fn slug(self) -> String {
        match self {
            Self::Router(source) => source.name().to_owned(),
            Self::Claiming(workers) => format!("claiming-{workers}"),
            Self::Literature => "literature".to_owned(),
        }
    }
}

/// One way, and its runs.
struct Row {
    way: Way,
    name: String,
    runs: Vec<Figures>,
}

impl Row {
    fn show(&self, figure: impl Fn(&Figures) -> f64) -> Option<String> {
        Some(Spread::of(self.runs.iter().map(figure))?.show_fine())
    }
}

pub(super) async fn measure(
    args: &Args,
    reader: &Reader,
    kafka: &KafkaCluster,
    report: &mut Report,
) -> anyhow::Result<()> {
    let events = args.events(EVENTS);
    let (table, claimed) = (PolledTable::create(args).await?, PolledTable::claimed(args).await?);
    let topics = RunTopics::create(&kafka.bootstrap(), "polling", Distribution::default()).await?;
    for table in [&table, &claimed] {
        table.set_up(&Source::Polling.router(table, reader, &topics)?, &[]).await?;
    }
    let [polling, stream] = [Source::Polling, Source::Stream].map(Way::Router);
    let ways = [polling, stream, Way::Claiming(1), Way::Claiming(2), Way::Literature];
    let mut rows = ways.map(|way| Row { way, name: way.name(reader), runs: Vec::new() });
    for turn in 0..=args.runs {
        for row in alternate_order(turn, &mut rows) {
            let name = format!("polling-{turn}-{}", row.way.slug());
            let topics =
                RunTopics::create(&kafka.bootstrap(), &name, Distribution::default()).await?;
            let table = if let Way::Claiming(_) = row.way { &claimed } else { &table };
            let outcome = run(row.way, reader, table, &topics, events).await?;
            topics.delete().await?;
            let what = format!("polling run {turn} of {}", row.name);
            let Some(figures) = report.require_no_anomaly(&what, outcome)? else { continue };
            let rate = figures.events_per_second / 1e3;
            report.print(&format!("  run {turn} {}: {rate:.1}k rows/s", row.name))?;
            let line = json!({ "reader": row.name, "run": turn, "warm_up": turn == 0 });
            report.record("polling", line, figures)?;
            if turn > 0 {
                row.runs.push(figures);
            }
        }
    }
    let columns: [Column<'_, &Row>; 6] = [
        ("delivered by", &|row| Some(row.name.clone())),
        ("k rows/s: min median max", &|row| row.show(|run| run.events_per_second / 1e3)),
        ("CPU us/row: router", &|row| row.show(|run| run.cost.router)),
        ("server", &|row| row.show(|run| run.cost.server)),
        ("its VACUUM", &|row| row.show(|run| run.vacuum_cpu_us)),
        ("WAL bytes/row", &|row| row.show(|run| run.cost.wal)),
    ];
    let shown = Table::of(&columns, rows.iter().filter(|row| !row.runs.is_empty())).show();
    report.print(&format!("\na table of {events} pending rows\n{shown}"))?;
    add_targets(reader, &rows, report);
    Ok(())
}

fn add_targets(reader: &Reader, rows: &[Row], report: &mut Report) {
    let rates = |way: Way| {
        let runs = rows.iter().filter(move |row| row.way == way).flat_map(|row| &row.runs);
        runs.map(|run| run.events_per_second)
    };
    let ours = || rates(Way::Router(Source::Polling));
    if let Some(rate) = Spread::of(ours()) {
        let what = format!("{}: rows/s by polling", reader.name());
        let target = Target::new(what, Limit::AtLeast(15_000.0), rate);
        report.add_target(target.needs(Needs::QuietMachine));
    }
    let theirs = rates(Way::Literature);
    if let Some(ratio) = Spread::of(ours().zip(theirs).map(|(ours, theirs)| ours / theirs)) {
        let what = format!("{}: by polling / batches of 100, one UPDATE per row", reader.name());
        let target = Target::new(what, Limit::AtLeast(5.0), ratio);
        report.add_target(target.needs(Needs::QuietMachine));
    }
}

/// Fills the table and drains it.
async fn run(
    way: Way,
    reader: &Reader,
    table: &PolledTable,
    topics: &RunTopics,
    events: u64,
) -> anyhow::Result<Result<Figures, String>> {
    let server = &table.server;
    let source = match way {
        Way::Router(source) => Some((source, 1)),
        Way::Claiming(workers) => Some((Source::Polling, workers)),
        Way::Literature => None,
    };
    let (rate, cost) = match source {
        Some((source, workers)) => {
            source.before_rows(table).await?;
            table.fill(events).await?;
            let mut routers = Vec::with_capacity(workers);
            for _ in 0..workers {
                routers.push(source.router(table, reader, topics)?);
            }
            let before = Used::now(server, &[]).await?;
            let mut pids = Vec::with_capacity(workers);
            for router in &mut routers {
                router.start_again()?;
                pids.push(router.process()?.pid());
            }
            let logs = || routers.iter().map(RouterProcess::log).collect::<String>();
            let rate = rate(topics, events).await.with_context(logs)?;
            source.wait_done(table).await?;
            let cost = before.per_row(Used::now(server, &pids).await?, events);
            for router in &mut routers {
                stop(router).await?;
            }
            source.after_rows(table).await?;
            (rate, cost)
        }
        None => {
            table.fill(events).await?;
            let before = Used::now(server, &[]).await?;
            let (url, name) = (table.url(), table.name());
            let polling = literature::poll(&url, &name, topics);
            let (rate, ()) = tokio::try_join!(rate(topics, events), polling)?;
            // It runs in this process, beside the bench.
            (rate, before.per_row(Used::now(server, &[]).await?, events))
        }
    };
    let before = Used::now(server, &[]).await?;
    table.vacuum().await?;
    let vacuum_cpu_us = before.per_row(Used::now(server, &[]).await?, events).server;
    let audit = audit(topics, events).await?;
    Ok(audit.map(|()| Figures { events_per_second: rate, cost, vacuum_cpu_us }))
}

/// Records a second, between the moments at which two parts of them are in Kafka. Returns when all
/// of them are.
async fn rate(topics: &RunTopics, events: u64) -> anyhow::Result<f64> {
    let ends = topics.ends().await?;
    let (from, to) = (float(events) * FROM, float(events) * TO);
    blocking(move || {
        let started = Instant::now();
        let (mut began, mut measured): (Option<(Instant, f64)>, Option<f64>) = (None, None);
        loop {
            let records = float(ends.records()?);
            let now = Instant::now();
            match began {
                None if records >= from => began = Some((now, records)),
                Some((at, before)) if records >= to => {
                    let rate = (records - before) / (now - at).as_secs_f64();
                    let rate = *measured.get_or_insert(rate);
                    if records >= float(events) {
                        return Ok(rate);
                    }
                }
                None | Some(_) => {}
            }
            if started.elapsed() > DEADLINE {
                bail!("{records} of {events} records after {DEADLINE:?}");
            }
            std::thread::sleep(ends.pause().max(Duration::from_millis(5)));
        }
    })
    .await
}

/// Every row once, in the order of its key.
async fn audit(topics: &RunTopics, events: u64) -> anyhow::Result<Result<(), String>> {
    let records = topics.records().await?;
    let topics = topics.clone();
    blocking(move || {
        let mut audit = Audit::new(events, Distribution::default())?;
        topics.follow()?.read(events, |record| {
            audit.note(topics.place(record), record.key(), record.payload());
            Ok(())
        })?;
        Ok(audit.result(records).map_err(|anomalies| anomalies.to_string()))
    })
    .await
}
