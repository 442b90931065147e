//! What is shown before and after.

use std::{io, time::Duration};

use relay::{
    Case, Code, Failure, TableName, TopicName,
    delivered::compared::{Compared, Figures, MadeSince, Rows, Settled},
    delivered::detached::GonePartition,
    source::Gap,
};
use serde_json::{Value, json};

use super::{
    args::{FilteredChoice, RecoverArgs, RecoveredRows},
    own_topics::Others,
    recovery::Recovery,
    since::{Sight, Start},
    slot::Former,
    topics::{Read, Topics},
    uncompared::Dropped,
};
use crate::{
    cli::{
        Form,
        decision_args::Effect,
        print_failure::{failure_json, print_failure},
        republication::Sent,
    },
    kafka::StoredOffsets,
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
    /// Whether a table has a `where`.
    pub(super) has_filter: bool,
}

/// What was found, and done.
pub(super) struct Found {
    gaps: Vec<String>,
    /// The time since when rows are compared that say that they were made since then.
    since: Option<String>,
    /// The first transaction that may have committed in a gap.
    first: Option<u64>,
    /// When the gaps begin, without the margin.
    begin: Option<String>,
    selected: RecoveredRows,
    given_up: Vec<String>,
    effect: Effect,
    /// Why a real run would change nothing.
    refusals: Vec<Value>,
    pub(super) topics: usize,
    pub(super) read: Read,
    pub(super) tables: Vec<OfTable>,
    /// Where the records are on which the closing of the gaps relies.
    pub(super) stored: StoredOffsets,
    /// Where the new slot begins.
    pub(super) slot_at: Option<String>,
    pub(super) is_closed: bool,
    pub(super) took: Duration,
}

/// What was found of a table.
pub(super) struct OfTable {
    pub(super) compared: Compared,
    /// `None` where nothing is compared.
    pub(super) of_records: Option<OfRecords>,
    /// Rows with the id of an event that is held, or was dropped or skipped, and that are sent.
    pub(super) decided_sent: u64,
    /// When the oldest row was made.
    pub(super) oldest: Option<String>,
    pub(super) sent: Option<SentOf>,
}

/// What was found of the records of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OfRecords {
    /// Rows whose id is in a topic, and not their record.
    pub(super) others: Others,
    /// Ids of records that have no such row.
    pub(super) without_row: u64,
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
pub(super) fn nothing(acknowledged: &str, args: &RecoverArgs, out: Out<'_>) -> io::Result<()> {
    match args.decision.form {
        Form::Text => writeln!(
            out,
            "no gap is open: {acknowledged}; a router that still shows one takes note of that \
             within seconds"
        ),
        Form::Json => {
            let found = Found::new(Vec::new(), None, args);
            writeln!(out, "{:#}", found.document())
        }
    }
}

/// Names tables of which nothing is left.
pub(super) fn dropped(dropped: &Dropped, err: Out<'_>) -> io::Result<()> {
    let outboxes = dropped.outboxes.iter().map(|table| format!("the outbox {table}"));
    let partitions = dropped
        .partitions
        .iter()
        .map(|GonePartition { oid, root }| format!("a partition of {root} (OID {})", oid.as_u32()));
    outboxes.chain(partitions).try_for_each(|what| {
        writeln!(err, "note: {what} was dropped since the gap began; its rows cannot be compared")
    })
}

/// Names topics whose first records are gone, though they keep records of that age.
pub(super) fn begun_later(topics: &[TopicName], err: Out<'_>) -> io::Result<()> {
    topics.iter().try_for_each(|topic| {
        writeln!(
            err,
            "note: the first records of {topic} are gone: if a person has deleted them, or its \
             retention.ms was shorter for a while, rows that were sent count as missing, and come \
             twice"
        )
    })
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
        for table in &args.given_up {
            writeln!(out, "given up  {table}: its rows are not compared")?;
        }
        writeln!(out, "since     {}", self.from.why)?;
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
        let filtered = match args.filtered {
            Some(FilteredChoice::Send) => Some("are sent, as they are now"),
            Some(FilteredChoice::GiveUp) => Some("are given up"),
            None if self.has_filter => Some("keep the gaps open (--filtered send, or give-up)"),
            None => None,
        };
        if let Some(filtered) = filtered {
            writeln!(out, "filtered  rows in no topic that `where` leaves out {filtered}")?;
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
    pub(super) fn new(gaps: Vec<String>, from: Option<&Start>, args: &RecoverArgs) -> Self {
        let made = from.and_then(|from| from.made.as_ref());
        Self {
            gaps,
            since: made.map(|MadeSince(since)| since.clone()),
            first: from.and_then(|from| Some(from.first?.xid().as_u64())),
            begin: from.and_then(|from| Some(from.begin.as_ref()?.at.clone())),
            refusals: Vec::new(),
            selected: args.selected,
            given_up: args.given_up.iter().map(ToString::to_string).collect(),
            effect: args.decision.how.effect,
            topics: 0,
            read: Read::default(),
            tables: Vec::new(),
            stored: StoredOffsets::default(),
            slot_at: None,
            is_closed: false,
            took: Duration::ZERO,
        }
    }

    /// Notes why a real run would change nothing.
    pub(super) fn refused(&mut self, refusals: &[Failure]) {
        self.refusals = refusals.iter().map(failure_json).collect();
    }

    /// Why rows that `where` leaves out keep the gaps open; `None` without such rows.
    pub(super) fn filtered(&self) -> Option<Failure> {
        let of_table = |table: &OfTable| {
            let filtered =
                table.sent.as_ref().map(|sent| sent.filtered).filter(|rows| *rows > 0)?;
            Some(format!("{} of {}", counted(filtered, "row"), table.compared.table()))
        };
        let rows: Vec<String> = self.tables.iter().filter_map(of_table).collect();
        (!rows.is_empty()).then(|| {
            let what = format!(
                "nothing was closed: {} in no topic, left out by `where` as they are now",
                rows.join(", ")
            );
            Failure::of(Case::RecoverFiltered, what)
        })
    }

    /// As it stands in `outbox_router.republication`.
    pub(super) fn outcome(&self, how: &str) -> String {
        let missing: u64 = self.tables.iter().map(|table| table.compared.figures().missing).sum();
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
            let Read { records, without_id, replayed, .. } = self.read;
            let (verb, records) = (were(records), counted(records, "record"));
            let topics = counted(self.topics.try_into().unwrap_or(u64::MAX), "topic");
            writeln!(out, "topics: {records} of {topics} {verb} read")?;
            if without_id > 0 {
                writeln!(out, "  without an id, so compared with nothing: {without_id}")?;
            }
            if replayed > 0 {
                writeln!(out, "  sent by replay, so compared with nothing: {replayed}")?;
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
            "first_transaction": self.first,
            "compared": self.selected == RecoveredRows::Missing,
            "topics": self.topics,
            "records": self.read.records,
            "records_without_id": self.read.without_id,
            "given_up": self.given_up,
            "tables": tables,
            "slot_at": self.slot_at,
            "closed": self.is_closed,
            "seconds": self.took.as_secs_f64(),
            "refusals": self.refusals,
        })
    }
}

impl OfTable {
    /// The comparison, and what became of the rows that were missing.
    pub(super) fn settled(&self) -> (&Compared, Settled) {
        let settled = self.sent.as_ref().map(|sent| Settled {
            sent: sent.records,
            filtered: sent.filtered,
            left_out: sent.left_out,
        });
        (&self.compared, settled.unwrap_or_default())
    }

    /// How many rows are to be sent.
    pub(super) fn to_send(&self) -> u64 {
        self.compared.to_send()
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
        let table = self.compared.table();
        let (Figures { missing, decided, .. }, of) =
            (&self.compared.figures(), self.rows_of_scope());
        match (found.selected, &self.sent) {
            (RecoveredRows::Missing, None) => {
                writeln!(out, "{table}: missing {missing} of {of}")?;
            }
            (RecoveredRows::Missing, Some(_)) => {
                writeln!(out, "{table}: {missing} of {of} {} missing", were(*missing))?;
            }
            (RecoveredRows::All, _) => writeln!(out, "{table}: {of}")?,
        }
        if *missing == 0 {
            writeln!(out, "  why none: {}", self.why_none())?;
        }
        if let (Some(_), Rows::All) = (found.first, self.compared.scope().rows()) {
            writeln!(
                out,
                "  note: without a column of a time, all rows count: a server that was restored \
                 from a backup gives transaction ids again"
            )?;
        }
        self.others_text(out)?;
        if *decided > 0 {
            write!(out, "  held or skipped, and left out: {decided}")?;
            if let (RecoveredRows::Missing, None) = (found.selected, &self.sent) {
                write!(out, "; to send: {}", missing.saturating_sub(*decided))?;
            }
            writeln!(out)?;
        }
        if self.decided_sent > 0 {
            writeln!(
                out,
                "  held or skipped by their ids, and to send all the same: {}; nothing says that no \
                 other row had the id (--ids-unique does, and leaves them out)",
                self.decided_sent
            )?;
        }
        if let Some(OfRecords { without_row: without_row @ 1.., .. }) = self.of_records {
            writeln!(out, "  ids of records that have no such row any more: {without_row}")?;
        }
        // Rows of before the gap may be missing, too, but their commits were acknowledged.
        let is_after = |oldest: &&String| found.begin.as_ref().is_some_and(|begin| *oldest > begin);
        if let Some(oldest) = self.oldest.as_ref().filter(is_after) {
            writeln!(
                out,
                "  note: the oldest row of {table} was made at {oldest}, after the gap began: rows \
                 that were deleted before they were sent are not found"
            )?;
        }
        let Some(SentOf { records, filtered, left_out, .. }) = &self.sent else { return Ok(()) };
        writeln!(out, "  sent {}", counted(*records, "record"))?;
        if *filtered > 0 {
            writeln!(out, "  filtered by `where`, as they are now: {filtered}")?;
        }
        if *left_out > 0 {
            writeln!(
                out,
                "  left out, since they cannot become a record: {left_out}; [retention] keeps them \
                 until a person deletes their lines in outbox_router.left_out (docs/recover.md)"
            )?;
        }
        Ok(())
    }

    fn others_text(&self, out: Out<'_>) -> io::Result<()> {
        if self.compared.leaves_unproved() {
            writeln!(
                out,
                "  rows that are older by their times, and not compared: {}; nothing shows \
                 that this server, or database, is the one whose slot the router read, and no copy \
                 of it that was written to meanwhile (then --since says when that began); \
                 [retention] keeps them until outbox-router cleanup --older",
                self.compared.figures().outside
            )?;
        }
        let Others { elsewhere, differing } = self.of_records.unwrap_or_default().others;
        if elsewhere > 0 {
            writeln!(out, "  in other topics than their own, so missing: {elsewhere}")?;
        }
        if differing > 0 {
            writeln!(
                out,
                "  with another record under their id: {differing}; they were updated since \
                 (--ids-unique)"
            )?;
        }
        Ok(())
    }

    /// How many rows are compared, and which.
    fn rows_of_scope(&self) -> String {
        let rows = counted(self.compared.figures().rows, "row");
        match self.compared.scope().rows() {
            Rows::Named { since } => format!("{rows} since {since}"),
            Rows::Transactions { first, or_since } => {
                let since = or_since.as_ref().map(|since| format!(", or made since {since}"));
                let (xid, since) = (first.xid().as_u64(), since.unwrap_or_default());
                format!("{rows} of transaction {xid} or later{since}")
            }
            Rows::All => format!("all {rows}"),
        }
    }

    /// Why no row is missing.
    fn why_none(&self) -> String {
        let Figures { rows, outside, .. } = self.compared.figures();
        let have = match rows {
            0 => "the table has no such row; what was deleted from it is not found".to_owned(),
            _ => "the topic of each has its record".to_owned(),
        };
        match self.compared.scope().rows() {
            Rows::Transactions { first, .. } => {
                let (xid, ended_by) = (first.xid().as_u64(), first.ended_by());
                format!(
                    "{have}; every transaction before {xid} had ended by {ended_by}, before the gap"
                )
            }
            Rows::All => have,
            Rows::Named { .. } => format!(
                "{have}; {} {}, to be older",
                counted(outside, "other row"),
                match outside {
                    1 => "is known by its time alone, which its writer set",
                    _ => "are known by their times alone, which their writers set",
                }
            ),
        }
    }

    fn document(&self) -> Value {
        let figures = self.compared.figures();
        let sent = self.sent.as_ref();
        json!({
            "table": self.compared.table().to_string(),
            "rows": figures.rows,
            "outside": figures.outside,
            "missing": figures.missing,
            "why_none": (figures.missing == 0).then(|| self.why_none()),
            "decided": figures.decided,
            "decided_sent": self.decided_sent,
            "elsewhere": self.of_records.map(|of| of.others.elsewhere),
            "differing": self.of_records.map(|of| of.others.differing),
            "without_row": self.of_records.map(|of| of.without_row),
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

/// Prints what was found, and done.
pub(super) fn found(found: &Found, form: Form, out: Out<'_>) -> io::Result<()> {
    match form {
        Form::Text => found.text(out),
        Form::Json => writeln!(out, "{:#}", found.document()),
    }
}

const LEAVE_OUT: &str = "or leave such rows out: --skip-bad; they stay in the table, whatever \
    [retention] says, and outbox_router.left_out names them";

const WITHOUT_ID: &str = "a row without an id cannot be left out: give it one in its table, or \
    delete it, and type the same command";

/// Prints why it did not come to its end.
pub(super) fn ended(ended: &Ended, recovery: &Recovery<'_>, err: Out<'_>) -> io::Result<()> {
    let typed = |failure: &Failure| recovery.args.with_typed(failure.clone());
    match ended {
        Ended::Complete => Ok(()),
        Ended::Interrupted => interrupted("stopped by Ctrl-C", err),
        Ended::AtRow(failure) => {
            print_failure(err, &typed(failure))?;
            let without_it = if failure.code == Code::IdIsNull { WITHOUT_ID } else { LEAVE_OUT };
            writeln!(err, "  {without_it}")?;
            interrupted("stopped at a row", err)
        }
        Ended::Failed(failure) => {
            print_failure(err, &typed(failure))?;
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
