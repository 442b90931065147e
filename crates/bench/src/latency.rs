//! The time from an event's commit to a consumer, while transactions are committed at a fixed rate.
//!
//! The clock starts when the commit is sent and stops when the consumer has the record, so the time
//! includes the commit itself, the relay, and the broker. The floor beside it includes the broker
//! only.

use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use testbed::kafka::KafkaCluster;

use crate::args::Args;
use crate::bench::Bench;
use crate::figures::{Spread, float};
use crate::floor::measure_producer_alone;
use crate::held::table::held_rows;
use crate::latency_figures::LatencyFigures;
use crate::listen::{DeliveryCost, consume};
use crate::pipeline::BenchPipeline;
use crate::reader::Reader;
use crate::report::{Column, Report, Table, alternate_order};
use crate::run::measured_processes;
use crate::server::TuningGoal;
use crate::targets::{Limit, Target};
use crate::watch::Anomaly;
use crate::writers::{Timetable, WARM_UP, WriteResult};
use crate::yardstick::{Needs, latency_obstacle};

pub(crate) const TIME: Duration = Duration::from_secs(20);

/// One reader at one rate.
pub(crate) struct LatencyRow<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) name: String,
    pub(crate) runs: Vec<LatencyFigures>,
}

/// Measures every rate: the floor and each reader, taking turns.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
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
                    let timetable = Timetable::lasting(rate, WARM_UP + TIME);
                    measure_producer_alone(&timetable, turn, kafka).await?
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
        rows.iter().for_each(|row| add_targets(row, &rows, rate, report));
    }
    Ok(())
}

fn name(reader: &Reader) -> String {
    if reader.delivers() { reader.name().to_owned() } else { "producer alone".to_owned() }
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
    LatencyFigures::of(topics, timetable, seen, (took, Some(late))).await
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
fn add_targets(row: &LatencyRow<'_>, rows: &[LatencyRow<'_>], rate: u64, report: &mut Report) {
    let ((p50, p50_aim), (p99, p99_aim)) = match rate {
        1000 => ((1.5, 1.0), (5.0, 3.0)),
        5000 => ((2.0, 1.2), (8.0, 5.0)),
        10_000 => ((4.0, 2.0), (20.0, 8.0)),
        _ => return,
    };
    if !row.reader.is_router() {
        return;
    }
    let producer = rows.iter().find(|row| !row.reader.delivers());
    let mut add_target = |name: &str, limit, aim, figure: fn(&LatencyFigures) -> f64| {
        let floor = producer.and_then(|row| row.spread(|run| Some(figure(run))));
        if let Some(measured) = row.spread(|run| Some(figure(run))) {
            let what = format!("{}, {rate}/s: commit to consumer {name}, ms", row.name);
            let target = Target::new(what, Limit::AtMost(limit), measured).aim(aim);
            let target = target.unless(latency_obstacle(floor, name, limit));
            report.add_target(target.needs(Needs::QuietMachine));
        }
    };
    add_target("p50", p50, p50_aim, |run| run.p50);
    add_target("p99", p99, p99_aim, |run| run.p99);
}
