//! The command `setup --backfill`, one step at a time: `cli/setup/{mod,first,backfill}.rs`.

use std::collections::VecDeque;

use relay::{
    Lsn,
    delivered::{FullXid, compared::altered},
    handover::{
        Completeness, PastRun, Position,
        backfill::{Before, Beginning, Reached, Todo},
    },
    source::{Catalog, preflight},
    witness::{ProducedTo, Witness},
};

use super::{
    database::{Database, Fit, Row, Switched, TABLES},
    site::{SLOT, Site, with_partitions_of},
    slot::{Holder, NotHeld},
    step::{Done, Step},
};
use crate::random::Random;

/// Which rows are sent: all of both tables.
const SELECTION: &str = "{}";

/// Ids of rows that are further apart have no order.
const HALF: u64 = 1 << 31;

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Publish,
    Begin,
    Drop,
    Create,
    Hold,
    Note,
    Read(usize),
    Send(usize),
    Complete,
    MakeTopic,
    Witness,
    Reopen,
    End,
}

/// Rows that are sent in one go.
#[derive(Debug)]
struct Part {
    rows: VecDeque<Row>,
    /// Whether the run's place moves with them.
    is_noted: bool,
}

/// A run of it.
#[derive(Debug)]
pub struct Backfill {
    number: u32,
    skips_bad: bool,
    stage: Stage,
    /// Publication and tables before the slot was made.
    before: Option<Catalog>,
    snapshot: Option<Box<Database>>,
    reached: Option<Reached>,
    parts: VecDeque<Part>,
    not_noted: Vec<u64>,
}

impl Backfill {
    /// A run that begins, or goes on.
    pub fn new(number: u32, random: &mut Random) -> Self {
        Self {
            number,
            skips_bad: !random.one_in(4),
            stage: Stage::Publish,
            before: None,
            snapshot: None,
            reached: None,
            parts: VecDeque::new(),
            not_noted: Vec::new(),
        }
    }

    /// Whether its slot is made, and not held yet.
    pub fn is_to_hold(&self) -> bool {
        self.stage == Stage::Hold
    }

    /// Whether all rows are sent, and no witness says so.
    pub const fn is_to_witness(&self) -> bool {
        matches!(self.stage, Stage::MakeTopic | Stage::Witness)
    }

    /// Rows that were sent, and that its journal does not have yet.
    pub fn not_noted(&self) -> &[u64] {
        &self.not_noted
    }

    /// The next step.
    pub fn step(&mut self, site: &mut Site, random: &mut Random) -> Step {
        match self.stage {
            Stage::Publish => self.publish(site),
            Stage::Begin => self.begin(site),
            Stage::Drop => self.drop_slot(site),
            Stage::Create => self.create(site),
            Stage::Hold => self.hold(site),
            Stage::Note => self.note_slot(site),
            Stage::Read(table) => self.read(site, table),
            Stage::Send(table) => self.send(site, random, table),
            Stage::Complete => self.complete(site),
            // Kafka is asked before the source is read for the witness.
            Stage::MakeTopic => self.goes_to(Stage::Witness),
            Stage::Witness => self.write_witness(site),
            Stage::Reopen => Self::reopen(site),
            Stage::End => Step::Ends("back-fill: complete"),
        }
    }

    fn goes_to(&mut self, stage: Stage) -> Step {
        self.stage = stage;
        Step::Goes
    }

    fn publish(&mut self, site: &mut Site) -> Step {
        if site.database.switched != Switched::Streamed {
            return Step::Ends("back-fill: tables are polled");
        }
        if site.database.slot.is_some_and(|slot| slot.is_lost) {
            return Step::Ends("back-fill: slot lost");
        }
        (0..TABLES).for_each(|table| site.database.publish(table));
        self.goes_to(Stage::Begin)
    }

    fn begin(&mut self, site: &mut Site) -> Step {
        if site.database.lock.is_some() {
            return Step::Ends("back-fill: refused by a lock");
        }
        site.database.lock = Some(self.number);
        // A run that was killed still made the slot.
        site.database.creation = None;
        let Site { database, pipeline, .. } = site;
        let before = Before {
            slot: SLOT,
            system_id: None,
            position: database.slot.map(|slot| Some(Lsn::from_u64(slot.confirmed))),
            beginning: match pipeline.witness {
                Some(_) => Beginning::Witnessed,
                None => Beginning::Unwitnessed,
            },
            last: database.fill.as_ref(),
            selection: SELECTION,
        };
        match before.todo() {
            Err(_) => Step::Ends("back-fill: too late"),
            Ok(Todo::Nothing) => self.goes_to(Stage::MakeTopic),
            Ok(Todo::Begin) => {
                let id = database.fill.as_ref().map_or(1, |fill| fill.id + 1);
                database.fill = Some(run(id));
                self.goes_to(Stage::Drop)
            }
            Ok(Todo::Resume(reached)) => {
                self.reached = reached;
                if let Some(fill) = &mut database.fill {
                    fill.completeness = Completeness::Partial;
                }
                self.stage = Stage::Drop;
                Step::Did("back-fill: goes on")
            }
        }
    }

    fn drop_slot(&mut self, site: &mut Site) -> Step {
        self.before = Some(site.read(None).catalog);
        if site.database.slot.is_some_and(|slot| slot.holder.is_some()) {
            return Step::Ends("back-fill: slot in use");
        }
        site.database.slot = None;
        site.database.create_slot(self.number);
        self.goes_to(Stage::Create)
    }

    /// The reader's transaction begins with the snapshot of the slot.
    fn create(&mut self, site: &mut Site) -> Step {
        if let Some(made) = site.database.finished_slot(self.number) {
            self.before = self.before.take().map(|before| with_partitions_of(&made, before));
            self.snapshot = Some(made);
            self.stage = Stage::Hold;
        }
        Step::Goes
    }

    fn hold(&mut self, site: &mut Site) -> Step {
        match site.database.hold_slot(self.number, self.snapshot.as_deref()) {
            Ok(()) => {}
            Err(NotHeld::InUse) => return Step::Ends("back-fill: slot in use"),
            Err(NotHeld::Moved) => return Step::Ends("back-fill: slot moved"),
        }
        self.goes_to(Stage::Note)
    }

    fn note_slot(&mut self, site: &mut Site) -> Step {
        let Some(snapshot) = &self.snapshot else { return Step::Ends("back-fill") };
        let slot_at = Lsn::from_u64(snapshot.slot.map_or(0, |slot| slot.confirmed)).to_string();
        let reached = match self.reached.take() {
            Some(reached) => Reached { slot_at, ..reached },
            None => {
                site.pipeline.filled.begin(snapshot);
                let first_xmin = snapshot.snapshot_xmin();
                let topics = ProducedTo::new();
                let (system_id, read_as) = (String::new(), String::new());
                let (table, order) = (None, None);
                Reached { system_id, slot_at, first_xmin, read_as, table, order, topics }
            }
        };
        note(&mut site.database, &reached);
        self.reached = Some(reached);
        self.goes_to(Stage::Read(0))
    }

    fn read(&mut self, site: &mut Site, table: usize) -> Step {
        if table == TABLES {
            return self.goes_to(Stage::Complete);
        }
        // With row_security = off, a statement that would not see every row ends with an error.
        if site.database.hides {
            return Step::Ends("back-fill: rows hidden");
        }
        self.parts = self.parts(site, table).unwrap_or_default();
        self.goes_to(Stage::Send(table))
    }

    /// The rows of a table, in the parts in which they are sent: `rows::Sending::parts`. The
    /// snapshot shows the rows, and the present catalog the partitions.
    fn parts(&self, site: &Site, table: usize) -> Option<VecDeque<Part>> {
        let (reached, snapshot) = (self.reached.as_ref()?, self.snapshot.as_deref()?);
        let name = |table: usize| site.setup.names[table].to_string();
        let begun = (0..TABLES).find(|table| reached.table.as_ref() == Some(&name(*table)));
        let mut all = snapshot.rows.clone();
        all.retain(|row| row.table == table && site.database.reaches(row));
        all.sort_by_key(order);
        let since = |row: &Row| has_come_since(row, reached.first_xmin, snapshot, &site.database);
        let part = |rows: Vec<Row>, is_noted| Part { rows: rows.into(), is_noted };
        let parts = match begun {
            Some(begun) if table < begun => {
                all.retain(since);
                vec![part(all, false)]
            }
            Some(begun) if table == begun => {
                let place = reached.order.as_ref().and_then(place_of);
                let is_behind = |row: &Row| place.is_none_or(|place| order(row) > place);
                let (behind, mut late): (Vec<Row>, Vec<Row>) = all.into_iter().partition(is_behind);
                late.retain(since);
                vec![part(late, false), part(behind, true)]
            }
            Some(_) | None => vec![part(all, true)],
        };
        Some(parts.into())
    }

    /// Sends a row.
    fn send(&mut self, site: &mut Site, random: &mut Random, table: usize) -> Step {
        if !site.database.is_held_by(self.number) {
            return Step::Ends("back-fill: slot lost");
        }
        let Some(part) = self.parts.front_mut() else {
            return self.goes_to(Stage::Read(table + 1));
        };
        let is_noted = part.is_noted;
        let Some(row) = part.rows.front().copied() else {
            self.parts.pop_front();
            return Step::Goes;
        };
        let name = site.setup.names[table].to_string();
        if let Some(reached) = self.reached.as_mut()
            && is_noted
            && reached.table.as_ref() != Some(&name)
        {
            // From here on, some of its rows may be in Kafka.
            (reached.table, reached.order) = (Some(name), None);
            note(&mut site.database, reached);
        }
        match row.fit {
            Fit::Fine => site.pipeline.produce(&row),
            Fit::Bad if !self.skips_bad => return Step::Ends("back-fill: stopped at a row"),
            Fit::Bad => site.database.leave_out(row),
            // It was no event of a stream, and is none as it is now.
            Fit::Filtered => drop(site.pipeline.given_up.insert(row.row)),
        }
        part.rows.pop_front();
        let is_last = part.rows.is_empty();
        let snapshot = self.snapshot.as_deref();
        let next = site.database.next_xid;
        let may_come = snapshot.is_none_or(|of| site.pipeline.filled.send(&row, of, next));
        self.not_noted.push(row.row);
        if let Some(reached) = self.reached.as_mut()
            && is_noted
            && (is_last || random.one_in(3))
        {
            reached.order = Some(vec![Some(order(&row).to_string())]);
            note(&mut site.database, reached);
            self.not_noted.clear();
        }
        if may_come { Step::Did("back-fill: sent") } else { Step::Done(Done::Repeated(row)) }
    }

    fn complete(&mut self, site: &mut Site) -> Step {
        if self.is_altered(&site.read(None).catalog) {
            return Step::Ends("back-fill: altered while rows were divided");
        }
        if let Some(fill) = &mut site.database.fill {
            fill.completeness = Completeness::Complete;
        }
        self.not_noted.clear();
        self.goes_to(Stage::MakeTopic)
    }

    fn reopen(site: &mut Site) -> Step {
        if let Some(fill) = &mut site.database.fill {
            fill.completeness = Completeness::Partial;
        }
        Step::Ends("back-fill: altered after its last row")
    }

    fn is_altered(&self, now: &Catalog) -> bool {
        self.before.as_ref().is_some_and(|before| altered(before, now).is_some())
    }

    /// `first::record`.
    fn write_witness(&mut self, site: &mut Site) -> Step {
        if site.pipeline.witness.is_some() {
            return Step::Ends("back-fill: witnessed already");
        }
        let reading = site.read(Some(Holder::Command(self.number)));
        let expected = site.setup.expected(None);
        let baseline = preflight(expected, reading.server, &reading.slot, reading.catalog);
        let Ok(baseline) = baseline else { return Step::Ends("back-fill: no stream could start") };
        if self.is_altered(&baseline.catalog) {
            return self.goes_to(Stage::Reopen);
        }
        let begun = Witness::begin(&baseline, "k", &site.setup.outboxes)
            .with_older_rows_sent(&site.setup.names, &baseline.catalog);
        let notes = site.database.notes();
        site.pipeline.witness = Some(Witness { notes, ..begun });
        self.stage = Stage::End;
        let snapshot = self.snapshot.as_ref();
        let given_up = snapshot.map(|snapshot| snapshot.of_no_partition().collect());
        let given_up = given_up.unwrap_or_default();
        Step::Done(Done::Handed { given_up, how: "back-filled" })
    }
}

fn run(id: i64) -> PastRun {
    PastRun {
        id,
        by: "ann".to_owned(),
        begun_at: "2026-01-05".to_owned(),
        selection: SELECTION.to_owned(),
        settled: 0,
        place: None,
        completeness: Completeness::Partial,
    }
}

fn note(database: &mut Database, reached: &Reached) {
    if let Some(fill) = &mut database.fill {
        fill.place = Some(reached.place());
    }
}

/// The place of a row in the order of its table, which is not that in which rows are written.
fn order(row: &Row) -> u64 {
    row.row.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn place_of(position: &Position) -> Option<u64> {
    position.first()?.as_deref()?.parse().ok()
}

/// `rows::come_since`: ids of rows have 32 bits, so their age is compared, while they have an
/// order.
fn has_come_since(row: &Row, first: u64, snapshot: &Database, now: &Database) -> bool {
    let low = |xid: u64| FullXid::from_u64(xid).of_row().as_u32();
    let age = |xid: u32| i32::from_ne_bytes(low(now.next_xid).wrapping_sub(xid).to_ne_bytes());
    let is_since = |xid: u32| (0..=age(low(first))).contains(&age(xid));
    if now.next_xid - first >= HALF {
        return true;
    }
    // The snapshot need not show that a partition of the present is attached.
    let is_old = |part: u32| snapshot.parts.get(&part).is_some_and(|xid| !is_since(*xid));
    is_since(row.xmin.of_row().as_u32()) || row.part.is_some_and(|part| !is_old(part))
}
