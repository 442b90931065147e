//! How fast a backlog is drained, and at what cost: all readers take turns over one backlog.

use serde_json::json;

use crate::bench::Bench;
use crate::choices::{Socket, word};
use crate::figures::Spread;
use crate::lane::{Comparison, Lane};
use crate::machine::NEIGHBOURS;
use crate::reader::Reader;
use crate::report::{Column, Limit, Report, Table, there_and_back};
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

    /// Writes the backlog on a server of its own.
    pub(crate) async fn make(self, report: &Report) -> anyhow::Result<(Stage, Task)> {
        let stage = Stage::set(self.version, Reach::default()).await?;
        report.say(&format!("making a backlog of {} events, {}", self.events, self.name()))?;
        let task = stage.load(self.shape, self.events).await?;
        Ok((stage, task))
    }
}

/// Drains every backlog that was asked for.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for version in bench.args.versions() {
        let takes_part =
            |reader: &&Reader| !reader.is_peer() || bench.args.includes_peers_on(version);
        let readers: Vec<Reader> = bench.readers.iter().filter(takes_part).cloned().collect();
        for shape in bench.args.shapes() {
            let events = bench.args.events(shape.usual_events());
            let backlog = Backlog { version, shape: shape.within(events), events };
            let mut lanes = Lane::all(&readers, &bench.args.sockets_to(version));
            take_turns(bench, backlog, &mut lanes).await?;
            let report = &mut bench.report;
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
    Bench { args, kafka, report, .. }: &mut Bench,
    backlog: Backlog,
    lanes: &mut [Lane],
) -> anyhow::Result<()> {
    let (stage, task) = backlog.make(report).await?;
    for turn in 0..=args.runs {
        for lane in there_and_back(turn, lanes) {
            let (reader, socket) = (lane.reader.slug(), word(lane.socket));
            let name = format!("drain-{}-{turn}-{reader}-{socket}", backlog.shape);
            let outcome = run((&lane.reader, lane.socket), &stage, kafka, task, &name).await?;
            let outcome = report.faultless(&name, outcome)?;
            if let Some(run) = &outcome {
                tell(backlog, (turn, lane), run, report)?;
            }
            if turn > 0 {
                lane.runs.push(outcome);
            }
        }
    }
    Ok(())
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
    let line = json!({
        "pg": backlog.version, "shape": backlog.shape.to_string(),
        "rows_per_transaction": backlog.shape.rows, "row_bytes": backlog.shape.bytes,
        "events": backlog.events, "socket": word(lane.socket), "reader": lane.reader.name(),
        "run": turn, "warm_up": turn == 0,
    });
    report.record("drain", line, run)
}

fn table(lanes: &[Lane]) -> Table {
    fn median(lane: &Lane, figure: impl Fn(&Run) -> f64) -> Option<String> {
        Some(format!("{:.1}", lane.spread(figure)?.median))
    }
    let ratio = |lane: &&Lane| {
        let ratio = lane.ratio_to_baseline(lanes).filter(|_| lane.reader.delivers())?;
        Some(ratio.show_fine())
    };
    let columns: [Column<'_, &Lane>; 11] = [
        ("reader", &|lane| Some(lane.name.clone())),
        ("k events/s: min median max", &|lane| Some(lane.rate()?.show(1e-3))),
        ("spread %", &|lane| Some(format!("{:.0}", lane.rate()?.width() * 100.0))),
        ("payload MB/s", &|lane| median(lane, |run| run.payload)),
        ("x pg_recvlogical: min median max", &ratio),
        ("CPU us/event: reader", &|lane| median(lane, |run| run.measured.cpu.reader)),
        ("walsender", &|lane| median(lane, |run| run.measured.cpu.walsender)),
        ("broker", &|lane| {
            median(lane, |run| run.measured.cpu.broker).filter(|_| lane.reader.delivers())
        }),
        ("peak RSS MB", &|lane| Some(format!("{:.1}", lane.peak_megabytes()?.max))),
        ("first ms", &|lane| median(lane, |run| run.measured.first_ms)),
        ("others, cores", &|lane| median(lane, |run| run.measured.others_cores)),
    ];
    Table::of(&columns, lanes)
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
    for comparison in &comparisons {
        let line = json!({ "pg": backlog.version, "shape": backlog.shape.to_string() });
        report.record("comparison", line, comparison)?;
    }
    report.say(&Comparison::table(&comparisons).show())
}

/// Marks apply to loopback only, which every machine has.
fn set_marks(backlog: Backlog, lanes: &[Lane], report: &mut Report) {
    for lane in lanes.iter().filter(|lane| lane.reader.is_router() && lane.socket == Socket::Tcp) {
        let mut mark = |what: &str, limit, aim, spread: Option<Spread>| {
            if let Some(measured) = spread {
                let what = format!("{}, {}: {what}", lane.name, backlog.name());
                report.mark(what, limit, aim, measured);
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
            let rate = lane.spread(|run| run.payload);
            mark("payload MB/s", Limit::AtLeast(80.0), None, rate);
        }
        let cpu = lane.spread(|run| run.measured.cpu.reader);
        mark("router CPU, us/event", Limit::AtMost(5.5), Some(4.5), cpu);
        // For memory the worst run counts.
        let peak = lane.peak_megabytes().map(|peak| Spread::from(peak.max));
        mark("peak memory, MB", Limit::AtMost(50.0), Some(25.0), peak);
    }
}

/// The speed relative to `pg_recvlogical`, at least and as an aim, in the shapes that peers are
/// known for.
fn ratio_limits(shape: Shape) -> Option<(f64, f64)> {
    match shape {
        Shape::BATCHED => Some((1.0, 1.2)),
        Shape::SINGLE => Some((1.8, 2.2)),
        Shape { .. } => None,
    }
}
