//! The command `switch polling`, one step at a time: `cli/switch/{polling,delivered,commits}.rs`.

use std::collections::{BTreeMap, BTreeSet};

use relay::{
    Lsn,
    delivered::{HasEvents, RowAt, RowVersion, SentAgain, SentVersion, StreamEnd, Unproved},
    handover::switch::{StreamedBefore, ToPolling as Todo},
    polling::RowId,
    source::preflight,
};

use super::{
    database::{Database, Fit, HeldState, Row, Switched},
    site::Site,
    slot::Holder,
    step::{Done, Step},
    stream::last_transaction,
};
use crate::random::Random;

/// How often rows are read that were changed since they were read.
const ROUNDS: u32 = 3;

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Look,
    Hold,
    Begin,
    Wait(BTreeSet<u64>),
    Read,
    Mark,
    DropSlot,
    DeleteWitness,
}

/// A run of it.
#[derive(Debug)]
pub struct ToPolling {
    number: u32,
    stage: Stage,
    end: Option<StreamEnd>,
    delivered: Vec<(Row, SentVersion)>,
    changed_meanwhile: usize,
    round: u32,
}

impl ToPolling {
    /// A run that begins.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            stage: Stage::Look,
            end: None,
            delivered: Vec::new(),
            changed_meanwhile: 0,
            round: 0,
        }
    }

    /// The next step.
    pub fn step(&mut self, site: &mut Site, random: &mut Random) -> Step {
        match self.stage.clone() {
            Stage::Look => self.look(site),
            Stage::Hold => self.hold(site),
            Stage::Begin => self.begin(site),
            Stage::Wait(tops) => self.wait(site, &tops),
            Stage::Read => self.read(site),
            Stage::Mark => self.mark(site, random),
            Stage::DropSlot => self.drop_slot(site),
            Stage::DeleteWitness => {
                site.pipeline.witness = None;
                site.database.noted.clear();
                site.database.switched = Switched::Polled;
                Step::Done(Done::Polled)
            }
        }
    }

    fn goes_to(&mut self, stage: Stage) -> Step {
        self.stage = stage;
        Step::Goes
    }

    fn look(&mut self, site: &mut Site) -> Step {
        if site.database.lock.is_some() {
            return Step::Ends("switch: refused by a lock");
        }
        site.database.lock = Some(self.number);
        match site.database.switched {
            Switched::Polled => return Step::Ends("switch: polled already"),
            Switched::Marked => return self.goes_to(Stage::DropSlot),
            Switched::Streamed => {}
            Switched::Closing | Switched::Sent => {
                match site.found().to_polling(StreamedBefore::Unsaid) {
                    Ok(Some(Todo::Mark)) => {}
                    Ok(Some(Todo::Cancel | Todo::CleanUp)) => return self.goes_to(Stage::DropSlot),
                    Ok(None) | Err(_) => return Step::Ends("switch: without a slot"),
                }
            }
        }
        if site.database.held.iter().any(|held| held.state == HeldState::Open) {
            return Step::Ends("switch: held events");
        }
        if stream_end(site, None).is_none() {
            return Step::Ends("switch: not as left");
        }
        self.goes_to(Stage::Hold)
    }

    fn hold(&mut self, site: &mut Site) -> Step {
        if site.database.hold_slot(self.number, None).is_err() {
            return Step::Ends("switch: slot in use");
        }
        self.goes_to(Stage::Begin)
    }

    fn begin(&mut self, site: &mut Site) -> Step {
        let own = Some(Holder::Command(self.number));
        self.end = stream_end(site, own);
        if self.end.is_none() {
            return Step::Ends("switch: not as left");
        }
        // What the stream has delivered of them would not be seen, and stay pending.
        let tops = site.database.running.iter().filter_map(|running| running.ids.first());
        let tops = tops.copied().collect();
        self.goes_to(Stage::Wait(tops))
    }

    fn wait(&mut self, site: &mut Site, tops: &BTreeSet<u64>) -> Step {
        let mut running = site.database.running.iter().filter_map(|running| running.ids.first());
        if running.any(|top| tops.contains(top)) {
            return Step::Goes;
        }
        self.goes_to(Stage::Read)
    }

    /// The snapshot, the end of WAL, publication and tables, and the rows that the slot has still.
    fn read(&mut self, site: &mut Site) -> Step {
        // A role from which rows are hidden would not see what it does not mark.
        if site.database.hides {
            return Step::Ends("switch: rows hidden");
        }
        let Some(end) = &self.end else { return Step::Ends("switch: not as left") };
        let read_until = Lsn::from_u64(site.database.wal);
        let catalog = site.read(None).catalog;
        let again = sent_again(site, end);
        let streamed = match again.and_then(|again| end.streamed(read_until, &catalog, again)) {
            Ok(streamed) => streamed,
            Err(Unproved::Altered(_)) => return Step::Ends("switch: altered meanwhile"),
            Err(Unproved::Unread) => return Step::Ends("switch: no position"),
            Err(Unproved::OtherHistory(_)) => return Step::Ends("switch: another history"),
        };
        // Rows from before the stream are given up by the person who set it up.
        let streamed = streamed.rows_of(Vec::new()).with_older_given_up();
        let undelivered = undelivered(&site.database, end.delivered_until(), read_until);
        let tables = 0..site.setup.shapes.len();
        let rows: Vec<&Row> = tables.flat_map(|table| site.database.rows_of(table)).collect();
        // Events of the slot that no worker would take: they were filtered or removed since, or
        // their partition was detached.
        let is_taken = |number: u64| {
            rows.iter().any(|row| row.row == number && !row.is_marked && row.fit != Fit::Filtered)
        };
        if undelivered
            .iter()
            .any(|(&number, row)| row.inserted != Fit::Filtered && !is_taken(number))
        {
            return Step::Ends("switch: events gone");
        }
        let left_out = &site.database.left_out;
        let is_delivered = |row: &&Row| {
            !row.is_marked
                && !undelivered.contains_key(&row.row)
                && !left_out.iter().any(|out| (out.table, out.id) == (row.table, row.id))
        };
        let sent = |row: &Row| (*row, streamed.row(at(row)));
        self.delivered = rows.into_iter().filter(is_delivered).map(sent).collect();
        self.changed_meanwhile = 0;
        self.goes_to(Stage::Mark)
    }

    /// Marks a batch.
    fn mark(&mut self, site: &mut Site, random: &mut Random) -> Step {
        if self.delivered.is_empty() {
            self.round += 1;
            return match (self.changed_meanwhile, self.round) {
                (0, _) => {
                    site.database.switched = Switched::Marked;
                    self.stage = Stage::DropSlot;
                    Step::Did("marked")
                }
                (_, ROUNDS) => Step::Ends("switch: rows changed again and again"),
                (_, _) => {
                    self.stage = Stage::Read;
                    Step::Did("switch: rows changed meanwhile")
                }
            };
        }
        let batch = 1 + random.index(self.delivered.len());
        let mut marked = Vec::new();
        for (row, sent) in self.delivered.drain(..batch) {
            let mut rows = site.database.rows.iter_mut();
            let now = rows.find(|now| now.row == row.row && sent.row().is_still(at(now).version));
            match now {
                Some(now) => {
                    now.is_marked = true;
                    marked.push(row);
                }
                None => self.changed_meanwhile += 1,
            }
        }
        Step::Done(Done::Marked(marked))
    }

    fn drop_slot(&mut self, site: &mut Site) -> Step {
        let own = Some(Holder::Command(self.number));
        if site.database.slot.is_some_and(|slot| slot.holder.is_some() && slot.holder != own) {
            return Step::Ends("switch: slot in use");
        }
        site.database.slot = None;
        self.goes_to(Stage::DeleteWitness)
    }
}

fn at(row: &Row) -> RowAt {
    let id = RowId([row.row.to_string().into()].into());
    RowAt { id, version: RowVersion::of_xmin(row.xmin.of_row().as_u32()) }
}

/// Where the stream has ended; `None`: rows of a gap are not delivered.
fn stream_end(site: &Site, holder: Option<Holder>) -> Option<StreamEnd> {
    let facts = site.facts(holder)?;
    if !facts.witness.open_findings().is_empty() {
        return None;
    }
    let reading = &facts.reading;
    let (server, catalog) = (reading.server.clone(), reading.catalog.clone());
    let expected = site.setup.expected(Some(&facts.witness));
    preflight(expected, server, &reading.slot, catalog).ok()?;
    let confirmed = site.database.slot.map_or(Lsn::ZERO, |slot| Lsn::from_u64(slot.confirmed));
    let of = (&reading.server, &reading.timelines);
    StreamEnd::of(Some(facts.witness), confirmed, of, reading.catalog.clone()).ok()
}

/// What the slot sends of what the witness covers.
fn sent_again(site: &Site, end: &StreamEnd) -> Result<SentAgain, Unproved> {
    let mut again = end.sent_again();
    let slot_at = site.database.slot.map_or(0, |slot| slot.confirmed);
    let sent = site.database.log.iter().filter(|commit| commit.at >= slot_at);
    for commit in sent {
        again.committed(last_transaction(commit), HasEvents::Yes)?;
    }
    Ok(again)
}

/// Rows that are committed from the first position on, and before the second.
fn undelivered(database: &Database, from: Lsn, until: Lsn) -> BTreeMap<u64, Row> {
    let between = from.as_u64()..until.as_u64();
    let commits = database.log.iter().filter(|commit| between.contains(&commit.at));
    commits.flat_map(|commit| &commit.sent).map(|row| (row.row, *row)).collect()
}
