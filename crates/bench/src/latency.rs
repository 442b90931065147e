//! The time from an event's commit to a consumer, while transactions are committed at a fixed rate.
//!
//! The clock starts when the commit is sent and stops when the consumer has the record, so the time
//! includes the commit itself, the relay, and the broker. The floor beside it includes the broker
//! only.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;
use testbed::kafka::KafkaCluster;

use crate::args::Args;
use crate::bench::Bench;
use crate::figures::{Spread, float};
use crate::floor::produce;
use crate::held::table::held_rows;
use crate::listen::{DeliveryCost, LatencySamples, WARM_UP, consume};
use crate::pipeline::BenchPipeline;
use crate::reader::Reader;
use crate::report::{Column, Limit, Report, Table, alternate_order};
use crate::run::measured_processes;
use crate::server::TuningGoal;
use crate::shape::Distribution;
use crate::topic::{RunTopics, blocking};
use crate::watch::Anomaly;
use crate::writers::{Timetable, WriteResult};

pub(crate) const TIME: Duration = Duration::from_secs(20);

/// The figures of one run at one rate.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct LatencyFigures {
    #[serde(rename = "p50_ms")]
    pub(crate) p50: f64,
    #[serde(rename = "p99_ms")]
    pub(crate) p99: f64,
    #[serde(rename = "p999_ms")]
    p999: f64,
    #[serde(rename = "max_ms")]
    max: f64,
    written_per_second: f64,
    /// 99 % of the events were sent at most this much later than they were due; `None` where
    /// nothing was written into PostgreSQL.
    late_p99_ms: Option<f64>,
    #[serde(flatten)]
    cost: Option<DeliveryCost>,
}

/// One reader at one rate.
pub(crate) struct LatencyRow<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) name: String,
    pub(crate) runs: Vec<LatencyFigures>,
}

/// Measures every rate: the floor and each reader, taking turns.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report } = bench;
    for rate in args.rates().into_iter().map(u64::from) {
        let readers = readers.iter().filter(|reader| reader.can_use(args.first_socket()));
        let mut rows: Vec<LatencyRow<'_>> = readers
            .map(|reader| LatencyRow { reader, name: name(reader), runs: Vec::new() })
            .collect();
        for turn in 1..=args.latency_runs() {
            for row in alternate_order(turn, &mut rows) {
                // pg_recvlogical delivers into nothing, so nothing arrives: the floor takes its
                // place.
                let outcome = if row.reader.delivers() {
                    measure_reader(args, row.reader, (rate, turn), kafka).await?
                } else {
                    measure_producer_alone(rate, turn, kafka).await?
                };
                let what = format!("latency-{rate}-{}", row.name);
                let Some(figures) = report.require_no_anomaly(&what, outcome)? else { continue };
                let line = json!({ "reader": row.name, "rate": rate, "run": turn });
                report.record("latency", line, figures)?;
                row.runs.push(figures);
            }
        }
        report.print(&format!("\nlatency, commit to consumer, {rate} transactions a second"))?;
        report.print(&table(&rows).show())?;
        rows.iter().for_each(|row| add_targets(row, rate, report));
    }
    Ok(())
}

fn name(reader: &Reader) -> String {
    if reader.delivers() { reader.name().to_owned() } else { "producer alone".to_owned() }
}

async fn measure_producer_alone(
    rate: u64,
    turn: u32,
    kafka: &KafkaCluster,
) -> anyhow::Result<Result<LatencyFigures, Anomaly>> {
    let name = format!("floor-{rate}-{turn}");
    let topics = RunTopics::create(&kafka.bootstrap(), &name, Distribution::default()).await?;
    let timetable = Timetable::lasting(rate, WARM_UP + TIME);
    let consuming = consume(&topics, &timetable, None).await?;
    let producing = {
        let (topics, timetable) = (topics.clone(), timetable.clone());
        blocking(move || produce(topics.bootstrap(), topics.route(), &timetable))
    };
    let (took, seen) = tokio::join!(producing, consuming);
    check_delivery(&topics, &timetable, seen??, (took?, None)).await
}

async fn measure_reader(
    args: &Args,
    reader: &Reader,
    (rate, turn): (u64, u32),
    kafka: &mut KafkaCluster,
) -> anyhow::Result<Result<LatencyFigures, Anomaly>> {
    let topic = format!("latency-{rate}-{turn}-{}", reader.slug());
    let pipeline = BenchPipeline::with_topic(args, kafka, "latency", &topic).await?;
    measure_pipeline(&pipeline, reader, &Timetable::lasting(rate, WARM_UP + TIME), kafka).await
}

/// Measures one run of one reader.
pub(crate) async fn measure_pipeline(
    pipeline: &BenchPipeline,
    reader: &Reader,
    timetable: &Timetable,
    kafka: &mut KafkaCluster,
) -> anyhow::Result<Result<LatencyFigures, Anomaly>> {
    let BenchPipeline { server, topics, slot, .. } = pipeline;
    let mut running = pipeline.start(reader, TuningGoal::Latency).await?;
    let processes = measured_processes(server, slot, kafka, running.pid()?).await?;
    let consuming = consume(topics, timetable, Some(processes)).await?;
    let (written, seen) = tokio::try_join!(pipeline.write(timetable), consuming)?;
    let mut seen = seen.with_context(|| format!("log:\n{}", running.log()))?;
    running.stop().await?;
    for row in held_rows(server, slot).await? {
        seen.audit.note_held(row.key.as_deref(), &row.messages);
    }
    let WriteResult { took, lateness, .. } = written?;
    let late = float(lateness.value_at_quantile(0.99)) / 1e6;
    check_delivery(topics, timetable, seen, (took, Some(late))).await
}

/// Figures count only if every event arrived once and in order.
async fn check_delivery(
    topics: &RunTopics,
    timetable: &Timetable,
    LatencySamples { latency, audit, cost }: LatencySamples,
    (took, late_p99_ms): (Duration, Option<f64>),
) -> anyhow::Result<Result<LatencyFigures, Anomaly>> {
    let records = topics.records().await?;
    topics.delete().await?;
    let millis_at = |quantile: f64| float(latency.value_at_quantile(quantile)) / 1e6;
    let figures = LatencyFigures {
        p50: millis_at(0.5),
        p99: millis_at(0.99),
        p999: millis_at(0.999),
        max: millis_at(1.0),
        written_per_second: float(timetable.events) / took.as_secs_f64(),
        late_p99_ms,
        cost,
    };
    Ok(audit.result(records).map(|()| figures).map_err(|anomalies| anomalies.to_string()))
}

impl LatencyRow<'_> {
    fn spread(&self, figure: impl Fn(&LatencyFigures) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(figure))
    }

    fn latency(&self, figure: impl Fn(&LatencyFigures) -> f64) -> Option<String> {
        let spread = self.spread(|run| Some(figure(run)))?;
        Some(if self.runs.len() > 1 { spread.show_fine() } else { format!("{:.2}", spread.median) })
    }

    fn median(&self, figure: impl Fn(&LatencyFigures) -> Option<f64>) -> Option<String> {
        Some(format!("{:.1}", self.spread(figure)?.median))
    }

    fn cost(&self, figure: impl Fn(&DeliveryCost) -> f64) -> Option<String> {
        self.median(|run| run.cost.as_ref().map(&figure))
    }
}

pub(crate) fn table(rows: &[LatencyRow<'_>]) -> Table {
    let columns: [Column<'_, &LatencyRow<'_>>; 12] = [
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
        ("decoding", &|row| row.cost(|cost| cost.cpu.decoding)),
        ("broker", &|row| row.cost(|cost| cost.cpu.broker)),
        ("peak RSS MB", &|row| row.cost(|cost| cost.peak)),
        ("other cores busy", &|row| row.cost(|cost| cost.others_cores)),
    ];
    Table::of(&columns, rows.iter().filter(|row| !row.runs.is_empty()))
}

/// Percentile by percentile, the median of the runs.
fn add_targets(row: &LatencyRow<'_>, rate: u64, report: &mut Report) {
    let ((p50, p50_aim), (p99, p99_aim)) = match rate {
        1000 => ((1.5, 1.0), (5.0, 3.0)),
        5000 => ((2.0, 1.2), (8.0, 5.0)),
        10_000 => ((4.0, 2.0), (20.0, 8.0)),
        _ => return,
    };
    if !row.reader.is_router() {
        return;
    }
    let mut add_target = |name: &str, limit, aim, measured: Option<Spread>| {
        if let Some(measured) = measured {
            let what = format!("{}, {rate}/s: commit to consumer {name}, ms", row.name);
            report.add_target(what, Limit::AtMost(limit), Some(aim), measured);
        }
    };
    add_target("p50", p50, p50_aim, row.spread(|run| Some(run.p50)));
    add_target("p99", p99, p99_aim, row.spread(|run| Some(run.p99)));
}
