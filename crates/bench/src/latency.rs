//! How long an event takes from its commit to a consumer, while transactions come at a fixed rate.
//!
//! The clock starts when the commit is sent and stops when the consumer has the record, so it holds
//! the commit itself, the relay, and the broker; the floor beside it holds the broker alone.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use testbed::kafka::Kafka;
use tokio::task::spawn_blocking;

use crate::args::{Args, Mode, Socket};
use crate::figures::{Spread, float, megabytes};
use crate::floor::produce;
use crate::listen::{Seen, WARM_UP, consume};
use crate::reader::{Aim, Reader};
use crate::report::{Limit, Mark, Report, Table, there_and_back};
use crate::run::{Fault, cast};
use crate::scene::Scene;
use crate::topic::{Ends, Topics};
use crate::writers::{Timetable, Written};

const TIME: Duration = Duration::from_secs(20);

/// What a run at one rate amounts to.
struct Figures {
    seen: Seen,
    written_per_second: f64,
    /// 99 % of the events were sent at most this much later than they were due; `None` where nobody wrote into PostgreSQL.
    late_millis: Option<f64>,
}

/// A percentile of a run, and how it is called.
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "max")];

impl Figures {
    fn millis_at(&self, quantile: f64) -> f64 {
        float(self.seen.latency.value_at_quantile(quantile)) / 1e6
    }
}

/// One reader at one rate.
struct Row<'a> {
    reader: &'a Reader,
    name: String,
    runs: Vec<Figures>,
}

/// Measures every rate: the floor and each reader, taking turns.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    for rate in args.rates().into_iter().map(u64::from) {
        let row = |reader| Row { reader, name: name(reader), runs: Vec::new() };
        let mut rows: Vec<Row<'_>> =
            readers.iter().filter(|reader| reader.can_use(args.first_socket())).map(row).collect();
        for turn in 1..=args.latency_runs() {
            for row in there_and_back(turn, &mut rows) {
                // Written into nothing, nothing arrives: pg_recvlogical's place is taken by the floor.
                let outcome = match row.reader {
                    Reader::PgRecvlogical => floor(rate, turn, kafka).await?,
                    reader @ (Reader::Router { .. } | Reader::Debezium(_)) => {
                        delivered(args.place(), reader, (rate, turn), kafka).await?
                    }
                };
                match outcome {
                    Ok(figures) => {
                        tell(&figures, row.reader, (&row.name, rate, turn), report)?;
                        row.runs.push(figures);
                    }
                    Err(fault) => report.fault(format!("latency-{rate}-{}: {fault}", row.name))?,
                }
            }
        }
        report.say(&format!("\nlatency, commit to consumer, {rate} transactions a second"))?;
        report.say(&table(&rows).show())?;
        rows.iter().for_each(|row| set_marks(row, rate, report));
    }
    Ok(())
}

fn name(reader: &Reader) -> String {
    match reader {
        Reader::PgRecvlogical => "producer alone".to_owned(),
        Reader::Router { .. } | Reader::Debezium(_) => reader.name().to_owned(),
    }
}

async fn floor(rate: u64, turn: u32, kafka: &Kafka) -> anyhow::Result<Result<Figures, Fault>> {
    let (bootstrap, topics) = (kafka.bootstrap(), Topics::one(&format!("floor-{rate}-{turn}")));
    topics.create(&bootstrap).await?;
    let timetable = Timetable::lasting(rate, WARM_UP + TIME);
    let consuming = consume(&bootstrap, &topics, &timetable, None).await?;
    let producing = {
        let (bootstrap, topic, timetable) =
            (bootstrap.clone(), topics.route().to_owned(), timetable.clone());
        spawn_blocking(move || produce(&bootstrap, &topic, &timetable))
    };
    let (took, seen) = tokio::try_join!(producing, consuming)?;
    let written_per_second = float(timetable.events) / took?.as_secs_f64();
    let figures = Figures { seen: seen?, written_per_second, late_millis: None };
    judge(&bootstrap, &topics, figures).await
}

async fn delivered(
    place: (u16, Socket),
    reader: &Reader,
    (rate, turn): (u64, u32),
    kafka: &mut Kafka,
) -> anyhow::Result<Result<Figures, Fault>> {
    let topic = format!("latency-{rate}-{turn}-{}", reader.slug());
    let scene = Scene::set(place, kafka, "latency", &topic).await?;
    let Scene { stage, topics, bootstrap, slot, .. } = &scene;
    let mut running = scene.start(reader, Aim::Latency).await?;
    let timetable = Timetable::lasting(rate, WARM_UP + TIME);
    let cast = cast(stage, slot, kafka, running.pid()?).await?;
    let consuming = consume(bootstrap, topics, &timetable, Some(cast)).await?;
    let writing = scene.write(&timetable);
    let (written, seen) = tokio::try_join!(writing, consuming)?;
    let seen = seen.with_context(|| format!("log:\n{}", running.log()))?;
    running.stop().await?;
    let Written { took, lateness } = written?;
    let written_per_second = float(timetable.events) / took.as_secs_f64();
    let late_millis = Some(float(lateness.value_at_quantile(0.99)) / 1e6);
    judge(bootstrap, topics, Figures { seen, written_per_second, late_millis }).await
}

/// Figures stand only when every event arrived once and in order.
async fn judge(
    bootstrap: &str,
    topics: &Topics,
    mut figures: Figures,
) -> anyhow::Result<Result<Figures, Fault>> {
    let records = {
        let (bootstrap, topics) = (bootstrap.to_owned(), topics.clone());
        spawn_blocking(move || Ends::of(&bootstrap, &topics)?.records()).await??
    };
    topics.delete(bootstrap).await?;
    let verdict = figures.seen.verdict(records)?;
    Ok(verdict.map(|()| figures))
}

fn tell(
    figures: &Figures,
    reader: &Reader,
    (name, rate, turn): (&str, u64, u32),
    report: &mut Report,
) -> anyhow::Result<()> {
    let seen = &figures.seen;
    // A producer alone has neither relay nor walsender, and nobody looked at its CPU.
    let delivers = !matches!(reader, Reader::PgRecvlogical);
    let measured = |figure: f64| delivers.then_some(figure);
    report.record(&json!({
        "kind": Mode::Latency.name(), "reader": name, "rate": rate, "run": turn,
        "written_per_second": figures.written_per_second, "late_p99_ms": figures.late_millis,
        "p50_ms": figures.millis_at(0.5), "p99_ms": figures.millis_at(0.99),
        "p999_ms": figures.millis_at(0.999), "max_ms": figures.millis_at(1.0),
        "reader_cpu_us": measured(seen.cpu.reader),
        "walsender_cpu_us": measured(seen.cpu.walsender),
        "broker_cpu_us": measured(seen.cpu.broker),
        "peak_rss_megabytes": measured(megabytes(seen.peak_bytes)),
        "others_cores": measured(seen.others_cores),
    }))
}

fn table(rows: &[Row<'_>]) -> Table {
    let mut head = vec!["reader"];
    let heads = QUANTILES.map(|(_, name)| format!("{name} ms"));
    head.extend(heads.iter().map(String::as_str));
    head.extend(["written/s", "late p99 ms", "CPU us/event: reader", "walsender", "broker"]);
    head.extend(["peak RSS MB", "others, cores"]);
    let mut table = Table::new(&head);
    for Row { reader, name, runs } in rows.iter().filter(|row| !row.runs.is_empty()) {
        let delivers = !matches!(reader, Reader::PgRecvlogical);
        let spread = |figure: &dyn Fn(&Figures) -> f64| Spread::of(runs.iter().map(figure));
        let latency = |quantile: f64| match spread(&|run| run.millis_at(quantile)) {
            Some(spread) if runs.len() > 1 => spread.show_fine(),
            spread => spread.map_or("-".to_owned(), |spread| format!("{:.2}", spread.median)),
        };
        let median = |figure: &dyn Fn(&Figures) -> f64| match spread(figure) {
            Some(spread) if delivers => format!("{:.1}", spread.median),
            _ => "-".to_owned(),
        };
        let mut cells = vec![name.clone()];
        cells.extend(QUANTILES.map(|(quantile, _)| latency(quantile)));
        cells.push(spread(&|run| run.written_per_second).map_or("-".to_owned(), |written| {
            // The slowest tells whether the writers kept to the timetable.
            format!("{:.0}", written.min)
        }));
        cells.push(median(&|run| run.late_millis.unwrap_or_default()));
        cells.push(median(&|run| run.seen.cpu.reader));
        cells.push(median(&|run| run.seen.cpu.walsender));
        cells.push(median(&|run| run.seen.cpu.broker));
        cells.push(median(&|run| megabytes(run.seen.peak_bytes)));
        cells.push(median(&|run| run.seen.others_cores));
        table.row(cells);
    }
    table
}

/// Percentile by percentile, the median of the runs.
fn set_marks(row: &Row<'_>, rate: u64, report: &mut Report) {
    let limits = match rate {
        1000 => [(0.5, 1.5, 1.0), (0.99, 5.0, 3.0)],
        5000 => [(0.5, 2.0, 1.2), (0.99, 8.0, 5.0)],
        10_000 => [(0.5, 4.0, 2.0), (0.99, 20.0, 8.0)],
        _ => return,
    };
    if !row.reader.is_router() {
        return;
    }
    for (quantile, limit, aim) in limits {
        let runs = row.runs.iter().map(|run| run.millis_at(quantile));
        let Some(spread) = Spread::of(runs) else { continue };
        let name = QUANTILES.iter().find(|(of, _)| *of == quantile).map_or("", |(_, name)| name);
        let what = format!("{}, {rate}/s: commit to consumer {name}, ms", row.name);
        let limit = Limit::AtMost(limit);
        report.mark(Mark { what, limit, aim: Some(aim), measured: spread });
    }
}
