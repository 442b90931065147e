//! What a comparison found, as text and as JSON.

use std::{io, time::Duration};

use relay::Lsn;
use serde_json::{Value, json};

use super::{Ended, Sides, Until};
use crate::{
    compare::{Example, Finding, Report},
    wording,
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// Everything that is printed.
pub(super) struct Outcome {
    pub(super) slot: String,
    pub(super) from: Lsn,
    pub(super) to: Lsn,
    pub(super) ended: Ended,
    pub(super) report: Report,
    pub(super) wait: Duration,
}

impl Outcome {
    /// Whether something was compared, all of it, and nothing differs.
    pub(super) fn is_same(&self) -> bool {
        self.ended == Ended::Whole && self.report.is_clean() && self.report.events > 0
    }

    pub(super) fn write(&self, out: Out<'_>) -> io::Result<()> {
        let Self { slot, from, to, report, .. } = self;
        writeln!(out, "slot        {slot}, a copy from {from} to {to}")?;
        writeln!(
            out,
            "compared    {} events: {} found, {} the same",
            report.events, report.found, report.same
        )?;
        if report.earlier > 0 {
            writeln!(out, "skipped     {} records from before {from}", report.earlier)?;
        }
        for (finding, count, examples) in report.findings() {
            writeln!(out, "\n{:<10}  {count}  {}", finding.as_str(), meaning(finding))?;
            for example in examples {
                write_example(example, out)?;
            }
        }
        writeln!(out, "\nverdict     {}", self.verdict())
    }

    fn verdict(&self) -> String {
        let wait = wording::roughly(self.wait);
        match self.ended {
            Ended::Interrupted => "interrupted: what was read until then is above".to_owned(),
            Ended::Stuck => format!(
                "ended early: for {wait} no record of the events that wait came; is the connector \
                 running, and are these its topics?"
            ),
            Ended::Whole if self.report.events == 0 => "nothing was compared: the connector has \
                 confirmed everything; compare --records N follows the next N events"
                .to_owned(),
            Ended::Whole if self.report.is_clean() => "the router writes what is there".to_owned(),
            Ended::Whole => "there are differences".to_owned(),
        }
    }

    pub(super) fn as_json(&self) -> Value {
        let Self { report, .. } = self;
        let findings: Vec<Value> = report
            .findings()
            .map(|(finding, count, examples)| {
                let examples: Vec<Value> = examples.iter().map(example_as_json).collect();
                json!({ "kind": finding.as_str(), "count": count, "examples": examples })
            })
            .collect();
        json!({
            "slot": self.slot,
            "from": self.from.to_string(),
            "to": self.to.to_string(),
            "ended": match self.ended {
                Ended::Whole => "whole",
                Ended::Stuck => "stuck",
                Ended::Interrupted => "interrupted",
            },
            "events": report.events,
            "found": report.found,
            "same": report.same,
            "earlier": report.earlier,
            "findings": findings,
            "is_same": self.is_same(),
        })
    }
}

/// What a kind of finding says.
const fn meaning(finding: Finding) -> &'static str {
    match finding {
        Finding::Missing => "events whose record is not in Kafka",
        Finding::Additional => "records in Kafka that no event of the slot gives",
        Finding::Doubled => "records of an event that has one already",
        Finding::Order => "records that follow a later one of their key",
        Finding::Refused => "rows at which `run` would stop",
        Finding::Differs(_) => "records that differ in it",
    }
}

fn write_example(example: &Example, out: Out<'_>) -> io::Result<()> {
    let Example { id, at, ours, theirs } = example;
    writeln!(out, "  event {id}  {at}")?;
    if let Some(ours) = ours {
        writeln!(out, "      router    {ours}")?;
    }
    if let Some(theirs) = theirs {
        writeln!(out, "      in Kafka  {theirs}")?;
    }
    Ok(())
}

fn example_as_json(example: &Example) -> Value {
    json!({ "id": example.id, "at": example.at, "router": example.ours, "kafka": example.theirs })
}

/// One line that replaces itself.
pub(super) fn progress(sides: &Sides, until: Until, out: Out<'_>) -> io::Result<()> {
    let report = sides.comparison.report();
    let of = match until {
        Until::Events(count) => format!(" of {count}"),
        Until::Position(end) => {
            let left = end.as_u64().saturating_sub(sides.stream.passed().as_u64());
            format!(", {} of WAL left", wording::bytes(left))
        }
    };
    let differences: u64 = report.findings().map(|(_, count, _)| count).sum();
    write!(
        out,
        "\r\x1b[K{} events{of}; {} found, {differences} findings",
        report.events, report.found
    )?;
    out.flush()
}

pub(super) fn clear_progress(out: Out<'_>) -> io::Result<()> {
    write!(out, "\r\x1b[K")?;
    out.flush()
}
