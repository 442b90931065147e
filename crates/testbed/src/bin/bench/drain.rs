//! How fast a backlog is drained, and at what cost: all readers in turns, A B A B, over one backlog.

use anyhow::Context as _;
use serde_json::json;
use testbed::kafka::Kafka;

use crate::args::{Args, Mode, Socket};
use crate::figures::{Spread, megabytes, millis};
use crate::report::{Limit, Mark, Report, Table};
use crate::run::{Reader, Run, Task, run};
use crate::stage::Stage;

/// A backlog by the size of its transactions.
#[derive(Debug, Clone, Copy)]
struct Load {
    name: &'static str,
    events: u64,
    per_transaction: u64,
}

const LOADS: [Load; 2] = [
    Load { name: "100 rows per transaction", events: 1_000_000, per_transaction: 100 },
    Load { name: "1 row per transaction", events: 400_000, per_transaction: 1 },
];

const ONE_TRANSACTION_ROWS: u64 = 1_000_000;

/// What one reader did in all its runs; a run with a fault has no figures.
struct Row {
    reader: Reader,
    runs: Vec<Option<Run>>,
}

impl Row {
    fn spread(&self, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().flatten().map(figure))
    }

    fn peak_megabytes(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().flatten().filter_map(|run| run.peak_bytes).map(megabytes))
    }

    /// The rate of each run beside that of `other` in the same turn.
    fn ratio_to(&self, other: &Self) -> Option<Spread> {
        let pairs = self.runs.iter().zip(&other.runs);
        Spread::of(pairs.filter_map(|(ours, theirs)| {
            Some(
                ours.as_ref()?.measured.events_per_second
                    / theirs.as_ref()?.measured.events_per_second,
            )
        }))
    }
}

/// Drains both backlogs.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    for load in LOADS {
        let events = args.events(load.events, load.per_transaction);
        let load = Load { events, ..load };
        let rows = take_turns(args, load, readers, kafka, report).await?;
        report.say(&format!("\ndrain, {}, {events} events", load.name))?;
        report.say(&table(&rows).show())?;
        set_marks(load, &rows, report);
    }
    Ok(())
}

async fn prepare(args: &Args, load: Load, report: &Report) -> anyhow::Result<(Stage, Task)> {
    let stage = Stage::set(args.pg, args.socket).await?;
    report.say(&format!("making a backlog of {} events, {}", load.events, load.name))?;
    let end = stage.load(load.events, load.per_transaction).await?;
    Ok((stage, Task { events: load.events, end }))
}

async fn take_turns(
    args: &Args,
    load: Load,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<Vec<Row>> {
    let (stage, task) = prepare(args, load, report).await?;
    let new = |reader: &Reader| Row { reader: reader.clone(), runs: Vec::new() };
    let mut rows: Vec<Row> = readers.iter().map(new).collect();
    for turn in 0..=args.runs {
        for row in &mut rows {
            let reader = row.reader.name().replace([' ', '_'], "-");
            let name = format!("drain-{}-{turn}-{reader}", load.per_transaction);
            let outcome = run(&row.reader, &stage, kafka, task, &name).await?;
            let outcome = match outcome {
                Ok(run) => Some(run),
                Err(fault) => {
                    report.fault(format!("{name}: {fault}"))?;
                    None
                }
            };
            if let Some(run) = &outcome {
                tell(args.socket, load, (turn, row.reader.name()), run, report)?;
            }
            if turn > 0 {
                row.runs.push(outcome);
            }
        }
    }
    Ok(rows)
}

fn tell(
    socket: Socket,
    load: Load,
    (turn, reader): (u32, &str),
    run: &Run,
    report: &mut Report,
) -> anyhow::Result<()> {
    let measured = &run.measured;
    let note = if turn == 0 { " (warm-up, not counted)" } else { "" };
    report.say(&format!(
        "  run {turn} {reader}: {:.1}k/s, others kept {:.2} cores busy{note}",
        measured.events_per_second / 1e3,
        measured.others_cores
    ))?;
    report.record(&json!({
        "kind": Mode::Drain.name(), "rows_per_transaction": load.per_transaction, "events": load.events,
        "socket": format!("{socket:?}").to_lowercase(), "reader": reader, "run": turn,
        "warm_up": turn == 0, "events_per_second": measured.events_per_second,
        "reader_cpu_us": measured.cpu.reader, "walsender_cpu_us": measured.cpu.walsender,
        "broker_cpu_us": measured.cpu.broker, "others_cores": measured.others_cores,
        "first_ms": millis(measured.first),
        "peak_rss_megabytes": run.peak_bytes.map(megabytes),
    }))
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "reader",
        "k events/s: min median max",
        "x pg_recvlogical",
        "CPU us/event: reader",
        "walsender",
        "broker",
        "peak RSS MB",
        "first ms",
        "others, cores",
    ]);
    for row in rows {
        let show = |scale: f64, figure: &dyn Fn(&Run) -> f64| {
            row.spread(figure).map_or("-".to_owned(), |spread| spread.show(scale))
        };
        let median = |figure: &dyn Fn(&Run) -> f64| {
            row.spread(figure).map_or("-".to_owned(), |spread| format!("{:.1}", spread.median))
        };
        let ratio = baseline(rows).and_then(|baseline| row.ratio_to(baseline));
        let routed = matches!(row.reader, Reader::Router { .. });
        let of_router = |text: String| if routed { text } else { "-".to_owned() };
        table.row([
            row.reader.name().to_owned(),
            show(1e-3, &|run| run.measured.events_per_second),
            of_router(ratio.map_or("-".to_owned(), |ratio| {
                format!("{:.2} {:.2} {:.2}", ratio.min, ratio.median, ratio.max)
            })),
            median(&|run| run.measured.cpu.reader),
            median(&|run| run.measured.cpu.walsender),
            of_router(median(&|run| run.measured.cpu.broker)),
            row.peak_megabytes().map_or("-".to_owned(), |peak| format!("{:.1}", peak.max)),
            median(&|run| millis(run.measured.first)),
            median(&|run| run.measured.others_cores),
        ]);
    }
    table
}

fn baseline(rows: &[Row]) -> Option<&Row> {
    rows.iter().find(|row| matches!(row.reader, Reader::PgRecvlogical))
}

fn set_marks(load: Load, rows: &[Row], report: &mut Report) {
    for row in rows.iter().filter(|row| matches!(row.reader, Reader::Router { .. })) {
        let name = format!("{}, {}", row.reader.name(), load.name);
        let mut mark = |what: &str, limit, spread: Option<Spread>, scale: f64| {
            if let Some(spread) = spread {
                let what = format!("{name}: {what}");
                report.mark(Mark { what, limit, measured: spread.median * scale });
            }
        };
        let ratio = baseline(rows).and_then(|baseline| row.ratio_to(baseline));
        mark("x pg_recvlogical", Limit::AtLeast(0.8), ratio, 1.0);
        let cpu = row.spread(|run| run.measured.cpu.reader);
        mark("router CPU, us/event", Limit::AtMost(8.0), cpu, 1.0);
        // Of memory the worst run counts.
        let peak = row.peak_megabytes().map(|peak| Spread { median: peak.max, ..peak });
        mark("peak memory, MB", Limit::AtMost(60.0), peak, 1.0);
    }
}

/// Memory with one transaction that holds the whole backlog.
pub(crate) async fn measure_memory(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    let events = args.events(ONE_TRANSACTION_ROWS, 1);
    let load = Load { name: "one transaction", events, per_transaction: events };
    let (stage, task) = prepare(args, load, report).await?;
    let mut table = Table::new(&["reader", "peak RSS MB", "k events/s"]);
    for reader in readers.iter().filter(|reader| matches!(reader, Reader::Router { .. })) {
        let name = format!("memory-{}", reader.name());
        match run(reader, &stage, kafka, task, &name).await? {
            Err(fault) => report.fault(format!("{name}: {fault}"))?,
            Ok(run) => {
                let peak = megabytes(run.peak_bytes.context("no peak was taken")?);
                let rate = run.measured.events_per_second;
                table.row([
                    reader.name().to_owned(),
                    format!("{peak:.1}"),
                    format!("{:.1}", rate / 1e3),
                ]);
                report.record(&json!({
                    "kind": Mode::Memory.name(), "reader": reader.name(), "events": events,
                    "peak_rss_megabytes": peak, "events_per_second": rate,
                }))?;
                let what = format!("{}, {}: peak memory, MB", reader.name(), load.name);
                report.mark(Mark { what, limit: Limit::AtMost(60.0), measured: peak });
            }
        }
    }
    report.say(&format!("\nmemory, one transaction of {events} rows\n{}", table.show()))
}
