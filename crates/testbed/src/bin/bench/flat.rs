//! Whether the cost of an event stays what it is: from ten topics to ten thousand, from one key to a
//! hundred thousand, from one partition to twelve, from one row per transaction to a million.
//!
//! All backlogs of a series are equally long and stand ready at once, each on a server of its own, and their
//! runs take turns, there and back: a machine that drifts touches all of them alike.

use serde_json::json;
use testbed::kafka::Kafka;

use crate::args::{Args, Mode, Socket};
use crate::figures::{Spread, megabytes};
use crate::reader::Reader;
use crate::report::{Limit, Mark, Report, Table, there_and_back};
use crate::run::run;
use crate::shape::{Reach, Shape};
use crate::stage::{Stage, Task};

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

    /// Of each of its backlogs when nothing else is asked for: as many as the largest value needs.
    const fn usual_events(self) -> u64 {
        match self {
            Self::Keys | Self::Partitions => 400_000,
            Self::Topics => TOUCHES * 10_000,
            Self::Rows => 1_000_000,
        }
    }

    /// Events that a backlog must have to be what `value` says.
    fn needs(self, value: u32) -> u64 {
        match self {
            Self::Topics => TOUCHES * u64::from(value),
            Self::Keys | Self::Rows => u64::from(value),
            Self::Partitions => 1,
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

/// A backlog, and what it cost every router.
struct Point<'a> {
    value: u32,
    shape: Shape,
    stage: Stage,
    task: Task,
    tracks: Vec<Track<'a>>,
}

/// The counted runs of one router over one backlog; one with a fault has no figures.
struct Track<'a> {
    reader: &'a Reader,
    runs: Vec<Option<Cost>>,
}

#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu: f64,
    rate: f64,
}

impl Track<'_> {
    fn spread(&self, figure: impl Fn(&Cost) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().flatten().map(figure))
    }
}

/// Measures every series with every router.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    for series in args.series() {
        let mut points = prepare(args, (series, readers), report).await?;
        for turn in 0..=args.runs {
            for point in there_and_back(turn, &mut points) {
                let Point { value, shape, ref stage, task, ref mut tracks } = *point;
                for track in there_and_back(turn, tracks) {
                    let place = (series, value, shape);
                    let way = (track.reader, args.first_socket());
                    let cost = one(way, (stage, task), (place, turn), kafka, report).await?;
                    if turn > 0 {
                        track.runs.push(cost);
                    }
                }
            }
        }
        report.say(&format!("\nCPU per event, {}", series.name()))?;
        report.say(&table(&points).show())?;
        set_marks(series, &points, report);
    }
    Ok(())
}

async fn prepare<'a>(
    args: &Args,
    (series, readers): (Series, &'a [Reader]),
    report: &Report,
) -> anyhow::Result<Vec<Point<'a>>> {
    let events = args.events(series.usual_events());
    let mut points = Vec::new();
    for &value in series.values() {
        let (name, needs) = (series.name(), series.needs(value));
        if needs > events {
            report.say(&format!("left out: {value} {name} need a backlog of {needs} events"))?;
            continue;
        }
        let (shape, reach) = series.at(value)?;
        let stage = Stage::set(args.version(), reach).await?;
        report.say(&format!("making a backlog of {events} events, {value} {name}"))?;
        let task = stage.load(shape, events).await?;
        let track = |reader| Track { reader, runs: Vec::new() };
        let tracks = Reader::routers(readers).map(track).collect();
        points.push(Point { value, shape, stage, task, tracks });
    }
    Ok(points)
}

async fn one(
    (reader, socket): (&Reader, Socket),
    (stage, task): (&Stage, Task),
    ((series, value, shape), turn): ((Series, u32, Shape), u32),
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<Option<Cost>> {
    let what = series.name().replace(' ', "-");
    let name = format!("flat-{what}-{value}-{turn}-{}", reader.slug());
    let run = match run((reader, socket), stage, kafka, task, &name).await? {
        Ok(run) => run,
        Err(fault) => {
            report.fault(format!("{name}: {fault}"))?;
            return Ok(None);
        }
    };
    let cost = Cost { cpu: run.measured.cpu.reader, rate: run.measured.events_per_second };
    report.record(&json!({
        "kind": Mode::Flat.name(), "reader": reader.name(), "series": series.name(),
        "value": value, "rows_per_transaction": shape.rows, "events": task.events, "run": turn,
        "warm_up": turn == 0, "reader_cpu_us": cost.cpu, "events_per_second": cost.rate,
        "walsender_cpu_us": run.measured.cpu.walsender, "broker_cpu_us": run.measured.cpu.broker,
        "peak_rss_megabytes": run.peak_bytes.map(megabytes),
    }))?;
    Ok(Some(cost))
}

/// Routers one after the other, each with all values.
fn tracks<'a>(points: &'a [Point<'a>]) -> Vec<Vec<(u32, &'a Track<'a>)>> {
    let routers = points.first().map_or(0, |point| point.tracks.len());
    let of_router = |number| {
        let track = |point: &'a Point<'a>| Some((point.value, point.tracks.get(number)?));
        points.iter().filter_map(track).collect()
    };
    (0..routers).map(of_router).collect()
}

fn table(points: &[Point<'_>]) -> Table {
    let mut table =
        Table::new(&["", "", "router CPU us/event: min median max", "x the first", "k events/s"]);
    for tracks in tracks(points) {
        let first = tracks.first().and_then(|(_, track)| track.spread(|cost| cost.cpu));
        for (value, track) in tracks {
            let (Some(cpu), Some(rate)) =
                (track.spread(|cost| cost.cpu), track.spread(|cost| cost.rate))
            else {
                continue;
            };
            table.row([
                track.reader.name().to_owned(),
                value.to_string(),
                cpu.show_fine(),
                first.map_or("-".to_owned(), |first| format!("{:.2}", cpu.median / first.median)),
                format!("{:.1}", rate.median / 1e3),
            ]);
        }
    }
    table
}

fn set_marks(series: Series, points: &[Point<'_>], report: &mut Report) {
    for tracks in tracks(points) {
        let Some((_, first)) = tracks.first() else { continue };
        let runs: Vec<&[Option<Cost>]> =
            tracks.iter().map(|(_, track)| track.runs.as_slice()).collect();
        if let Some(measured) = Spread::of(steepness(&runs)) {
            let what =
                format!("{}: dearest / cheapest number of {}", first.reader.name(), series.name());
            report.mark(Mark { what, limit: Limit::AtMost(TOLERANCE), aim: None, measured });
        }
    }
}

/// How much more than the cheapest the dearest cost, turn by turn; a turn that lacks a run says nothing.
fn steepness(runs: &[&[Option<Cost>]]) -> Vec<f64> {
    let turns = runs.iter().map(|runs| runs.len()).min().unwrap_or_default();
    let of_turn = |turn: usize| {
        let cost = |runs: &&[Option<Cost>]| runs.get(turn).copied().flatten().map(|cost| cost.cpu);
        let costs: Vec<f64> = runs.iter().map(cost).collect::<Option<_>>()?;
        let Spread { min, max, .. } = Spread::of(costs)?;
        Some(max / min)
    };
    (0..turns).filter_map(of_turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steepness_is_that_of_a_turn_in_which_every_value_was_measured() {
        let cost = |cpu| Some(Cost { cpu, rate: 1.0 });
        let (few, many) = ([cost(1.0), cost(3.0), cost(2.0)], [cost(1.5), None, cost(1.0)]);
        assert_eq!(steepness(&[&few, &many]), [1.5, 2.0]);
        assert!(steepness(&[]).is_empty());
    }

    #[test]
    fn a_backlog_is_long_enough_for_every_value() {
        for series in Series::ALL {
            for &value in series.values() {
                assert!(series.needs(value) <= series.usual_events(), "{value} {}", series.name());
            }
        }
    }
}
