//! The way of one key's events into the table and out of it, beside the same events straight from
//! the WAL.

use std::time::Duration;

use anyhow::{Context, ensure};
use rdkafka::{Message as _, TopicPartitionList};
use serde::Serialize;
use serde_json::json;
use testbed::wait::eventually;
use tokio::time::Instant;

use super::table::{HeldRow, empty_table, held_rows, server_with_table};
use super::{HeldBench, Pairs, Variant, compare};
use crate::conditions::Observed;
use crate::figures::float;
use crate::reader::RunningReader;
use crate::report::alternate_order;
use crate::run::{measured_processes, run};
use crate::server::{BenchServer, ReaderSettings, TuningGoal, WrittenBacklog};
use crate::shape::{Distribution, Shape};
use crate::targets::{Limit, Target};
use crate::throughput::measure as figures_of;
use crate::topic::{RunTopics, blocking};
use crate::watch::{Anomaly, ProgressSource, watch};
use crate::yardstick::Needs;

/// Events behind the dead letter.
const EVENTS: u64 = 100_000;
const SHAPE: Shape = Shape::BATCHED;
const DEADLINE: Duration = Duration::from_mins(3);

/// What a person does who gives up the dead letter.
const DROP: &str = "UPDATE outbox_router.held SET state = 'dropping', decided_at = now() \
                    WHERE slot = $1 AND code IS NOT NULL AND state = 'held'";

/// The figures of one run.
#[derive(Debug, Clone, Copy, Serialize)]
struct Passage {
    /// From the router's start until the last event is in Kafka, or in the table.
    in_per_second: f64,
    /// From the decision until the last record is in Kafka.
    #[serde(skip_serializing_if = "Option::is_none")]
    out_per_second: Option<f64>,
    /// From the start or the decision until the first record is in Kafka.
    first_ms: f64,
    /// CPU time of the router per event, while they come into Kafka.
    reader_cpu_us: f64,
}

/// Figures of all runs.
#[derive(Default)]
struct Figures {
    into: Pairs,
    out: Pairs,
    first: Pairs,
    cpu: Pairs,
}

pub(super) async fn measure(bench: &mut HeldBench<'_>) -> anyhow::Result<()> {
    let one_key = Distribution { keys: 1, ..Distribution::default() };
    let server = server_with_table(bench.args.version(), one_key, bench.binary).await?;
    let (held, calm) = server.write_poisoned_backlog(SHAPE, EVENTS, 1).await?;
    let mut figures = Figures::default();
    for turn in 0..=bench.args.runs {
        for &mut variant in alternate_order(turn, &mut Variant::ALL.clone()) {
            let name = format!("held-release-{}-{turn}-{}", variant.name(), bench.reader.slug());
            let outcome = match variant {
                Variant::Calm => straight(bench, &server, calm, &name).await?,
                Variant::Held => pass_through(bench, &server, held, &name).await?,
            };
            empty_table(&server).await?;
            let passage = bench.report.require_no_anomaly(&name, outcome)?;
            if let Some(passage) = &passage {
                let line = json!({ "reader": bench.reader.name(), "variant": variant.name(),
                                   "run": turn, "warm_up": turn == 0, "events": EVENTS });
                bench.report.record("held-release", line, passage)?;
            }
            if turn > 0 {
                figures.push(variant, passage);
            }
        }
    }
    report(bench, &figures)
}

impl Figures {
    fn push(&mut self, variant: Variant, passage: Option<Passage>) {
        let Self { into, out, first, cpu } = self;
        into.push(variant, passage.map(|run| run.in_per_second / 1e3));
        let out_per_second = passage.map(|run| run.out_per_second.unwrap_or(run.in_per_second));
        out.push(variant, out_per_second.map(|rate| rate / 1e3));
        first.push(variant, passage.map(|run| run.first_ms));
        cpu.push(variant, passage.map(|run| run.reader_cpu_us));
    }
}

fn report(bench: &mut HeldBench<'_>, figures: &Figures) -> anyhow::Result<()> {
    let Figures { into, out, first, cpu } = figures;
    let rows = [
        ("k events/s into Kafka, or into the table", into),
        ("k events/s into Kafka, or from the decision out of the table", out),
        ("ms from the start or the decision to the first record", first),
        ("router's CPU us/event, into Kafka", cpu),
    ];
    let table = compare(["straight from the WAL", "through the table"], &rows);
    bench.report.print(&format!("\nheld: {EVENTS} events of one key\n{}", table.show()))?;
    if let Some(rate) = out.of(Variant::Held) {
        let what = format!("{}, release of {EVENTS} events of one key, k/s", bench.reader.name());
        let target = Target::new(what, Limit::AtLeast(10.0), rate);
        bench.report.add_target(target.needs(Needs::QuietMachine));
    }
    Ok(())
}

/// The events are drained, and nothing is held.
async fn straight(
    bench: &mut HeldBench<'_>,
    server: &BenchServer,
    written: WrittenBacklog,
    name: &str,
) -> anyhow::Result<Result<Passage, Anomaly>> {
    let reader = (bench.reader, bench.args.first_socket());
    let outcome = run(reader, server, bench.kafka, written, name).await?;
    Ok(outcome.map(|run| Passage {
        in_per_second: run.measured.events_per_second,
        out_per_second: None,
        first_ms: run.measured.first_ms,
        reader_cpu_us: run.measured.cpu.reader,
    }))
}

/// The events are held, and leave after their dead letter was dropped.
async fn pass_through(
    bench: &mut HeldBench<'_>,
    server: &BenchServer,
    written: WrittenBacklog,
    name: &str,
) -> anyhow::Result<Result<Passage, Anomaly>> {
    let slot = name.replace('-', "_");
    server.copy_slot_from(written.origin, &slot).await?;
    let topics = RunTopics::create(&bench.kafka.bootstrap(), name, written.distribution).await?;
    let ends = topics.ends().await?;
    let (start, ends) = blocking(move || Ok((ends.positions()?, ends))).await?;
    let settings = ReaderSettings {
        socket: bench.args.first_socket(),
        slot: &slot,
        topics: &topics,
        goal: TuningGoal::Throughput,
    };
    let started = Instant::now();
    let mut running = RunningReader::start(bench.reader, server, settings)?;
    wait_held(server, &slot, written.events + written.letters()).await?;
    let in_per_second = float(written.events) / started.elapsed().as_secs_f64();
    let processes = measured_processes(server, &slot, bench.kafka, running.pid()?).await?;
    let decided = Instant::now();
    ensure!(server.session.execute(DROP, &[&slot]).await? == 1, "there is no dead letter");
    let source = ProgressSource::Records { ends, before: 0, expected: EVENTS };
    let watching = blocking(move || watch(&source, processes, Observed::default(), decided));
    let samples = match watching.await? {
        Ok(watched) => watched.samples,
        Err(anomaly) => return Ok(Err(format!("{anomaly}; its log:\n{}", running.log()))),
    };
    running.stop().await?;
    let held = held_rows(server, &slot).await?;
    let delivery = check_delivery(&topics, start, written, held).await?;
    topics.delete().await?;
    server.drop_slot(&slot).await?;
    let last = samples.last().context("no samples")?.at;
    let measured = figures_of(&samples, EVENTS).context("too few samples")?;
    Ok(delivery.map(|()| Passage {
        in_per_second,
        out_per_second: Some(float(EVENTS) / last),
        first_ms: measured.first_ms,
        reader_cpu_us: measured.cpu.reader,
    }))
}

async fn wait_held(server: &BenchServer, slot: &str, events: u64) -> anyhow::Result<()> {
    let sql = "SELECT open FROM outbox_router.held_version WHERE slot = $1";
    let expected = i64::try_from(events)?;
    eventually(DEADLINE, format!("{events} events in the table"), async || {
        let row = server.session.query_opt(sql, &[&slot]).await?;
        Ok(row.filter(|row| row.get::<_, i64>(0) == expected).map(drop))
    })
    .await
}

/// The table has the dead letter, and Kafka everything that was held behind it.
async fn check_delivery(
    topics: &RunTopics,
    start: TopicPartitionList,
    written: WrittenBacklog,
    held: Vec<HeldRow>,
) -> anyhow::Result<Result<(), Anomaly>> {
    let records = topics.records().await?;
    let topics = topics.clone();
    blocking(move || {
        let mut audit = written.audit()?;
        held.iter().for_each(|row| audit.note_held(row.key.as_deref(), &row.messages));
        topics.follow_from(&start)?.read(EVENTS, |record| {
            audit.note(topics.place(record), record.key(), record.payload());
            Ok(())
        })?;
        Ok(audit.result(records).map_err(|anomalies| anomalies.to_string()))
    })
    .await
}
