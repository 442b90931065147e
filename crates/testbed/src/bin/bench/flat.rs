//! Whether the cost of an event stays what it is: from ten topics to ten thousand, from one key to a
//! hundred thousand, from one partition to twelve, from one row per transaction to a million.
//!
//! All backlogs of a series stand ready at once, each on a server of its own, and their runs take turns:
//! a machine that drifts touches all of them alike.

use serde_json::json;
use testbed::kafka::Kafka;

use crate::args::{Args, Mode};
use crate::figures::Spread;
use crate::reader::Reader;
use crate::report::{Limit, Mark, Report, Table};
use crate::run::run;
use crate::shape::{Reach, Shape};
use crate::stage::{Stage, Task};

const EVENTS: u64 = 400_000;
/// Events of each topic at least. Events go around all topics, so what the first one of each costs falls
/// into the first twentieth of the backlog, which is not counted.
const TOUCHES: u64 = 25;
/// How much more the dearest may cost than the cheapest before it counts as a slope.
const TOLERANCE: f64 = 1.25;

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Series {
    /// Topics, from 10 to 10,000
    Topics,
    /// Keys, from 1 to 100,000
    Keys,
    /// Partitions of the topic, from 1 to 12
    Partitions,
    /// Rows per transaction, from 1 to 1,000,000
    Rows,
}

impl Series {
    pub(crate) const ALL: [Self; 4] = [Self::Topics, Self::Keys, Self::Partitions, Self::Rows];

    const fn name(self) -> &'static str {
        match self {
            Self::Topics => "topics",
            Self::Keys => "keys",
            Self::Partitions => "partitions",
            Self::Rows => "rows per transaction",
        }
    }

    const fn values(self) -> &'static [u32] {
        match self {
            Self::Topics => &[10, 100, 1000, 10_000],
            Self::Keys => &[1, 100, 10_000, 100_000],
            Self::Partitions => &[1, 2, 3, 6, 12],
            Self::Rows => &[1, 10, 100, 10_000, 1_000_000],
        }
    }

    /// What a backlog is like at one of the values.
    fn at(self, value: u32) -> anyhow::Result<(Shape, Reach)> {
        let (shape, reach) = (Shape::BATCHED, Reach::default());
        let many = u64::from(value);
        Ok(match self {
            Self::Topics => (shape, Reach { topics: many, ..reach }),
            Self::Keys => (shape, Reach { keys: many, ..reach }),
            Self::Partitions => (shape, Reach { partitions: value.try_into()?, ..reach }),
            Self::Rows => (Shape { rows: many, ..shape }, reach),
        })
    }
}

/// A backlog, and what each of its runs cost.
struct Point {
    value: u32,
    shape: Shape,
    stage: Stage,
    task: Task,
    runs: Vec<Cost>,
}

#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu: f64,
    rate: f64,
}

impl Point {
    fn spread(&self, figure: impl Fn(&Cost) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().map(figure))
    }
}

/// Measures every series with every router.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    for reader in Reader::routers(readers) {
        let mut table = Table::new(&[
            "",
            "",
            "router CPU us/event: min median max",
            "x the first",
            "k events/s",
        ]);
        for series in args.series() {
            let mut points = prepare(args, series, report).await?;
            for turn in 0..=args.runs {
                for point in &mut points {
                    one(args, (reader, series, turn), point, kafka, report).await?;
                }
            }
            show(series, &points, &mut table);
            set_mark(reader, series, &points, report);
        }
        let head = format!("\n{}: CPU per event as something grows", reader.name());
        report.say(&format!("{head}\n{}", table.show()))?;
    }
    Ok(())
}

async fn prepare(args: &Args, series: Series, report: &Report) -> anyhow::Result<Vec<Point>> {
    let mut points: Vec<Point> = Vec::new();
    for &value in series.values() {
        let (shape, reach) = series.at(value)?;
        // One huge transaction holds a million rows even where backlogs are smaller.
        let events = args.events(EVENTS.max(shape.rows)).max(TOUCHES * reach.topics);
        let shape = shape.within(events);
        let stage = Stage::set(args.version(), reach).await?;
        report.say(&format!("making a backlog of {events} events, {value} {}", series.name()))?;
        let task = stage.load(shape, events).await?;
        points.push(Point { value, shape, stage, task, runs: Vec::new() });
    }
    Ok(points)
}

async fn one(
    args: &Args,
    (reader, series, turn): (&Reader, Series, u32),
    point: &mut Point,
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    let what = series.name().replace(' ', "-");
    let name = format!("flat-{what}-{}-{turn}-{}", point.value, reader.slug());
    let way = (reader, args.first_socket());
    let run = match run(way, &point.stage, kafka, point.task, &name).await? {
        Ok(run) => run,
        Err(fault) => return report.fault(format!("{name}: {fault}")),
    };
    let cost = Cost { cpu: run.measured.cpu.reader, rate: run.measured.events_per_second };
    report.record(&json!({
        "kind": Mode::Flat.name(), "reader": reader.name(), "series": series.name(),
        "value": point.value, "rows_per_transaction": point.shape.rows,
        "events": point.task.events, "run": turn, "warm_up": turn == 0,
        "reader_cpu_us": cost.cpu, "events_per_second": cost.rate,
        "walsender_cpu_us": run.measured.cpu.walsender, "broker_cpu_us": run.measured.cpu.broker,
    }))?;
    if turn > 0 {
        point.runs.push(cost);
    }
    Ok(())
}

fn show(series: Series, points: &[Point], table: &mut Table) {
    let first = points.first().and_then(|point| point.spread(|cost| cost.cpu));
    for point in points {
        let (Some(cpu), Some(rate)) =
            (point.spread(|cost| cost.cpu), point.spread(|cost| cost.rate))
        else {
            continue;
        };
        table.row([
            series.name().to_owned(),
            point.value.to_string(),
            cpu.show_fine(),
            first.map_or("-".to_owned(), |first| format!("{:.2}", cpu.median / first.median)),
            format!("{:.1}", rate.median / 1e3),
        ]);
    }
}

fn set_mark(reader: &Reader, series: Series, points: &[Point], report: &mut Report) {
    let medians = points.iter().filter_map(|point| point.spread(|cost| cost.cpu));
    let Some(spread) = Spread::of(medians.map(|spread| spread.median)) else { return };
    let what = format!("{}: dearest / cheapest number of {}", reader.name(), series.name());
    let limit = Limit::AtMost(TOLERANCE);
    report.mark(Mark { what, limit, aim: None, measured: (spread.max / spread.min).into() });
}
