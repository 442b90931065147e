//! The polling source: how fast it drains a table, beside the poller that texts about this pattern
//! have, and how soon a NOTIFY brings a new row into Kafka.
//!
//! Both pollers read the same rows of the same table, in turns; before each run the table is filled
//! again. The rate is measured between the moments at which 5 % and 95 % of the records are in
//! Kafka.

mod latency;
mod literature;
mod table;

use std::time::Duration;

use anyhow::{Context, bail};
use rdkafka::Message as _;
use serde::Serialize;
use serde_json::json;
use testbed::kafka::KafkaCluster;
use testbed::process::cpu_time;
use testbed::router::RouterProcess;
use tokio::time::Instant;

use self::table::PolledTable;
use crate::args::Args;
use crate::audit::Audit;
use crate::bench::Bench;
use crate::figures::{Spread, float};
use crate::reader::{Reader, stop};
use crate::report::{Report, Table, alternate_order};
use crate::shape::Distribution;
use crate::targets::{Limit, Target};
use crate::topic::{RunTopics, blocking};
use crate::yardstick::Needs;

/// Rows of the table, unless others are asked for.
const EVENTS: u64 = 200_000;
/// How long a run may take.
const DEADLINE: Duration = Duration::from_mins(10);
const POLLING_DEADLINE: Duration = Duration::from_secs(30);
/// The part of the rows between which the rate is measured.
const FROM: f64 = 0.05;
const TO: f64 = 0.95;

/// The figures of one run.
#[derive(Debug, Clone, Copy, Serialize)]
struct Figures {
    events_per_second: f64,
    /// Of the router, for each row.
    cpu_us: Option<f64>,
}

/// Who polls.
#[derive(Debug, Clone, Copy)]
enum Poller<'a> {
    Router(&'a Reader),
    Literature,
}

impl Poller<'_> {
    fn name(&self) -> String {
        match self {
            Self::Router(reader) => reader.name().to_owned(),
            Self::Literature => "batches of 100, one UPDATE per row".to_owned(),
        }
    }

    const fn slug(&self) -> &'static str {
        match self {
            Self::Router(_) => "router",
            Self::Literature => "literature",
        }
    }
}

/// Measures both.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    for (reader, _) in Reader::routers(readers) {
        drain(args, reader, kafka, report).await?;
        latency::measure(args, reader, kafka, report).await?;
    }
    Ok(())
}

async fn drain(
    args: &Args,
    reader: &Reader,
    kafka: &KafkaCluster,
    report: &mut Report,
) -> anyhow::Result<()> {
    let events = args.events(EVENTS);
    report.print(&format!("writing a table of {events} pending rows"))?;
    let table = PolledTable::create(args, events).await?;
    let topics = RunTopics::create(&kafka.bootstrap(), "polling", Distribution::default()).await?;
    table.set_up(&table.router(reader, &topics)?, &[]).await?;
    let mut pollers = [Poller::Router(reader), Poller::Literature];
    let (mut ours, mut theirs, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..=args.runs {
        for poller in alternate_order(turn, &mut pollers) {
            table.fill().await?;
            let name = format!("polling-{turn}-{}", poller.slug());
            let topics =
                RunTopics::create(&kafka.bootstrap(), &name, Distribution::default()).await?;
            let outcome = run(*poller, &table, &topics, events).await?;
            topics.delete().await?;
            let what = format!("polling run {turn} of {}", poller.name());
            let Some(figures) = report.require_no_anomaly(&what, outcome)? else { continue };
            report.print(&format!(
                "  run {turn} {}: {:.1}k rows/s",
                poller.name(),
                figures.events_per_second / 1e3
            ))?;
            let line = json!({ "reader": poller.name(), "run": turn, "warm_up": turn == 0 });
            report.record("polling", line, figures)?;
            if turn > 0 {
                match poller {
                    Poller::Router(_) => {
                        ours.push(figures.events_per_second);
                        cpu.extend(figures.cpu_us);
                    }
                    Poller::Literature => theirs.push(figures.events_per_second),
                }
            }
        }
    }
    let show = |figures: &[f64], scale: f64| {
        Spread::of(figures.iter().map(|figure| figure * scale))
            .map_or_else(|| "-".to_owned(), |spread| spread.show_fine())
    };
    let mut shown = Table::new(&["poller", "k rows/s: min median max", "router's CPU us/row"]);
    shown.row([reader.name().to_owned(), show(&ours, 1e-3), show(&cpu, 1.0)]);
    shown.row([Poller::Literature.name(), show(&theirs, 1e-3), "-".to_owned()]);
    report.print(&format!("\npolling a table of {events} pending rows\n{}", shown.show()))?;
    if let Some(rate) = Spread::of(ours.iter().copied()) {
        let what = format!("{}: rows/s by polling", reader.name());
        let target = Target::new(what, Limit::AtLeast(15_000.0), rate);
        report.add_target(target.needs(Needs::QuietMachine));
    }
    if let Some(ratio) = Spread::of(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs)) {
        let what = format!("{}: by polling / batches of 100, one UPDATE per row", reader.name());
        let target = Target::new(what, Limit::AtLeast(5.0), ratio);
        report.add_target(target.needs(Needs::QuietMachine));
    }
    Ok(())
}

/// Drains the table.
async fn run(
    poller: Poller<'_>,
    table: &PolledTable,
    topics: &RunTopics,
    events: u64,
) -> anyhow::Result<Result<Figures, String>> {
    let measured = match poller {
        Poller::Router(reader) => {
            let mut router = table.router(reader, topics)?;
            router.start_again()?;
            let pid = router.process()?.pid();
            let rate = rate(topics, events).await.with_context(|| router.log())?;
            table.wait_marked().await?;
            let cpu = cpu_time(pid)?.as_secs_f64() * 1e6 / float(events);
            stop(&mut router).await?;
            Figures { events_per_second: rate, cpu_us: Some(cpu) }
        }
        Poller::Literature => {
            let (url, name) = (table.url(), table.name());
            let polling = literature::poll(&url, &name, topics);
            let (rate, ()) = tokio::try_join!(rate(topics, events), polling)?;
            Figures { events_per_second: rate, cpu_us: None }
        }
    };
    let audit = audit(topics, events).await?;
    Ok(audit.map(|()| measured))
}

/// Records a second, between the moments at which two parts of them are in Kafka.
async fn rate(topics: &RunTopics, events: u64) -> anyhow::Result<f64> {
    let ends = topics.ends().await?;
    let (from, to) = (float(events) * FROM, float(events) * TO);
    blocking(move || {
        let started = Instant::now();
        let mut began: Option<(Instant, f64)> = None;
        loop {
            let records = float(ends.records()?);
            let now = Instant::now();
            match began {
                None if records >= from => began = Some((now, records)),
                Some((at, before)) if records >= to => {
                    return Ok((records - before) / (now - at).as_secs_f64());
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

/// Waits until the router polls.
async fn wait_polling(router: &mut RouterProcess) -> anyhow::Result<()> {
    router.wait_state("polling", POLLING_DEADLINE).await.map(drop)
}
