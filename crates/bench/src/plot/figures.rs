//! Which figures of the JSON lines make which chart.
//!
//! Drains are drawn for the version of PostgreSQL that was measured first. Warm-ups are left out, and
//! several runs are shown by their median.

use serde_json::Value;

use super::SOURCE;
use super::chart::{Frame, Line, Lines, Row, Rows, Style};
use crate::figures::{Spread, number, text};

const BASELINE: &str = "pg_recvlogical";

/// Counted runs of a mode.
fn of_mode<'a>(lines: &'a [Value], mode: &str) -> Vec<&'a Value> {
    let counts = |line: &&Value| {
        text(line, "kind") == mode && line.get("warm_up") != Some(&Value::Bool(true))
    };
    lines.iter().filter(counts).collect()
}

/// The machine and the servers of the last run.
fn note(lines: &[Value]) -> String {
    let last = |kind: &str| lines.iter().rev().find(|line| text(line, "kind") == kind);
    let machine = last("machine").map_or(String::new(), |line| {
        let cores = number(line, "cores").unwrap_or_default();
        // Behind the hyphen stands who built it.
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

/// Distinct values in the order in which they come.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Runs over one backlog of one reader on one socket.
struct Lane<'a> {
    label: String,
    is_baseline: bool,
    runs: Vec<&'a Value>,
}

/// Drains by shape and reader, of the version that was measured first.
fn drains(lines: &[Value]) -> Vec<(String, Vec<Lane<'_>>)> {
    let runs = of_mode(lines, "drain");
    let version = runs.first().and_then(|line| number(line, "pg"));
    let runs: Vec<&Value> = runs.into_iter().filter(|line| number(line, "pg") == version).collect();
    let sockets = distinct(runs.iter().map(|line| text(line, "socket")));
    let shapes = distinct(runs.iter().map(|line| text(line, "shape")));
    let lanes = |shape: &str| {
        let runs: Vec<&Value> =
            runs.iter().copied().filter(|line| text(line, "shape") == shape).collect();
        let mut names =
            distinct(runs.iter().map(|line| (text(line, "socket"), text(line, "reader"))));
        // Turns go there and back: the order of the lines is not always that of the readers.
        names.sort_unstable();
        let lane = |(socket, reader): (&str, &str)| Lane {
            label: match sockets.len() {
                1 => reader.to_owned(),
                _ => format!("{reader}, {socket}"),
            },
            is_baseline: reader == BASELINE,
            runs: runs
                .iter()
                .copied()
                .filter(|line| (text(line, "socket"), text(line, "reader")) == (socket, reader))
                .collect(),
        };
        names.into_iter().map(lane).collect()
    };
    shapes.into_iter().map(|shape| (describe(shape), lanes(shape))).collect()
}

fn describe(shape: &str) -> String {
    shape.parse().map_or(shape.to_owned(), crate::shape::Shape::describe)
}

/// How fast beside `pg_recvlogical` in the same measurement and turn, over the same socket.
fn ratios(lane: &Lane<'_>, lanes: &[Lane<'_>]) -> Option<Spread> {
    let key = |line: &Value| {
        (number(line, "run"), text(line, "socket").to_owned(), text(line, SOURCE).to_owned())
    };
    let baseline = |run: &Value| {
        let runs = lanes.iter().filter(|lane| lane.is_baseline).flat_map(|lane| &lane.runs);
        let found = runs.copied().find(|line| key(line) == key(run))?;
        number(found, "events_per_second")
    };
    Spread::of(
        lane.runs.iter().filter_map(|run| Some(number(run, "events_per_second")? / baseline(run)?)),
    )
}

/// Rates of draining, with `pg_recvlogical` as one.
pub(super) fn drain(lines: &[Value]) -> Option<Rows> {
    let groups: Vec<(String, Vec<Row>)> = drains(lines)
        .into_iter()
        .map(|(shape, lanes)| {
            let row = |lane: &Lane<'_>| {
                let ratio = ratios(lane, &lanes)?;
                Some(Row {
                    label: lane.label.clone(),
                    figures: vec![(usize::from(lane.is_baseline), ratio.median)],
                    whisker: (!lane.is_baseline).then_some((ratio.min, ratio.max)),
                })
            };
            (shape, lanes.iter().filter_map(row).collect())
        })
        .collect();
    let frame = Frame {
        title: "Draining a backlog into Kafka".to_owned(),
        unit: "events per second, pg_recvlogical into nothing = 1; whiskers: slowest and fastest \
               run; more is better"
            .to_owned(),
        note: note(lines),
        legend: vec!["into Kafka, acks=all".to_owned(), "into nothing".to_owned()],
    };
    (!groups.is_empty()).then_some(Rows { frame, style: Style::Bars, groups })
}

/// CPU per event of those who take part.
pub(super) fn cpu(lines: &[Value]) -> Option<Rows> {
    let groups: Vec<(String, Vec<Row>)> = drains(lines)
        .into_iter()
        .map(|(shape, lanes)| {
            let row = |lane: &Lane<'_>| {
                let median = |name: &str| {
                    Spread::of(lane.runs.iter().filter_map(|run| number(run, name)))
                        .map_or(0.0, |spread| spread.median)
                };
                let mut figures =
                    vec![(0, median("reader_cpu_us")), (2, median("walsender_cpu_us"))];
                if !lane.is_baseline {
                    figures.push((1, median("broker_cpu_us")));
                }
                Row { label: lane.label.clone(), figures, whisker: None }
            };
            (shape, lanes.iter().map(row).collect())
        })
        .collect();
    let frame = Frame {
        title: "CPU per event".to_owned(),
        unit: "microseconds of CPU per event while draining, median of the runs; less is better"
            .to_owned(),
        note: note(lines),
        legend: ["reader", "broker", "walsender"].map(str::to_owned).to_vec(),
    };
    (!groups.is_empty()).then_some(Rows { frame, style: Style::Bars, groups })
}

const PERCENTILES: [(&str, &str); 4] =
    [("p50_ms", "p50"), ("p99_ms", "p99"), ("p999_ms", "p99.9"), ("max_ms", "max")];

/// From commit to consumer.
pub(super) fn latency(lines: &[Value]) -> Option<Rows> {
    let runs = of_mode(lines, "latency");
    let rates = distinct(runs.iter().filter_map(|line| number(line, "rate")));
    let rows = |rate: f64| {
        let runs: Vec<&Value> =
            runs.iter().copied().filter(|line| number(line, "rate") == Some(rate)).collect();
        let readers = distinct(runs.iter().map(|line| text(line, "reader")));
        let row = |reader: &str| {
            let of_reader = runs.iter().filter(|line| text(line, "reader") == reader);
            let median = |name: &str| {
                Spread::of(of_reader.clone().filter_map(|line| number(line, name)))
                    .map(|spread| spread.median)
            };
            let dots = PERCENTILES.iter().enumerate();
            Row {
                label: reader.to_owned(),
                figures: dots.filter_map(|(at, (name, _))| Some((at, median(name)?))).collect(),
                whisker: None,
            }
        };
        readers.into_iter().map(row).collect()
    };
    let groups: Vec<(String, Vec<Row>)> = rates
        .into_iter()
        .map(|rate| (format!("{rate:.0} transactions a second"), rows(rate)))
        .collect();
    let frame = Frame {
        title: "From commit to consumer".to_owned(),
        unit: "milliseconds, single-row transactions at a fixed rate, acks=all; less is better"
            .to_owned(),
        note: note(lines),
        legend: PERCENTILES.map(|(_, name)| name.to_owned()).to_vec(),
    };
    (!groups.is_empty()).then_some(Rows { frame, style: Style::Dots, groups })
}

/// Cost per event as something grows, of the router that was measured first.
pub(super) fn flat(lines: &[Value]) -> Option<Lines> {
    let runs = of_mode(lines, "flat");
    let reader = text(runs.first()?, "reader");
    let runs: Vec<&Value> =
        runs.iter().copied().filter(|line| text(line, "reader") == reader).collect();
    let series = distinct(runs.iter().map(|line| text(line, "series")));
    let line = |(colour, name): (usize, &&str)| {
        let of_series: Vec<&Value> =
            runs.iter().copied().filter(|line| text(line, "series") == *name).collect();
        let values = distinct(of_series.iter().filter_map(|line| number(line, "value")));
        let point = |value: f64| {
            let of_value = of_series.iter().filter(|line| number(line, "value") == Some(value));
            let cpu = Spread::of(of_value.filter_map(|line| number(line, "reader_cpu_us")))?;
            Some((value, cpu.median))
        };
        Line { colour, points: values.into_iter().filter_map(point).collect() }
    };
    let frame = Frame {
        title: "CPU per event as something grows".to_owned(),
        unit: format!("microseconds of CPU per event of {reader} while draining; flat is good"),
        note: note(lines),
        legend: series.iter().map(|name| (*name).to_owned()).collect(),
    };
    Some(Lines { frame, lines: series.iter().enumerate().map(line).collect() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drained(reader: &str, run: u32, rate: f64) -> Value {
        json!({ "kind": "drain", "pg": 17, "shape": "1x400", "socket": "tcp", "reader": reader,
                "run": run, "warm_up": run == 0, "events_per_second": rate })
    }

    #[test]
    fn a_rate_is_compared_with_the_baseline_of_its_own_turn() {
        let lines = [
            drained("router", 0, 900.0),
            drained("pg_recvlogical", 1, 100.0),
            drained("router", 1, 150.0),
            drained("router", 2, 400.0),
            drained("pg_recvlogical", 2, 200.0),
        ];
        let chart = drain(&lines).unwrap();
        let (group, rows) = chart.groups.first().unwrap();
        assert_eq!(group, "1 row of 400 B per transaction");
        let router = rows.iter().find(|row| row.label == "router").unwrap();
        assert_eq!((router.figures.clone(), router.whisker), (vec![(0, 1.75)], Some((1.5, 2.0))));
    }

    #[test]
    fn measurements_from_two_files_are_not_mixed() {
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
        let chart = drain(&lines).unwrap();
        let (_, rows) = chart.groups.first().unwrap();
        let router = rows.iter().find(|row| row.label == "router").unwrap();
        assert_eq!(router.whisker, Some((1.5, 2.5)));
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        assert!(drain(&[]).is_none() && cpu(&[]).is_none());
        assert!(latency(&[]).is_none() && flat(&[]).is_none());
    }
}
