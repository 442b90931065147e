//! Whether the cost of an event stays constant: from ten topics to ten thousand, from one key to a
//! hundred thousand, from one partition to twelve, from one row per transaction to a million.
//!
//! All backlogs of a series have the same length and are written before the first run, each on a
//! separate server. Their runs alternate, in one order and back, so that a drift of the machine
//! affects all of them alike.

use serde_json::json;

use crate::args::Args;
use crate::bench::Bench;
use crate::choices::GrowthSeries;
use crate::figures::Spread;
use crate::reader::Reader;
use crate::report::{Column, Report, Table, alternate_order};
use crate::run::run;
use crate::server::{BenchServer, WrittenBacklog};
use crate::shape::{Distribution, Shape};
use crate::targets::{Limit, Target};
use crate::yardstick::Needs;

/// The fewest events of each topic. Events visit the topics in turn, so the cost of each topic's
/// first event falls into the first twentieth of the backlog, which is not counted.
const EVENTS_PER_TOPIC_MIN: u64 = 25;
/// The ratio of the highest cost to the lowest above which the cost counts as rising.
const TOLERANCE: f64 = 1.25;

impl GrowthSeries {
    /// Its name, its values, and the usual number of events of each backlog: as many as the largest
    /// value needs.
    const fn facts(self) -> (&'static str, &'static [u32], u64) {
        match self {
            Self::Topics => ("topics", &[10, 100, 1000, 10_000], EVENTS_PER_TOPIC_MIN * 10_000),
            Self::Keys => ("keys", &[1, 100, 10_000, 100_000], 400_000),
            Self::Partitions => ("partitions", &[1, 2, 3, 6, 12], 400_000),
            Self::Rows => ("rows per transaction", &[1, 10, 100, 10_000, 1_000_000], 1_000_000),
        }
    }

    /// The fewest events with which a backlog has this `value`.
    fn needs(self, value: u32) -> u64 {
        match self {
            Self::Topics => EVENTS_PER_TOPIC_MIN * u64::from(value),
            Self::Keys | Self::Rows => u64::from(value),
            Self::Partitions => 1,
        }
    }

    /// Shape and distribution of a backlog at one of the values.
    fn at(self, value: u32) -> anyhow::Result<(Shape, Distribution)> {
        let (shape, distribution) = (Shape::BATCHED, Distribution::default());
        let many = u64::from(value);
        Ok(match self {
            Self::Topics => (shape, Distribution { topics: many, ..distribution }),
            Self::Keys => (shape, Distribution { keys: many, ..distribution }),
            Self::Partitions => {
                (shape, Distribution { partitions: value.try_into()?, ..distribution })
            }
            Self::Rows => (Shape { rows: many, ..shape }, distribution),
        })
    }
}

/// A backlog with one of the values.
struct SeriesBacklog {
    value: u32,
    shape: Shape,
    server: BenchServer,
    written: WrittenBacklog,
}

/// What a counted run cost.
#[derive(Debug, Clone, Copy)]
struct EventCost<'a> {
    reader: &'a str,
    value: u32,
    turn: u32,
    cpu: f64,
    rate: f64,
}

/// Measures every series with every router.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for series in bench.args.series() {
        let mut backlogs = prepare(&bench.args, series, &bench.report).await?;
        let Bench { args, readers, kafka, report, .. } = &mut *bench;
        let mut routers: Vec<&Reader> =
            Reader::routers(readers).map(|(reader, _)| reader).collect();
        let mut costs = Vec::new();
        for turn in 0..=args.runs {
            for backlog in alternate_order(turn, &mut backlogs) {
                for router in alternate_order(turn, &mut routers) {
                    let SeriesBacklog { value, shape, ref server, written } = *backlog;
                    let (name, what) = (router.name(), series.facts().0.replace(' ', "-"));
                    let name_of_run = format!("flat-{what}-{value}-{turn}-{}", router.slug());
                    let settings = (*router, args.first_socket());
                    let outcome = run(settings, server, kafka, written, &name_of_run).await?;
                    let Some(run) = report.require_no_anomaly(&name_of_run, outcome)? else {
                        continue;
                    };
                    let line = json!({
                        "reader": name, "series": series.facts().0, "value": value,
                        "rows_per_transaction": shape.rows, "events": written.events, "run": turn,
                        "warm_up": turn == 0,
                    });
                    report.record("flat", line, &run)?;
                    let (cpu, rate) = (run.measured.cpu.reader, run.measured.events_per_second);
                    let cost = EventCost { reader: name, value, turn, cpu, rate };
                    costs.extend((turn > 0).then_some(cost));
                }
            }
        }
        let values: Vec<u32> = backlogs.iter().map(|backlog| backlog.value).collect();
        report_series(series, &values, &costs, &routers, report)?;
    }
    Ok(())
}

fn report_series(
    series: GrowthSeries,
    values: &[u32],
    costs: &[EventCost<'_>],
    routers: &[&Reader],
    report: &mut Report,
) -> anyhow::Result<()> {
    let spread = |router: &str, value: u32, figure: fn(&EventCost<'_>) -> f64| {
        let of = |cost: &&EventCost<'_>| cost.reader == router && cost.value == value;
        Spread::of(costs.iter().filter(of).map(figure))
    };
    let cpu = |(router, value): &(&str, u32)| spread(router, *value, |cost| cost.cpu);
    let columns: [Column<'_, (&str, u32)>; 5] = [
        ("", &|(router, _)| Some((*router).to_owned())),
        ("", &|(_, value)| Some(value.to_string())),
        ("router CPU us/event: min median max", &|row| Some(cpu(row)?.show_fine())),
        ("x the first", &|row| {
            let first = cpu(&(row.0, *values.first()?))?;
            Some(format!("{:.2}", cpu(row)?.median / first.median))
        }),
        ("k events/s", &|(router, value)| {
            Some(format!("{:.1}", spread(router, *value, |cost| cost.rate)?.median / 1e3))
        }),
    ];
    let names = || routers.iter().map(|router| router.name());
    let rows = names().flat_map(|router| values.iter().map(move |value| (router, *value)));
    let table = Table::of(&columns, rows.filter(|row| cpu(row).is_some()));
    for router in names() {
        let costs: Vec<EventCost<'_>> =
            costs.iter().copied().filter(|cost| cost.reader == router).collect();
        if let Some(measured) = cost_ratio(values, &costs) {
            let what = format!(
                "{router}: highest / lowest CPU time per event, by number of {}",
                series.facts().0
            );
            let target = Target::new(what, Limit::AtMost(TOLERANCE), measured);
            report.add_target(target.needs(Needs::QuietMachine));
        }
    }
    report.print(&format!("\nCPU per event, {}\n{}", series.facts().0, table.show()))
}

async fn prepare(
    args: &Args,
    series: GrowthSeries,
    report: &Report,
) -> anyhow::Result<Vec<SeriesBacklog>> {
    let (name, values, usual) = series.facts();
    let events = args.events(usual);
    let mut backlogs = Vec::new();
    for &value in values {
        let needs = series.needs(value);
        if needs > events {
            report.print(&format!(
                "left out: {value} {name}, which need a backlog of {needs} events"
            ))?;
            continue;
        }
        let (shape, distribution) = series.at(value)?;
        let server = BenchServer::start(args.version(), distribution).await?;
        report.print(&format!("writing a backlog of {events} events, {value} {name}"))?;
        let written = server.write_backlog(shape, events).await?;
        backlogs.push(SeriesBacklog { value, shape, server, written });
    }
    Ok(backlogs)
}

/// The ratio of the highest cost to the lowest for one router, turn by turn. A turn that lacks a
/// value is left out.
fn cost_ratio(values: &[u32], costs: &[EventCost<'_>]) -> Option<Spread> {
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
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn the_cost_ratio_leaves_out_turns_that_lack_a_value() {
        let cost = |turn, value, cpu| EventCost { reader: "router", value, turn, cpu, rate: 1.0 };
        let costs =
            [cost(1, 1, 1.0), cost(1, 10, 1.5), cost(2, 1, 3.0), cost(3, 1, 2.0), cost(3, 10, 1.0)];
        let spread = Spread { min: 1.5, median: 1.75, max: 2.0 };
        assert_eq!(cost_ratio(&[1, 10], &costs), Some(spread));
        assert_eq!(cost_ratio(&[1, 10], &[]), None);
    }

    #[test]
    fn the_usual_backlog_of_a_series_is_long_enough_for_each_of_its_values() {
        for series in GrowthSeries::value_variants() {
            let (name, values, usual) = series.facts();
            assert!(values.iter().all(|value| series.needs(*value) <= usual), "{name}");
        }
    }
}
