//! What is shown before and after.

use std::{io, time::Duration};

use serde_json::{Value, json};

use super::args::{MARKER, Marker, ReplayArgs};
use crate::{
    cli::{
        decision_args::Effect,
        print_failure::{failure_json, print_failure},
        republication::{Sent, rate},
        shown_bytes,
    },
    republish::sender::{Counts, Ended},
    wording::roughly,
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// How many ids are named to people.
const IDS_SHOWN: usize = 20;

/// What is known before anything is sent.
pub(super) struct Plan {
    pub(super) table: String,
    /// For people: a line for each condition.
    pub(super) conditions: Vec<String>,
    /// Names of the columns by which rows are in order.
    pub(super) order: Vec<String>,
    /// The topic of all records, or the template of theirs.
    pub(super) to: String,
    /// Rows to send.
    pub(super) rows: u64,
    /// Rows that are left out, and why.
    pub(super) held: u64,
    pub(super) why_held: WhyHeld,
    pub(super) unknown_ids: Vec<String>,
    /// The run that is gone on with, and how many rows it had settled.
    pub(super) resumed: Option<(i64, i64)>,
}

/// Why rows are not sent beside the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhyHeld {
    /// They stand in the table of held events.
    Held,
    /// They are polled, and not marked as published.
    NotPublished,
    /// They are not marked as published, and no worker polls the table (P043).
    NotPolled,
}

/// What became of it.
pub(super) struct Outcome {
    pub(super) sent: Sent,
    /// The number of the run in `outbox_router.republication`.
    pub(super) run: Option<i64>,
}

const CONSEQUENCE: &str = "\
Consumers get these records again, behind everything that they have got since. The rows stay as they
are, and the router goes on as before.";

impl Plan {
    pub(super) fn show(&self, args: &ReplayArgs, out: Out<'_>) -> io::Result<()> {
        let order = match self.order.as_slice() {
            [] => "in no order: no column says when a row was made, and none is its id".to_owned(),
            columns => format!("in the order of {}", columns.join(", ")),
        };
        let rows = if self.rows == 1 { "row" } else { "rows" };
        writeln!(out, "replay {} {rows} of {}, {order}", self.rows, self.table)?;
        for condition in &self.conditions {
            writeln!(out, "  {}", shown_bytes::text(condition.as_bytes(), 500))?;
        }
        writeln!(out, "  to: {}", self.to)?;
        match args.marker {
            Marker::Write => writeln!(out, "  with the header {}: 1", MARKER)?,
            Marker::Omit => writeln!(out, "  without a header that tells them from the first")?,
        }
        if let Some(rate) = args.rate {
            let time = Duration::from_secs(self.rows / u64::from(rate.get()));
            writeln!(out, "  at most {rate} a second: {} or more", roughly(time))?;
        }
        if let Some((run, settled)) = self.resumed {
            writeln!(out, "  goes on with run {run}, which had settled {settled} rows")?;
        }
        if self.held > 0 {
            let why = match self.why_held {
                WhyHeld::Held => {
                    "they are held (outbox-router dead-letters list); they are delivered when they \
                     are released"
                }
                WhyHeld::NotPublished => {
                    "they are not marked as published: the router delivers them by itself, unless \
                     they are abandoned (outbox-router dead-letters list)"
                }
                WhyHeld::NotPolled => {
                    "they are not marked as published, and no worker polls the table: what is \
                     younger than a switch to the stream is the stream's to deliver (P043: \
                     outbox-router status)"
                }
            };
            writeln!(out, "note: {} more rows are left out, since {why}", self.held)?;
        }
        self.show_unknown(out)
    }

    fn show_unknown(&self, out: Out<'_>) -> io::Result<()> {
        if self.unknown_ids.is_empty() {
            return Ok(());
        }
        let shown = self.unknown_ids.iter().take(IDS_SHOWN);
        let shown: Vec<String> = shown.map(|id| shown_bytes::id(id.as_bytes())).collect();
        let more = match self.unknown_ids.len().saturating_sub(IDS_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        writeln!(out, "note: no row has the id {}{more}", shown.join(", "))
    }
}

/// What a run will do to its readers.
pub(super) fn show_consequence(out: Out<'_>) -> io::Result<()> {
    writeln!(out, "\n{CONSEQUENCE}")
}

/// Prints what became of it, for people.
pub(super) fn text(
    plan: &Plan,
    outcome: &Outcome,
    args: &ReplayArgs,
    (out, err): (Out<'_>, Out<'_>),
) -> io::Result<()> {
    let Outcome { sent: Sent { counts, topics, ended, took, .. }, run } = outcome;
    let Counts { sent, filtered, left_out, in_flight, .. } = *counts;
    for (topic, records) in topics {
        writeln!(out, "  {topic}: {records} records")?;
    }
    match args.decision.how.effect {
        Effect::Dry => writeln!(out, "would send {sent} records")?,
        Effect::Real => {
            let acknowledged = sent.saturating_sub(in_flight);
            let rate = rate(acknowledged, *took);
            writeln!(out, "sent {acknowledged} records in {}, {rate}/s", roughly(*took))?;
        }
    }
    for (count, what) in [
        (filtered, "filtered by `where`"),
        (left_out, "left out, since they cannot become a record"),
        (in_flight, "sent, but not acknowledged; they may or may not be there"),
    ] {
        if count > 0 {
            writeln!(out, "{what}: {count}")?;
        }
    }
    if let Some(run) = run {
        writeln!(out, "this is run {run} of outbox_router.republication")?;
    }
    let end = match ended {
        Ended::Complete => return Ok(()),
        Ended::Interrupted => "stopped by Ctrl-C",
        Ended::AtRow(_) => "stopped at a row",
        Ended::Failed(_) => "stopped",
    };
    let after = counts.rows.saturating_sub(in_flight);
    let again = if run.is_some() { "; the same command with --resume goes on" } else { "" };
    writeln!(err, "{end} after {after} of {} rows{again}", plan.rows)?;
    match ended {
        Ended::AtRow(failure) => {
            print_failure(err, failure)?;
            writeln!(err, "  or leave such rows out: --skip-bad")
        }
        Ended::Failed(failure) => print_failure(err, failure),
        Ended::Complete | Ended::Interrupted => Ok(()),
    }
}

/// Prints what became of it, for programs.
pub(super) fn document(plan: &Plan, outcome: &Outcome, args: &ReplayArgs) -> Value {
    let Outcome { sent: Sent { counts, topics, ended, took, .. }, run } = outcome;
    let topics: serde_json::Map<String, Value> =
        topics.iter().map(|(topic, records)| (topic.clone(), json!(records))).collect();
    let (outcome, failure) = match ended {
        Ended::Complete => ("complete", None),
        Ended::Interrupted => ("interrupted", None),
        Ended::AtRow(failure) => ("stopped_at_row", Some(failure)),
        Ended::Failed(failure) => ("failed", Some(failure)),
    };
    json!({
        "action": "replay",
        "dry_run": args.decision.how.effect == Effect::Dry,
        "table": plan.table,
        "selected": plan.rows,
        "held": plan.held,
        "unknown_ids": plan.unknown_ids,
        "order": plan.order,
        "outcome": outcome,
        "failure": failure.map(|failure| failure_json(failure)),
        "rows": counts.rows,
        "sent": counts.sent.saturating_sub(counts.in_flight),
        "unacknowledged": counts.in_flight,
        "filtered": counts.filtered,
        "left_out": counts.left_out,
        "topics": topics,
        "seconds": took.as_secs_f64(),
        "run": run,
        "resumed": plan.resumed.map(|(run, _)| run),
    })
}
