//! The output: tables for people, one JSON object per line for programs, and the targets at the
//! end.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};

use crate::figures::Spread;

/// A limit for a figure: not to be exceeded, or to be reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

/// A target and what was measured.
#[derive(Debug, Clone)]
struct Target {
    what: String,
    limit: Limit,
    /// A stricter limit that is aimed at.
    aim: Option<f64>,
    /// The median counts; runs on the other side of the limit are mentioned.
    measured: Spread,
}

impl Target {
    fn verdict(&self) -> &'static str {
        let Spread { min, median, max } = self.measured;
        let meets = |figure, limit| match limit {
            Limit::AtLeast(limit) => figure >= limit,
            Limit::AtMost(limit) => figure <= limit,
        };
        let worst = match self.limit {
            Limit::AtLeast(_) => min,
            Limit::AtMost(_) => max,
        };
        let aim = self.aim.map(|aim| match self.limit {
            Limit::AtLeast(_) => Limit::AtLeast(aim),
            Limit::AtMost(_) => Limit::AtMost(aim),
        });
        if !meets(median, self.limit) {
            "missed"
        } else if !meets(worst, self.limit) {
            "ok, but not in every run"
        } else if aim.is_some_and(|aim| meets(median, aim)) {
            "aim reached"
        } else {
            "ok"
        }
    }
}

/// Collects the results.
#[derive(Debug)]
pub(crate) struct Report {
    json: Option<File>,
    lines: Vec<Value>,
    targets: Vec<Target>,
    anomalies: Vec<String>,
}

impl Report {
    /// Opens the file for JSON lines, if one is wanted.
    pub(crate) fn open(json: Option<&Path>) -> anyhow::Result<Self> {
        let json = json
            .map(|path| {
                File::options()
                    .create(true)
                    .append(true)
                    .open(path)
                    .with_context(|| format!("cannot open {}", path.display()))
            })
            .transpose()?;
        Ok(Self { json, lines: Vec::new(), targets: Vec::new(), anomalies: Vec::new() })
    }

    /// A line for people.
    pub(crate) fn print(&self, line: &str) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }

    /// Writes a JSON line: the kind of figures, what they are of, and the figures.
    pub(crate) fn record(
        &mut self,
        kind: &str,
        mut line: Value,
        figures: impl Serialize,
    ) -> anyhow::Result<()> {
        if let Some(members) = line.as_object_mut() {
            members.insert("kind".to_owned(), kind.into());
            if let Value::Object(mut figures) = serde_json::to_value(figures)? {
                members.append(&mut figures);
            }
        }
        if let Some(file) = &mut self.json {
            writeln!(file, "{line}")?;
        }
        self.lines.push(line);
        Ok(())
    }

    /// All JSON lines so far.
    pub(crate) fn lines(&self) -> &[Value] {
        &self.lines
    }

    /// Reports an anomaly, which decides the exit code.
    pub(crate) fn anomaly(&mut self, what: String) -> anyhow::Result<()> {
        self.print(&format!("ANOMALY {what}"))?;
        self.record("fault", json!({ "what": what }), ())?;
        self.anomalies.push(what);
        Ok(())
    }

    /// Returns the figures of a run without anomaly, and reports the anomaly of another.
    pub(crate) fn require_no_anomaly<T>(
        &mut self,
        what: &str,
        outcome: Result<T, impl fmt::Display>,
    ) -> anyhow::Result<Option<T>> {
        match outcome {
            Ok(figures) => Ok(Some(figures)),
            Err(anomaly) => self.anomaly(format!("{what}: {anomaly}")).map(|()| None),
        }
    }

    /// Adds a target that is shown at the end: the limit, the aim beyond it, and what was measured.
    pub(crate) fn add_target(
        &mut self,
        what: String,
        limit: Limit,
        aim: Option<f64>,
        measured: impl Into<Spread>,
    ) {
        self.targets.push(Target { what, limit, aim, measured: measured.into() });
    }

    /// Shows the targets, and returns the number of anomalies.
    pub(crate) fn close(mut self) -> anyhow::Result<usize> {
        if self.targets.is_empty() {
            return Ok(self.anomalies.len());
        }
        let mut table = Table::new(&["target", "limit", "aim", "measured", ""]);
        for target in std::mem::take(&mut self.targets) {
            let limit = match target.limit {
                Limit::AtLeast(limit) => format!(">= {limit}"),
                Limit::AtMost(limit) => format!("<= {limit}"),
            };
            let Spread { min, median, max } = target.measured;
            let measured = if min < max {
                format!("{median:.2} ({min:.2} to {max:.2})")
            } else {
                format!("{median:.2}")
            };
            let aim = target.aim.map_or("-".to_owned(), |aim| aim.to_string());
            let line = json!({ "what": target.what, "limit": limit, "aim": target.aim, "measured": median,
                               "min": min, "max": max, "verdict": target.verdict() });
            self.record("mark", line, ())?;
            table.row([target.what.clone(), limit, aim, measured, target.verdict().to_owned()]);
        }
        self.print(&table.show())?;
        Ok(self.anomalies.len())
    }
}

/// The order of the runners in one of several turns. Every other turn is reversed: with a fixed
/// order, a drift of the machine would favour one of them.
pub(crate) fn alternate_order<T>(turn: u32, runners: &mut [T]) -> Vec<&mut T> {
    let mut order: Vec<&mut T> = runners.iter_mut().collect();
    if turn % 2 == 1 {
        order.reverse();
    }
    order
}

/// The heading of a column, and its cell in each row.
pub(crate) type Column<'c, R> = (&'c str, &'c dyn Fn(&R) -> Option<String>);

/// A Markdown table whose source is easy to read, too.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// A table with a row for each of `rows`; each column has its heading and its cell, a dash
    /// where the cell is None.
    pub(crate) fn of<R>(columns: &[Column<'_, R>], rows: impl IntoIterator<Item = R>) -> Self {
        let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
        let mut table = Self::new(&heads);
        for row in rows {
            table.row(columns.iter().map(|(_, cell)| cell(&row).unwrap_or_else(|| "-".to_owned())));
        }
        table
    }

    pub(crate) fn show(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|at| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        let (head, body) = self.rows.split_at(1.min(self.rows.len()));
        let lines = head.iter().chain([&rule]).chain(body).map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} |"));
            format!("|{}\n", cells.collect::<String>())
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_as_wide_as_its_widest_cell() {
        let mut table = Table::new(&["a", "long"]);
        table.row(["wide".to_owned(), "b".to_owned()]);
        assert_eq!(table.show(), "| a    | long |\n| ---- | ---- |\n| wide | b    |\n");
    }

    #[test]
    fn a_target_is_met_when_the_median_reaches_the_limit_and_names_runs_that_did_not() {
        let verdict = |limit, aim, figures: [f64; 3]| {
            let measured = Spread::of(figures).unwrap();
            Target { what: String::new(), limit, aim: Some(aim), measured }.verdict()
        };
        for (figures, expected) in [
            ([0.79; 3], "missed"),
            ([0.8; 3], "ok"),
            ([0.79, 1.24, 1.52], "ok, but not in every run"),
            ([0.81, 1.24, 1.52], "aim reached"),
        ] {
            assert_eq!(verdict(Limit::AtLeast(0.8), 1.2, figures), expected, "{figures:?}");
        }
        for (figures, expected) in [
            ([8.1; 3], "missed"),
            ([1.0, 8.5, 9.0], "missed"),
            ([8.0; 3], "ok"),
            ([1.0, 1.5, 8.5], "ok, but not in every run"),
            ([5.0; 3], "aim reached"),
        ] {
            assert_eq!(verdict(Limit::AtMost(8.0), 5.0, figures), expected, "{figures:?}");
        }
    }
}
