//! The time from an event's commit to a consumer, while transactions are committed at a fixed rate.
//!
//! The clock starts when the commit is sent and stops when the consumer has the record, so the time
//! includes the commit itself, the relay, and the broker. The floor beside it includes the broker
//! only.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;
use testbed::kafka::Kafka;

use crate::args::Args;
use crate::bench::Bench;
use crate::figures::{Spread, float};
use crate::floor::produce;
use crate::listen::{Cost, Seen, WARM_UP, consume};
use crate::reader::Reader;
use crate::report::{Column, Limit, Report, Table, there_and_back};
use crate::run::cast;
use crate::scene::Scene;
use crate::shape::Reach;
use crate::stage::Aim;
use crate::topic::{Topics, blocking};
use crate::watch::Fault;
use crate::writers::{Timetable, Written};

const TIME: Duration = Duration::from_secs(20);

/// The figures of one run at one rate.
#[derive(Debug, Clone, Copy, Serialize)]
struct Figures {
    #[serde(rename = "p50_ms")]
    p50: f64,
    #[serde(rename = "p99_ms")]
    p99: f64,
    #[serde(rename = "p999_ms")]
    p999: f64,
    #[serde(rename = "max_ms")]
    max: f64,
    written_per_second: f64,
    /// 99 % of the events were sent at most this much later than they were due; `None` where
    /// nothing was written into PostgreSQL.
    late_p99_ms: Option<f64>,
    #[serde(flatten)]
    cost: Option<Cost>,
}

/// One reader at one rate.
struct Row<'a> {
    reader: &'a Reader,
    name: String,
    runs: Vec<Figures>,
}

/// Measures every rate: the floor and each reader, taking turns.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report } = bench;
    for rate in args.rates().into_iter().map(u64::from) {
        let readers = readers.iter().filter(|reader| reader.can_use(args.first_socket()));
        let mut rows: Vec<Row<'_>> =
            readers.map(|reader| Row { reader, name: name(reader), runs: Vec::new() }).collect();
        for turn in 1..=args.latency_runs() {
            for row in there_and_back(turn, &mut rows) {
                // pg_recvlogical delivers into nothing, so nothing arrives: the floor takes its
                // place.
                let outcome = if row.reader.delivers() {
                    delivered(args, row.reader, (rate, turn), kafka).await?
                } else {
                    floor(rate, turn, kafka).await?
                };
                let what = format!("latency-{rate}-{}", row.name);
                let Some(figures) = report.faultless(&what, outcome)? else { continue };
                let line = json!({ "reader": row.name, "rate": rate, "run": turn });
                report.record("latency", line, figures)?;
                row.runs.push(figures);
            }
        }
        report.say(&format!("\nlatency, commit to consumer, {rate} transactions a second"))?;
        report.say(&table(&rows).show())?;
        rows.iter().for_each(|row| set_marks(row, rate, report));
    }
    Ok(())
}

fn name(reader: &Reader) -> String {
    if reader.delivers() { reader.name().to_owned() } else { "producer alone".to_owned() }
}

async fn floor(rate: u64, turn: u32, kafka: &Kafka) -> anyhow::Result<Result<Figures, Fault>> {
    let name = format!("floor-{rate}-{turn}");
    let topics = Topics::create(&kafka.bootstrap(), &name, Reach::default()).await?;
    let timetable = Timetable::lasting(rate, WARM_UP + TIME);
    let consuming = consume(&topics, &timetable, None).await?;
    let producing = {
        let (topics, timetable) = (topics.clone(), timetable.clone());
        blocking(move || produce(topics.bootstrap(), topics.route(), &timetable))
    };
    let (took, seen) = tokio::join!(producing, consuming);
    judge(&topics, &timetable, seen??, (took?, None)).await
}

async fn delivered(
    args: &Args,
    reader: &Reader,
    (rate, turn): (u64, u32),
    kafka: &mut Kafka,
) -> anyhow::Result<Result<Figures, Fault>> {
    let topic = format!("latency-{rate}-{turn}-{}", reader.slug());
    let scene = Scene::with_topic(args, kafka, "latency", &topic).await?;
    let Scene { stage, topics, slot, .. } = &scene;
    let mut running = scene.start(reader, Aim::Latency).await?;
    let timetable = Timetable::lasting(rate, WARM_UP + TIME);
    let cast = cast(stage, slot, kafka, running.pid()?).await?;
    let consuming = consume(topics, &timetable, Some(cast)).await?;
    let (written, seen) = tokio::try_join!(scene.write(&timetable), consuming)?;
    let seen = seen.with_context(|| format!("log:\n{}", running.log()))?;
    running.stop().await?;
    let Written { took, lateness } = written?;
    let late = float(lateness.value_at_quantile(0.99)) / 1e6;
    judge(topics, &timetable, seen, (took, Some(late))).await
}

/// Figures count only if every event arrived once and in order.
async fn judge(
    topics: &Topics,
    timetable: &Timetable,
    Seen { latency, audit, cost }: Seen,
    (took, late_p99_ms): (Duration, Option<f64>),
) -> anyhow::Result<Result<Figures, Fault>> {
    let records = topics.records().await?;
    topics.delete().await?;
    let millis_at = |quantile: f64| float(latency.value_at_quantile(quantile)) / 1e6;
    let figures = Figures {
        p50: millis_at(0.5),
        p99: millis_at(0.99),
        p999: millis_at(0.999),
        max: millis_at(1.0),
        written_per_second: float(timetable.events) / took.as_secs_f64(),
        late_p99_ms,
        cost,
    };
    Ok(audit.verdict(records).map(|()| figures).map_err(|faults| faults.to_string()))
}

impl Row<'_> {
    fn spread(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(figure))
    }

    fn latency(&self, figure: impl Fn(&Figures) -> f64) -> Option<String> {
        let spread = self.spread(|run| Some(figure(run)))?;
        Some(if self.runs.len() > 1 { spread.show_fine() } else { format!("{:.2}", spread.median) })
    }

    fn median(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Option<String> {
        Some(format!("{:.1}", self.spread(figure)?.median))
    }

    fn cost(&self, figure: impl Fn(&Cost) -> f64) -> Option<String> {
        self.median(|run| run.cost.as_ref().map(&figure))
    }
}

fn table(rows: &[Row<'_>]) -> Table {
    let columns: [Column<'_, &Row<'_>>; 12] = [
        ("reader", &|row| Some(row.name.clone())),
        ("p50 ms", &|row| row.latency(|run| run.p50)),
        ("p99 ms", &|row| row.latency(|run| run.p99)),
        ("p99.9 ms", &|row| row.latency(|run| run.p999)),
        ("max ms", &|row| row.latency(|run| run.max)),
        // The slowest run shows whether the writers kept to the timetable.
        ("written/s", &|row| {
            Some(format!("{:.0}", row.spread(|run| Some(run.written_per_second))?.min))
        }),
        ("late p99 ms", &|row| row.median(|run| run.late_p99_ms)),
        ("CPU us/event: reader", &|row| row.cost(|cost| cost.cpu.reader)),
        ("walsender", &|row| row.cost(|cost| cost.cpu.walsender)),
        ("broker", &|row| row.cost(|cost| cost.cpu.broker)),
        ("peak RSS MB", &|row| row.cost(|cost| cost.peak)),
        ("others, cores", &|row| row.cost(|cost| cost.others_cores)),
    ];
    Table::of(&columns, rows.iter().filter(|row| !row.runs.is_empty()))
}

/// Percentile by percentile, the median of the runs.
fn set_marks(row: &Row<'_>, rate: u64, report: &mut Report) {
    let ((p50, p50_aim), (p99, p99_aim)) = match rate {
        1000 => ((1.5, 1.0), (5.0, 3.0)),
        5000 => ((2.0, 1.2), (8.0, 5.0)),
        10_000 => ((4.0, 2.0), (20.0, 8.0)),
        _ => return,
    };
    if !row.reader.is_router() {
        return;
    }
    let mut mark = |name: &str, limit, aim, measured: Option<Spread>| {
        if let Some(measured) = measured {
            let what = format!("{}, {rate}/s: commit to consumer {name}, ms", row.name);
            report.mark(what, Limit::AtMost(limit), Some(aim), measured);
        }
    };
    mark("p50", p50, p50_aim, row.spread(|run| Some(run.p50)));
    mark("p99", p99, p99_aim, row.spread(|run| Some(run.p99)));
}
