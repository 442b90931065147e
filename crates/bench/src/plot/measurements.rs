//! Which figures of the JSON lines make which chart.
//!
//! Drains are drawn for the version of PostgreSQL that was measured first. Warm-ups are left out,
//! and several runs are shown by their median.

use serde_json::Value;

use super::SOURCE;
use super::chart::{Body, Chart, Frame, Row, Style};
use crate::figures::{Spread, number, text};
use crate::shape::Shape;

const BASELINE: &str = "pg_recvlogical";

/// The runs of a mode, without warm-ups.
fn of_mode<'a>(lines: &'a [Value], mode: &str) -> Vec<&'a Value> {
    let counts = |line: &&Value| {
        text(line, "kind") == mode && line.get("warm_up") != Some(&Value::Bool(true))
    };
    lines.iter().filter(counts).collect()
}

/// The runs, grouped by a key, in the order in which the keys occur.
fn grouped<'a, K: PartialEq>(
    runs: &[&'a Value],
    key: impl Fn(&'a Value) -> K,
) -> Vec<(K, Vec<&'a Value>)> {
    let mut groups: Vec<(K, Vec<&'a Value>)> = Vec::new();
    for &run in runs {
        let key = key(run);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((key, vec![run])),
        }
    }
    groups
}

fn median(runs: &[&Value], name: &str) -> Option<f64> {
    Spread::of(runs.iter().filter_map(|run| number(run, name))).map(|spread| spread.median)
}

/// The machine and the servers of the last run.
fn note(lines: &[Value]) -> String {
    let last = |kind: &str| lines.iter().rev().find(|line| text(line, "kind") == kind);
    let machine = last("machine").map_or(String::new(), |line| {
        let cores = number(line, "cores").unwrap_or_default();
        // What follows the hyphen names the kernel's builder.
        let kernel = text(line, "kernel").split('-').next().unwrap_or_default();
        format!("{cores:.0} x {}, kernel {kernel}; ", text(line, "cpu"))
    });
    let servers = last("servers").map_or(String::new(), |line| {
        let versions = line.get("postgres").and_then(Value::as_array);
        let versions: Vec<&str> =
            versions.into_iter().flatten().filter_map(Value::as_str).collect();
        format!("PostgreSQL {}, Kafka {}", versions.join(" "), text(line, "kafka"))
    });
    format!("{machine}{servers}")
}

/// The socket of a run, and its congestion control if that was chosen; files from before it could
/// be have the socket alone.
fn way(line: &Value) -> &str {
    match text(line, "way") {
        "" => text(line, "socket"),
        way => way,
    }
}

/// Runs over one backlog of one reader on one way.
struct ReaderRuns<'a> {
    label: String,
    is_baseline: bool,
    runs: Vec<&'a Value>,
}

/// Drains by shape, with a row for each reader.
fn drains(
    lines: &[Value],
    row: impl Fn(&ReaderRuns<'_>, &[ReaderRuns<'_>]) -> Option<Row>,
) -> Option<Vec<(String, Vec<Row>)>> {
    let (_, runs) =
        grouped(&of_mode(lines, "drain"), |line| number(line, "pg")).into_iter().next()?;
    let ways = grouped(&runs, way).len();
    let shapes = grouped(&runs, |line| text(line, "shape")).into_iter().map(|(shape, runs)| {
        let mut all_runs = grouped(&runs, |line| (way(line), text(line, "reader")));
        // The order of runs alternates, so the lines are not always in the order of the readers.
        all_runs.sort_unstable_by_key(|(key, _)| *key);
        let reader_runs = |((way, reader), runs): ((&str, &str), _)| ReaderRuns {
            label: if ways == 1 { reader.to_owned() } else { format!("{reader}, {way}") },
            is_baseline: reader == BASELINE,
            runs,
        };
        let all_runs: Vec<ReaderRuns<'_>> = all_runs.into_iter().map(reader_runs).collect();
        let name = shape.parse().map_or(shape.to_owned(), Shape::describe);
        (name, all_runs.iter().filter_map(|reader_runs| row(reader_runs, &all_runs)).collect())
    });
    Some(shapes.collect())
}

/// The speed relative to `pg_recvlogical` in the same measurement and turn, on the same way.
fn ratios(reader_runs: &ReaderRuns<'_>, all_runs: &[ReaderRuns<'_>]) -> Option<Spread> {
    let key =
        |line: &Value| (number(line, "run"), way(line).to_owned(), text(line, SOURCE).to_owned());
    let baseline = |run: &Value| {
        let runs = all_runs
            .iter()
            .filter(|reader_runs| reader_runs.is_baseline)
            .flat_map(|reader_runs| &reader_runs.runs);
        let found = runs.copied().find(|line| key(line) == key(run))?;
        number(found, "events_per_second")
    };
    Spread::of(
        reader_runs
            .runs
            .iter()
            .filter_map(|run| Some(number(run, "events_per_second")? / baseline(run)?)),
    )
}

/// Rates of draining, including that of `pg_recvlogical`.
pub(super) fn drain(lines: &[Value]) -> Option<Chart> {
    let groups = drains(lines, |reader_runs, all_runs| {
        let ratio = ratios(reader_runs, all_runs)?;
        Some(Row {
            label: reader_runs.label.clone(),
            figures: vec![(usize::from(reader_runs.is_baseline), ratio.median)],
            whisker: (!reader_runs.is_baseline).then_some((ratio.min, ratio.max)),
        })
    })?;
    let frame = Frame {
        title: "Draining a backlog into Kafka",
        unit: "events per second, pg_recvlogical into nothing = 1; whiskers: slowest and fastest \
               run; more is better"
            .to_owned(),
        note: note(lines),
        legend: ["into Kafka, acks=all", "into nothing"].map(str::to_owned).to_vec(),
    };
    Some(Chart { frame, body: Body::Rows(Style::Bars, groups) })
}

/// CPU time per event, by process.
pub(super) fn cpu(lines: &[Value]) -> Option<Chart> {
    let parts = [(0, "reader_cpu_us"), (2, "decoding_cpu_us"), (1, "broker_cpu_us")];
    let groups = drains(lines, |reader_runs, _| {
        let shown = parts.iter().take(if reader_runs.is_baseline { 2 } else { 3 });
        let figures = shown
            .map(|(colour, name)| (*colour, median(&reader_runs.runs, name).unwrap_or_default()))
            .collect();
        Some(Row { label: reader_runs.label.clone(), figures, whisker: None })
    })?;
    let frame = Frame {
        title: "CPU per event",
        unit: "microseconds of CPU per event while draining, median of the runs; less is better"
            .to_owned(),
        note: note(lines),
        legend: ["reader", "broker", "decoding"].map(str::to_owned).to_vec(),
    };
    Some(Chart { frame, body: Body::Rows(Style::Bars, groups) })
}

const PERCENTILES: [(&str, &str); 4] =
    [("p50_ms", "p50"), ("p99_ms", "p99"), ("p999_ms", "p99.9"), ("max_ms", "max")];

/// Latency from commit to consumer.
pub(super) fn latency(lines: &[Value]) -> Option<Chart> {
    let rates = grouped(&of_mode(lines, "latency"), |line| number(line, "rate"));
    let row = |(reader, runs): (&str, Vec<&Value>)| Row {
        label: reader.to_owned(),
        figures: (0..)
            .zip(PERCENTILES)
            .filter_map(|(colour, (name, _))| Some((colour, median(&runs, name)?)))
            .collect(),
        whisker: None,
    };
    let groups: Vec<(String, Vec<Row>)> = rates
        .into_iter()
        .map(|(rate, runs)| {
            let readers = grouped(&runs, |line| text(line, "reader"));
            let name = format!("{:.0} transactions a second", rate.unwrap_or_default());
            (name, readers.into_iter().map(row).collect())
        })
        .collect();
    let frame = Frame {
        title: "From commit to consumer",
        unit: "milliseconds, single-row transactions at a fixed rate, acks=all; less is better"
            .to_owned(),
        note: note(lines),
        legend: PERCENTILES.map(|(_, name)| name.to_owned()).to_vec(),
    };
    (!groups.is_empty()).then_some(Chart { frame, body: Body::Rows(Style::Dots, groups) })
}

/// Cost per event as one dimension grows, of the router that was measured first.
pub(super) fn flat(lines: &[Value]) -> Option<Chart> {
    let runs = of_mode(lines, "flat");
    let (reader, runs) = grouped(&runs, |line| text(line, "reader")).into_iter().next()?;
    let series = grouped(&runs, |line| text(line, "series"));
    let points = |runs: &[&Value]| {
        let values = grouped(runs, |line| number(line, "value"));
        let point = |(value, runs): (Option<f64>, Vec<&Value>)| {
            Some((value?, median(&runs, "reader_cpu_us")?))
        };
        values.into_iter().filter_map(point).collect()
    };
    let frame = Frame {
        title: "CPU per event as something grows",
        unit: format!("microseconds of CPU per event of {reader} while draining; flat is good"),
        note: note(lines),
        legend: series.iter().map(|(name, _)| (*name).to_owned()).collect(),
    };
    Some(Chart { frame, body: Body::Lines(series.iter().map(|(_, runs)| points(runs)).collect()) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drained(reader: &str, run: u32, rate: f64) -> Value {
        json!({ "kind": "drain", "pg": 17, "shape": "1x400", "socket": "tcp", "reader": reader,
                "run": run, "warm_up": run == 0, "events_per_second": rate })
    }

    /// The rows of the only group.
    fn rows(lines: &[Value]) -> Vec<Row> {
        let Body::Rows(_, mut groups) = drain(lines).unwrap().body else { unreachable!() };
        let (group, rows) = groups.remove(0);
        assert_eq!(group, "1 row of 400 B per transaction");
        rows
    }

    #[test]
    fn a_rate_is_compared_with_the_baseline_of_the_same_turn() {
        let lines = [
            drained("router", 0, 900.0),
            drained("pg_recvlogical", 1, 100.0),
            drained("router", 1, 150.0),
            drained("router", 2, 400.0),
            drained("pg_recvlogical", 2, 200.0),
        ];
        let rows = rows(&lines);
        let router = rows.iter().find(|row| row.label == "router").unwrap();
        assert_eq!((router.figures.clone(), router.whisker), (vec![(0, 1.75)], Some((1.5, 2.0))));
    }

    #[test]
    fn measurements_of_two_files_are_not_mixed() {
        let from = |source: &str, mut line: Value| {
            line[SOURCE] = json!(source);
            line
        };
        let lines = [
            from("a", drained("pg_recvlogical", 1, 100.0)),
            from("a", drained("router", 1, 150.0)),
            from("b", drained("router", 1, 500.0)),
            from("b", drained("pg_recvlogical", 1, 200.0)),
        ];
        let rows = rows(&lines);
        let router = rows.iter().find(|row| row.label == "router").unwrap();
        assert_eq!(router.whisker, Some((1.5, 2.5)));
    }

    #[test]
    fn a_figure_without_measurements_is_not_drawn() {
        assert!(drain(&[]).is_none() && cpu(&[]).is_none());
        assert!(latency(&[]).is_none() && flat(&[]).is_none());
    }
}
