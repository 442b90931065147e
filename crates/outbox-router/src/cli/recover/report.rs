//! What is shown before and after.

use std::{io, time::Duration};

use relay::{Failure, TableName, source::Gap, witness::Witness};
use serde_json::{Value, json};

use super::{
    args::{RecoverArgs, RecoveredRows},
    since::{Sight, Start},
    slot::Former,
    topics::{Read, Topics},
};
use crate::{
    cli::{Form, decision_args::Effect, print_failure::print_failure, republication::Sent},
    codes::hint,
    republish::sender::Ended,
    wording::{count, roughly},
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// What is known before anything is changed.
pub(super) struct Plan<'p> {
    pub(super) gaps: &'p [Gap],
    pub(super) from: &'p Start,
    pub(super) tables: &'p [TableName],
    /// `None`: nothing is compared.
    pub(super) topics: Option<&'p Topics>,
    pub(super) slot: &'p str,
}

/// What was found, and done.
pub(super) struct Found {
    gaps: Vec<String>,
    since: String,
    /// When the gaps begin, without the margin.
    begin: String,
    selected: RecoveredRows,
    effect: Effect,
    /// Why a real run would change nothing.
    refusals: Vec<Value>,
    pub(super) topics: usize,
    pub(super) read: Read,
    pub(super) tables: Vec<OfTable>,
    /// Where the new slot begins.
    pub(super) slot_at: Option<String>,
    pub(super) is_closed: bool,
    pub(super) took: Duration,
}

/// What was found of a table.
pub(super) struct OfTable {
    pub(super) table: TableName,
    /// Rows that were made since then.
    pub(super) rows: u64,
    /// Of those, rows that are in no topic; all, if nothing is compared.
    pub(super) missing: u64,
    /// Of those, rows that were held or skipped.
    pub(super) decided: u64,
    /// Ids of records that have no such row; `None` where nothing is compared.
    pub(super) without_row: Option<u64>,
    /// When the oldest row was made.
    pub(super) oldest: Option<String>,
    pub(super) scope: Scope,
    pub(super) sent: Option<SentOf>,
}

/// Which rows of a table are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Those that were made since then.
    Since,
    /// All.
    Whole,
}

/// What became of the missing rows of a table.
pub(super) struct SentOf {
    records: u64,
    filtered: u64,
    left_out: u64,
    left_out_ids: Vec<String>,
    outcome: &'static str,
    failure: Option<Value>,
}

/// Nothing is open.
pub(super) fn nothing(witness: &Witness, args: &RecoverArgs, out: Out<'_>) -> io::Result<()> {
    match args.decision.form {
        Form::Text => writeln!(
            out,
            "no gap is open: everything before {} is acknowledged; a router that still shows one \
             takes note of that within seconds",
            witness.position
        ),
        Form::Json => {
            let found = Found::new(Vec::new(), &Start::default(), args);
            writeln!(out, "{:#}", found.document())
        }
    }
}

/// Prints why nothing is changed.
pub(super) fn refusals(refusals: &[Failure], err: Out<'_>) -> io::Result<()> {
    refusals.iter().try_for_each(|failure| print_failure(err, failure))
}

impl Plan<'_> {
    pub(super) fn show(&self, args: &RecoverArgs, out: Out<'_>) -> io::Result<()> {
        for gap in self.gaps {
            writeln!(out, "open      {}", gap.name())?;
            writeln!(out, "what      {}", gap.failure.message)?;
        }
        let tables: Vec<String> = self.tables.iter().map(ToString::to_string).collect();
        writeln!(out, "tables    {}", tables.join(", "))?;
        writeln!(out, "since     {} ({})", self.from.rows, self.from.why)?;
        match self.topics {
            None => writeln!(out, "topics    are not read: all rows since then are sent")?,
            Some(topics) => {
                let (count, offsets) = (topics.count(), topics.offsets());
                let records = counted(offsets, "record");
                writeln!(out, "topics    {count}, with at most {records} to compare")?;
            }
        }
        writeln!(out, "slot      {}", self.slot)?;
        if self.from.sight == Sight::Own {
            writeln!(
                out,
                "note      this role does not see how old the transactions of others are \
                 (pg_read_all_stats): --margin has to be longer than the longest"
            )?;
        }
        if let Some(rate) = args.rate {
            writeln!(out, "rate      at most {rate} records a second")?;
        }
        Ok(())
    }
}

/// What a run will do.
pub(super) fn show_consequence(slot: &str, former: &Former, out: Out<'_>) -> io::Result<()> {
    let first = match former {
        Former::Missing => format!("The slot {slot} is made anew."),
        Former::Lost => format!("The slot {slot}, which is lost, is dropped and made anew."),
        Former::Usable { .. } => format!(
            "The slot {slot} is dropped and made anew; what it still had to send is found in the tables."
        ),
    };
    writeln!(
        out,
        "\n{first}\nRows that are in no topic are sent, behind everything that is there, and the open gaps\n\
         are closed. What was deleted from the tables is not found."
    )
}

impl Found {
    pub(super) fn new(gaps: Vec<String>, from: &Start, args: &RecoverArgs) -> Self {
        Self {
            gaps,
            since: from.rows.clone(),
            begin: from.begin.clone(),
            refusals: Vec::new(),
            selected: args.selected,
            effect: args.decision.how.effect,
            topics: 0,
            read: Read::default(),
            tables: Vec::new(),
            slot_at: None,
            is_closed: false,
            took: Duration::ZERO,
        }
    }

    /// Notes why a real run would change nothing.
    pub(super) fn refused(&mut self, refusals: &[Failure]) {
        self.refusals = refusals.iter().map(failure_json).collect();
    }

    /// As it stands in `outbox_router.republication`.
    pub(super) fn outcome(&self, how: &str) -> String {
        let missing: u64 = self.tables.iter().map(|table| table.missing).sum();
        let sent: u64 = self.tables.iter().map(OfTable::records).sum();
        let left_out = self.tables.iter().filter_map(|table| table.sent.as_ref());
        let left_out: Vec<&str> =
            left_out.flat_map(|sent| &sent.left_out_ids).map(String::as_str).collect();
        let left_out = match left_out.as_slice() {
            [] => String::new(),
            ids => format!(", left out {}", ids.join(", ")),
        };
        format!("{how}: missing {missing}, sent {sent}{left_out}")
    }

    fn text(&self, out: Out<'_>) -> io::Result<()> {
        if self.selected == RecoveredRows::Missing {
            let Read { records, without_id, .. } = self.read;
            let (verb, records) = (were(records), counted(records, "record"));
            let topics = counted(self.topics.try_into().unwrap_or(u64::MAX), "topic");
            writeln!(out, "topics: {records} of {topics} {verb} read")?;
            if without_id > 0 {
                writeln!(out, "  without an id, so compared with nothing: {without_id}")?;
            }
        }
        for table in &self.tables {
            table.text(self, out)?;
        }
        let took = roughly(self.took);
        match (self.effect, self.is_closed) {
            (Effect::Dry, _) => writeln!(out, "nothing was changed ({took})"),
            (Effect::Real, true) => {
                let slot_at = self.slot_at.as_deref().unwrap_or_default();
                writeln!(
                    out,
                    "closed: {}, after {took}; a router that runs goes on from {slot_at} within ten \
                     seconds, without a restart; else: outbox-router run",
                    self.gaps.join(", ")
                )
            }
            (Effect::Real, false) => Ok(()),
        }
    }

    fn document(&self) -> Value {
        let tables: Vec<Value> = self.tables.iter().map(OfTable::document).collect();
        json!({
            "action": "recover",
            "dry_run": self.effect == Effect::Dry,
            "gaps": self.gaps,
            "since": self.since,
            "compared": self.selected == RecoveredRows::Missing,
            "topics": self.topics,
            "records": self.read.records,
            "records_without_id": self.read.without_id,
            "tables": tables,
            "slot_at": self.slot_at,
            "closed": self.is_closed,
            "seconds": self.took.as_secs_f64(),
            "refusals": self.refusals,
        })
    }
}

impl OfTable {
    /// How many rows are to be sent.
    pub(super) fn to_send(&self) -> u64 {
        self.missing.saturating_sub(self.decided)
    }

    /// How many records were sent.
    pub(super) fn records(&self) -> u64 {
        self.sent.as_ref().map_or(0, |sent| sent.records)
    }

    /// Notes what became of the rows.
    pub(super) fn note(&mut self, sent: Sent) -> Ended {
        let (outcome, failure) = match &sent.ended {
            Ended::Complete => ("complete", None),
            Ended::Interrupted => ("interrupted", None),
            Ended::AtRow(failure) => ("stopped_at_row", Some(failure)),
            Ended::Failed(failure) => ("failed", Some(failure)),
        };
        self.sent = Some(SentOf {
            records: sent.counts.sent.saturating_sub(sent.counts.in_flight),
            filtered: sent.counts.filtered,
            left_out: sent.counts.left_out,
            left_out_ids: sent.left_out,
            outcome,
            failure: failure.map(|failure| failure_json(failure)),
        });
        sent.ended
    }

    fn text(&self, found: &Found, out: Out<'_>) -> io::Result<()> {
        let Self { table, missing, decided, .. } = self;
        let of = counted(self.rows, "row");
        let of = match self.scope {
            Scope::Since => format!("{of} since {}", found.since),
            Scope::Whole => format!("all {of}"),
        };
        match (found.selected, &self.sent) {
            (RecoveredRows::Missing, None) => {
                writeln!(out, "{table}: missing {missing} of {of}")?;
            }
            (RecoveredRows::Missing, Some(_)) => {
                writeln!(out, "{table}: {missing} of {of} {} missing", were(*missing))?;
            }
            (RecoveredRows::All, _) => writeln!(out, "{table}: {of}")?,
        }
        if *decided > 0 {
            write!(out, "  held or skipped, and left out: {decided}")?;
            if let (RecoveredRows::Missing, None) = (found.selected, &self.sent) {
                write!(out, "; to send: {}", missing.saturating_sub(*decided))?;
            }
            writeln!(out)?;
        }
        if let Some(without_row @ 1..) = self.without_row {
            writeln!(out, "  ids of records that have no such row any more: {without_row}")?;
        }
        // Rows of before the gap may be missing, too, but their commits were acknowledged.
        if let Some(oldest) = self.oldest.as_ref().filter(|oldest| **oldest > found.begin) {
            writeln!(
                out,
                "  note: the oldest row of {table} was made at {oldest}, after the gap began: rows \
                 that were deleted before they were sent are not found"
            )?;
        }
        let Some(SentOf { records, filtered, left_out, .. }) = &self.sent else { return Ok(()) };
        writeln!(out, "  sent {}", counted(*records, "record"))?;
        if *filtered > 0 {
            writeln!(out, "  filtered by `where`: {filtered}")?;
        }
        if *left_out > 0 {
            writeln!(out, "  left out, since they cannot become a record: {left_out}")?;
        }
        Ok(())
    }

    fn document(&self) -> Value {
        let sent = self.sent.as_ref();
        json!({
            "table": self.table.to_string(),
            "rows": self.rows,
            "missing": self.missing,
            "decided": self.decided,
            "without_row": self.without_row,
            "oldest": self.oldest,
            "outcome": sent.map(|sent| sent.outcome),
            "failure": sent.and_then(|sent| sent.failure.clone()),
            "sent": self.records(),
            "filtered": sent.map_or(0, |sent| sent.filtered),
            "left_out": sent.map_or(0, |sent| sent.left_out),
            "left_out_ids": sent.map_or(&[][..], |sent| &sent.left_out_ids),
        })
    }
}

/// A number with its noun.
fn counted(number: u64, noun: &str) -> String {
    count(i64::try_from(number).unwrap_or(i64::MAX), noun)
}

/// The verb for so many.
const fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

fn failure_json(failure: &Failure) -> Value {
    json!({
        "code": failure.code.as_str(),
        "message": failure.message_with_causes(),
        "hint": hint(failure),
    })
}

/// Prints what was found, and done.
pub(super) fn found(found: &Found, form: Form, out: Out<'_>) -> io::Result<()> {
    match form {
        Form::Text => found.text(out),
        Form::Json => writeln!(out, "{:#}", found.document()),
    }
}

/// Prints why it did not come to its end.
pub(super) fn ended(ended: &Ended, err: Out<'_>) -> io::Result<()> {
    match ended {
        Ended::Complete => Ok(()),
        Ended::Interrupted => interrupted("stopped by Ctrl-C", err),
        Ended::AtRow(failure) => {
            print_failure(err, failure)?;
            writeln!(err, "  or leave such rows out: --skip-bad")?;
            interrupted("stopped at a row", err)
        }
        Ended::Failed(failure) => {
            print_failure(err, failure)?;
            interrupted("stopped", err)
        }
    }
}

/// Prints what follows from an end before the gaps were closed.
pub(super) fn interrupted(how: &str, err: Out<'_>) -> io::Result<()> {
    writeln!(
        err,
        "{how}: the gaps stay open, and PostgreSQL keeps WAL for the new slot; the same command \
         goes on, and finds in the topics what was sent"
    )
}
