//! What a comparison found, as text and as JSON.

use std::{io, time::Duration};

use relay::Lsn;
use serde_json::{Value, json};

use super::{Completion, LastEvent};
use crate::{
    compare::{Example, Finding, Report},
    wording,
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// Everything that is printed.
pub(super) struct Printed {
    pub(super) slot: String,
    pub(super) from: Lsn,
    pub(super) to: Lsn,
    pub(super) completion: Completion,
    pub(super) report: Report,
    pub(super) wait: Duration,
    /// As `--since` was given.
    pub(super) since: Option<String>,
}

impl Printed {
    /// Whether something was compared, all of it, and nothing differs.
    pub(super) fn is_same(&self) -> bool {
        self.completion == Completion::Complete && self.report.is_clean() && self.report.events > 0
    }

    /// Writes what was found as text.
    ///
    /// # Errors
    /// Fails when `out` cannot be written.
    pub(super) fn write(&self, out: Out<'_>) -> io::Result<()> {
        let Self { slot, from, to, report, .. } = self;
        writeln!(out, "slot        {slot}, a copy from {from} to {to}")?;
        writeln!(
            out,
            "compared    {} events: {} found, {} the same",
            report.events, report.found, report.same
        )?;
        if report.earlier > 0 {
            writeln!(out, "skipped     {} records before the first event's", report.earlier)?;
        }
        if report.with_context_headers > 0 {
            writeln!(
                out,
                "left out    the headers __debezium.context.* of {} records, which name the \
                 connector",
                report.with_context_headers
            )?;
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
        match self.completion {
            Completion::Interrupted => "interrupted: what was read until then is above".to_owned(),
            Completion::Stuck => format!(
                "ended early: for {wait} no record of the events that wait came; is the connector \
                 running, and are these its topics?"
            ),
            Completion::Complete if !self.report.is_clean() => "there are differences".to_owned(),
            Completion::Complete if self.report.events == 0 => {
                let since = self.since.as_ref();
                let since = since.map_or(String::new(), |time| format!(" committed since {time}"));
                format!(
                    "nothing was compared: the slot has no event{since}; compare --records N \
                     follows the next N events"
                )
            }
            Completion::Complete => "the router writes the same records".to_owned(),
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
            "ended": match self.completion {
                Completion::Complete => "complete",
                Completion::Stuck => "stuck",
                Completion::Interrupted => "interrupted",
            },
            "events": report.events,
            "found": report.found,
            "same": report.same,
            "earlier": report.earlier,
            "with_context_headers": report.with_context_headers,
            "findings": findings,
            "is_same": self.is_same(),
        })
    }
}

/// What a kind of finding says.
const fn meaning(finding: Finding) -> &'static str {
    match finding {
        Finding::Missing => "events whose record is not in Kafka",
        Finding::NoId => "events without an id, which cannot be looked for",
        Finding::Additional => "records in Kafka that no event of the slot gives",
        Finding::Duplicate => "records of an event that has one already",
        Finding::Order => "records that follow a later one of their key",
        Finding::Refused => "rows at which `run` would stop",
        Finding::Differs(_) => "records that differ in it",
    }
}

fn write_example(example: &Example, out: Out<'_>) -> io::Result<()> {
    let Example { id, at, ours, theirs } = example;
    let id = if id.is_empty() { "without an id" } else { id };
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

/// How far a comparison is, which is shown to a person while it runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress<'a> {
    pub(super) report: &'a Report,
    pub(super) last: LastEvent,
    /// Where the copy of the slot begins.
    pub(super) begins_at: Lsn,
    /// Everything before it was read.
    pub(super) passed: Lsn,
}

impl Progress<'_> {
    /// Writes one line that replaces itself.
    ///
    /// # Errors
    /// Fails when `out` cannot be written.
    pub(super) fn write(&self, out: Out<'_>) -> io::Result<()> {
        let Self { report, last, .. } = self;
        let percent = self.percent();
        let of = match last {
            LastEvent::Number(count) => format!(" of {count}"),
            LastEvent::Before(end) => {
                let left = end.as_u64().saturating_sub(self.passed.as_u64());
                format!(", {} of WAL left", wording::bytes(left))
            }
        };
        let differences: u64 = report.findings().map(|(_, count, _)| count).sum();
        write!(
            out,
            "\r\x1b[K{percent:>3} %  {} events{of}; {} found, {differences} findings",
            report.events, report.found
        )?;
        out.flush()
    }

    /// How much of the scope was read: of its events where their number is given, otherwise of the
    /// WAL. Rounded down, so 100 means all of it.
    fn percent(&self) -> u128 {
        let (done, all) = match self.last {
            LastEvent::Number(count) => (self.report.events, count),
            LastEvent::Before(end) => {
                let since =
                    |position: Lsn| position.as_u64().saturating_sub(self.begins_at.as_u64());
                (since(self.passed), since(end))
            }
        };
        let percent = (u128::from(done) * 100).checked_div(u128::from(all));
        percent.map_or(100, |percent| percent.min(100))
    }
}

/// Removes that line.
pub(super) fn clear_progress(out: Out<'_>) -> io::Result<()> {
    write!(out, "\r\x1b[K")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use relay::{Code, Failure};

    use super::*;
    use crate::compare::{Comparison, IdHeaders, Limits};

    fn comparison() -> Comparison {
        Comparison::new(IdHeaders::new(["id"]), Limits::default())
    }

    fn printed(comparison: Comparison, since: Option<&str>) -> Printed {
        Printed {
            slot: "s".to_owned(),
            from: Lsn::ZERO,
            to: Lsn::ZERO,
            completion: Completion::Complete,
            report: comparison.finish(),
            wait: Duration::ZERO,
            since: since.map(str::to_owned),
        }
    }

    #[test]
    fn a_comparison_without_events_says_why_nothing_was_compared() {
        assert_eq!(
            printed(comparison(), None).verdict(),
            "nothing was compared: the slot has no event; compare --records N follows the next N \
             events"
        );
        assert_eq!(
            printed(comparison(), Some("10:00")).verdict(),
            "nothing was compared: the slot has no event committed since 10:00; compare --records \
             N follows the next N events"
        );
    }

    #[test]
    fn where_every_row_was_refused_that_is_the_verdict() {
        let mut comparison = comparison();
        comparison.refuse(&Failure::new(Code::KeyIsNull, "its key is NULL"), None);
        let printed = printed(comparison, None);
        assert_eq!(printed.verdict(), "there are differences");
        assert!(!printed.is_same());
    }

    fn shown(last: LastEvent, passed: u64, comparison: &Comparison) -> String {
        let (begins_at, passed) = (Lsn::from_u64(1_000), Lsn::from_u64(passed));
        let mut out = Vec::new();
        let progress = Progress { report: comparison.report(), last, begins_at, passed };
        progress.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_progress_is_the_part_of_the_wal_that_was_read() {
        let mut comparison = comparison();
        comparison.expect_without_id("orders-0, committed at 0/64".to_owned());
        let end = Lsn::from_u64(3_048);
        let line = |passed| shown(LastEvent::Before(end), passed, &comparison);
        let rest = "of WAL left; 0 found, 1 findings";
        // Before the first frame no position is known.
        assert_eq!(line(0), format!("\r\x1b[K  0 %  1 events, 2.9 KiB {rest}"));
        assert_eq!(line(2_024), format!("\r\x1b[K 50 %  1 events, 1.0 KiB {rest}"));
        assert_eq!(line(3_047), format!("\r\x1b[K 99 %  1 events, 1 B {rest}"));
        assert_eq!(line(3_048), format!("\r\x1b[K100 %  1 events, 0 B {rest}"));
        // The server writes on while the end is read.
        assert_eq!(line(9_000), line(3_048));
        let nothing = LastEvent::Before(Lsn::from_u64(1_000));
        assert!(shown(nothing, 0, &comparison).contains("100 %"));
    }

    #[test]
    fn the_progress_of_a_number_of_events_is_that_of_the_events() {
        let mut comparison = comparison();
        for _ in 0..3 {
            comparison.expect_without_id(String::new());
        }
        let line = |count| shown(LastEvent::Number(count), 9_000, &comparison);
        assert_eq!(line(400), "\r\x1b[K  0 %  3 events of 400; 0 found, 3 findings");
        assert_eq!(line(4), "\r\x1b[K 75 %  3 events of 4; 0 found, 3 findings");
        assert_eq!(line(3), "\r\x1b[K100 %  3 events of 3; 0 found, 3 findings");
    }

    #[test]
    fn an_event_without_an_id_is_printed_as_such() {
        let mut comparison = comparison();
        comparison.expect_without_id("orders-0, committed at 0/64".to_owned());
        let mut out = Vec::new();
        printed(comparison, None).write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = "no id       1  events without an id, which cannot be looked for\n  \
                    event without an id  orders-0, committed at 0/64\n";
        assert!(text.contains(line), "{text}");
    }
}
