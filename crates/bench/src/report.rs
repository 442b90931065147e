//! The output: tables for people, one JSON object per line for programs, and the targets at the
//! end.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};

use crate::targets::Target;
use crate::yardstick::Yardstick;

/// Collects the results.
#[derive(Debug)]
pub(crate) struct Report {
    json: Option<File>,
    lines: Vec<Value>,
    machine: Yardstick,
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
        let machine = Yardstick::default();
        Ok(Self { json, lines: Vec::new(), machine, targets: Vec::new(), anomalies: Vec::new() })
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

    /// What the machine can do, as it was measured last: targets that are added from now on are
    /// judged by it.
    pub(crate) fn judge_by(&mut self, machine: Yardstick) {
        self.machine = machine;
    }

    /// Adds a target that is shown at the end.
    pub(crate) fn add_target(&mut self, target: Target) {
        self.targets.push(target.on(&self.machine));
    }

    /// Shows the targets, and returns the number of anomalies.
    pub(crate) fn close(mut self) -> anyhow::Result<usize> {
        if self.targets.is_empty() {
            return Ok(self.anomalies.len());
        }
        let mut table = Table::new(&Target::HEADINGS);
        for target in std::mem::take(&mut self.targets) {
            self.record("mark", target.line(), ())?;
            table.row(target.cells());
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
}
