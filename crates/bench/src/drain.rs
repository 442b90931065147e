//! How fast a backlog is drained, and at what cost: all readers in turns over one backlog.

use serde_json::json;
use testbed::kafka::Kafka;

use crate::args::{Args, Mode, Socket};
use crate::figures::{Spread, megabytes, millis};
use crate::lane::{Comparison, Lane};
use crate::machine::NEIGHBOURS;
use crate::reader::Reader;
use crate::report::{Limit, Mark, Report, Table, there_and_back};
use crate::run::{Run, run};
use crate::shape::{Reach, Shape};
use crate::stage::{Stage, Task};

/// A backlog on a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    pub(crate) version: u16,
    pub(crate) shape: Shape,
    pub(crate) events: u64,
}

impl Backlog {
    fn name(self) -> String {
        format!("PostgreSQL {}, {}", self.version, self.shape.describe())
    }

    /// Makes it, on a server of its own.
    pub(crate) async fn make(self, report: &Report) -> anyhow::Result<(Stage, Task)> {
        let stage = Stage::set(self.version, Reach::default()).await?;
        report.say(&format!("making a backlog of {} events, {}", self.events, self.name()))?;
        let task = stage.load(self.shape, self.events).await?;
        Ok((stage, task))
    }
}

/// Drains every backlog that was asked for.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    for version in args.versions() {
        let sockets = args.sockets_to(version);
        let takes_part = |reader: &&Reader| args.takes_part(reader, version);
        let readers: Vec<Reader> = readers.iter().filter(takes_part).cloned().collect();
        for shape in args.shapes() {
            let events = args.events(shape.usual_events());
            let backlog = Backlog { version, shape: shape.within(events), events };
            let lanes = Lane::all(&readers, &sockets);
            let lanes = take_turns(args.runs, backlog, lanes, kafka, report).await?;
            report.say(&format!("\ndrain, {}, {events} events", backlog.name()))?;
            report.say(&table(&lanes).show())?;
            warn_of_neighbours(&lanes, report)?;
            compare(backlog, &lanes, report)?;
            set_marks(backlog, &lanes, report);
        }
    }
    Ok(())
}

async fn take_turns(
    runs: u32,
    backlog: Backlog,
    mut lanes: Vec<Lane>,
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<Vec<Lane>> {
    let (stage, task) = backlog.make(report).await?;
    for turn in 0..=runs {
        for lane in there_and_back(turn, &mut lanes) {
            let (reader, socket) = (lane.reader.slug(), lane.socket.name());
            let name = format!("drain-{}-{turn}-{reader}-{socket}", backlog.shape);
            let way = (&lane.reader, lane.socket);
            let outcome = match run(way, &stage, kafka, task, &name).await? {
                Ok(run) => Some(run),
                Err(fault) => {
                    report.fault(format!("{name}: {fault}"))?;
                    None
                }
            };
            if let Some(run) = &outcome {
                tell(backlog, (turn, lane), run, report)?;
            }
            if turn > 0 {
                lane.runs.push(outcome);
            }
        }
    }
    Ok(lanes)
}

fn tell(
    backlog: Backlog,
    (turn, lane): (u32, &Lane),
    run: &Run,
    report: &mut Report,
) -> anyhow::Result<()> {
    let measured = &run.measured;
    let note = if turn == 0 { " (warm-up, not counted)" } else { "" };
    report.say(&format!(
        "  run {turn} {}: {:.1}k/s, others kept {:.2} cores busy{note}",
        lane.name,
        measured.events_per_second / 1e3,
        measured.others_cores
    ))?;
    report.record(&json!({
        "kind": Mode::Drain.name(), "pg": backlog.version, "shape": backlog.shape.to_string(),
        "rows_per_transaction": backlog.shape.rows, "row_bytes": backlog.shape.bytes,
        "events": backlog.events, "socket": lane.socket.name(), "reader": lane.reader.name(),
        "run": turn, "warm_up": turn == 0, "events_per_second": measured.events_per_second,
        "payload_megabytes_per_second": run.megabytes_per_second(),
        "reader_cpu_us": measured.cpu.reader, "walsender_cpu_us": measured.cpu.walsender,
        "broker_cpu_us": measured.cpu.broker, "others_cores": measured.others_cores,
        "first_ms": millis(measured.first),
        "peak_rss_megabytes": run.peak_bytes.map(megabytes),
    }))
}

fn table(lanes: &[Lane]) -> Table {
    let mut table = Table::new(&[
        "reader",
        "k events/s: min median max",
        "spread %",
        "payload MB/s",
        "x pg_recvlogical: min median max",
        "CPU us/event: reader",
        "walsender",
        "broker",
        "peak RSS MB",
        "first ms",
        "others, cores",
    ]);
    for lane in lanes {
        let dash = || "-".to_owned();
        let median = |figure: &dyn Fn(&Run) -> f64| {
            lane.spread(figure).map_or_else(dash, |spread| format!("{:.1}", spread.median))
        };
        let delivers = !matches!(lane.reader, Reader::PgRecvlogical);
        let of_delivered = |text: String| if delivers { text } else { dash() };
        let ratio = lane.ratio_to_baseline(lanes);
        table.row([
            lane.name.clone(),
            lane.rate().map_or_else(dash, |rate| rate.show(1e-3)),
            lane.rate().map_or_else(dash, |rate| format!("{:.0}", rate.width() * 100.0)),
            median(&Run::megabytes_per_second),
            of_delivered(ratio.map_or_else(dash, |ratio| ratio.show_fine())),
            median(&|run| run.measured.cpu.reader),
            median(&|run| run.measured.cpu.walsender),
            of_delivered(median(&|run| run.measured.cpu.broker)),
            lane.peak_megabytes().map_or_else(dash, |peak| format!("{:.1}", peak.max)),
            median(&|run| millis(run.measured.first)),
            median(&|run| run.measured.others_cores),
        ]);
    }
    table
}

fn warn_of_neighbours(lanes: &[Lane], report: &Report) -> anyhow::Result<()> {
    let runs = || lanes.iter().flat_map(|lane| lane.runs.iter().flatten());
    let disturbed = runs().filter(|run| run.measured.others_cores > NEIGHBOURS).count();
    if disturbed == 0 {
        return Ok(());
    }
    report.say(&format!(
        "WARNING: in {disturbed} of {} runs others kept more than {NEIGHBOURS} cores busy: ratios \
         are noisy, figures low\n",
        runs().count()
    ))
}

fn compare(backlog: Backlog, lanes: &[Lane], report: &mut Report) -> anyhow::Result<()> {
    let comparisons = Comparison::all(lanes);
    if comparisons.is_empty() {
        return Ok(());
    }
    for Comparison { what, figure, ratio, pairs, verdict } in &comparisons {
        report.record(&json!({
            "kind": "comparison", "pg": backlog.version, "shape": backlog.shape.to_string(),
            "what": what, "figure": figure, "ratio": ratio, "pairs": pairs, "verdict": verdict,
        }))?;
    }
    report.say(&Comparison::table(&comparisons).show())
}

/// Marks are set for what every machine can be asked: loopback.
fn set_marks(backlog: Backlog, lanes: &[Lane], report: &mut Report) {
    for lane in lanes.iter().filter(|lane| lane.reader.is_router() && lane.socket == Socket::Tcp) {
        let mut mark = |what: &str, limit, aim, spread: Option<Spread>| {
            if let Some(measured) = spread {
                let what = format!("{}, {}: {what}", lane.name, backlog.name());
                report.mark(Mark { what, limit, aim, measured });
            }
        };
        if let Some((limit, aim)) = ratio_limits(backlog.shape) {
            let ratio = lane.ratio_to_baseline(lanes);
            mark("x pg_recvlogical", Limit::AtLeast(limit), Some(aim), ratio);
            for peer in lanes.iter().filter(|peer| peer.reader.is_peer()) {
                let what = format!("x {}", peer.name);
                mark(&what, Limit::AtLeast(1.6), Some(2.0), lane.ratio_to(peer));
            }
        }
        if backlog.shape == Shape::LARGE {
            let rate = lane.spread(Run::megabytes_per_second);
            mark("payload MB/s", Limit::AtLeast(80.0), None, rate);
        }
        let cpu = lane.spread(|run| run.measured.cpu.reader);
        mark("router CPU, us/event", Limit::AtMost(5.5), Some(4.5), cpu);
        // Of memory the worst run counts.
        let peak = lane.peak_megabytes().map(|peak| Spread::from(peak.max));
        mark("peak memory, MB", Limit::AtMost(50.0), Some(25.0), peak);
    }
}

/// How fast beside `pg_recvlogical`, at least and at best, in the shapes that peers are known for.
fn ratio_limits(shape: Shape) -> Option<(f64, f64)> {
    match shape {
        Shape::BATCHED => Some((1.0, 1.2)),
        Shape::SINGLE => Some((1.8, 2.2)),
        Shape { .. } => None,
    }
}
