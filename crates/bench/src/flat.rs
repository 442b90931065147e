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

/// A backlog with one of the values.
struct Backlog {
    series: Series,
    value: u32,
    shape: Shape,
    stage: Stage,
    task: Task,
}

/// What a counted run cost.
#[derive(Debug, Clone, Copy)]
struct Cost<'a> {
    reader: &'a str,
    value: u32,
    turn: u32,
    cpu: f64,
    rate: f64,
}

/// Measures every series with every router.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut routers: Vec<&Reader> = Reader::routers(readers).collect();
    for series in args.series() {
        let mut backlogs = prepare(args, series, report).await?;
        let mut costs = Vec::new();
        for turn in 0..=args.runs {
            for backlog in there_and_back(turn, &mut backlogs) {
                for router in there_and_back(turn, &mut routers) {
                    let way = (*router, args.first_socket());
                    let cost = backlog.drain(way, turn, kafka, report).await?;
                    costs.extend(cost.filter(|_| turn > 0));
                }
            }
        }
        let values: Vec<u32> = backlogs.iter().map(|backlog| backlog.value).collect();
        let mut table = Table::new(&[
            "",
            "",
            "router CPU us/event: min median max",
            "x the first",
            "k events/s",
        ]);
        for router in routers.iter().map(|router| router.name()) {
            let costs: Vec<Cost<'_>> =
                costs.iter().copied().filter(|cost| cost.reader == router).collect();
            show(router, &values, &costs, &mut table);
            if let Some(measured) = steepness(&values, &costs) {
                let what = format!("{router}: dearest / cheapest number of {}", series.name());
                report.mark(Mark { what, limit: Limit::AtMost(TOLERANCE), aim: None, measured });
            }
        }
        report.say(&format!("\nCPU per event, {}\n{}", series.name(), table.show()))?;
    }
    Ok(())
}

async fn prepare(args: &Args, series: Series, report: &Report) -> anyhow::Result<Vec<Backlog>> {
    let events = args.events(series.usual_events());
    let mut backlogs = Vec::new();
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
        backlogs.push(Backlog { series, value, shape, stage, task });
    }
    Ok(backlogs)
}

impl Backlog {
    async fn drain<'a>(
        &self,
        (reader, socket): (&'a Reader, Socket),
        turn: u32,
        kafka: &mut Kafka,
        report: &mut Report,
    ) -> anyhow::Result<Option<Cost<'a>>> {
        let Self { series, value, shape, ref stage, task } = *self;
        let what = series.name().replace(' ', "-");
        let name = format!("flat-{what}-{value}-{turn}-{}", reader.slug());
        let run = match run((reader, socket), stage, kafka, task, &name).await? {
            Ok(run) => run,
            Err(fault) => {
                report.fault(format!("{name}: {fault}"))?;
                return Ok(None);
            }
        };
        let (reader, cpu, rate) =
            (reader.name(), run.measured.cpu.reader, run.measured.events_per_second);
        report.record(&json!({
            "kind": Mode::Flat.name(), "reader": reader, "series": series.name(), "value": value,
            "rows_per_transaction": shape.rows, "events": task.events, "run": turn,
            "warm_up": turn == 0, "reader_cpu_us": cpu, "events_per_second": rate,
            "walsender_cpu_us": run.measured.cpu.walsender, "broker_cpu_us": run.measured.cpu.broker,
            "peak_rss_megabytes": run.peak_bytes.map(megabytes),
        }))?;
        Ok(Some(Cost { reader, value, turn, cpu, rate }))
    }
}

/// The rows of one router.
fn show(router: &str, values: &[u32], costs: &[Cost<'_>], table: &mut Table) {
    let spread = |value, figure: fn(&Cost<'_>) -> f64| {
        Spread::of(costs.iter().filter(|cost| cost.value == value).map(figure))
    };
    let first = values.first().and_then(|first| spread(*first, |cost| cost.cpu));
    for &value in values {
        let (Some(cpu), Some(rate)) =
            (spread(value, |cost| cost.cpu), spread(value, |cost| cost.rate))
        else {
            continue;
        };
        table.row([
            router.to_owned(),
            value.to_string(),
            cpu.show_fine(),
            first.map_or("-".to_owned(), |first| format!("{:.2}", cpu.median / first.median)),
            format!("{:.1}", rate.median / 1e3),
        ]);
    }
}

/// How much more than the cheapest value the dearest cost one router, turn by turn; a turn in which one is missing
/// says nothing.
fn steepness(values: &[u32], costs: &[Cost<'_>]) -> Option<Spread> {
    let last = costs.iter().map(|cost| cost.turn).max()?;
    let of_turn = |turn| {
        let costs: Vec<f64> =
            costs.iter().filter(|cost| cost.turn == turn).map(|cost| cost.cpu).collect();
        let Spread { min, max, .. } = Spread::of(costs.iter().copied())?;
        (costs.len() == values.len()).then_some(max / min)
    };
    Spread::of((1..=last).filter_map(of_turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steepness_is_that_of_a_turn_in_which_every_value_was_measured() {
        let cost = |turn, value, cpu| Cost { reader: "router", value, turn, cpu, rate: 1.0 };
        let costs =
            [cost(1, 1, 1.0), cost(1, 10, 1.5), cost(2, 1, 3.0), cost(3, 1, 2.0), cost(3, 10, 1.0)];
        let spread = Spread { min: 1.5, median: 1.75, max: 2.0 };
        assert_eq!(steepness(&[1, 10], &costs), Some(spread));
        assert_eq!(steepness(&[1, 10], &[]), None);
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
