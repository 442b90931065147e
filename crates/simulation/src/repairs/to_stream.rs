//! The command `switch stream`, one step at a time: `cli/switch/{stream,drain,abandoned}.rs`.

use relay::{
    HoldKeys, TableName,
    delivered::compared::altered,
    handover::switch::{Found, Presence, SlotFound, SwitchState, ToStream as Todo},
    source::{Catalog, preflight},
    witness::Witness,
};

use super::{
    database::{Database, Fit, Row, Switched, TABLES},
    site::{SLOT, Site, with_partitions_of},
    slot::{Holder, NotHeld},
    step::{Done, Step},
};

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Look,
    Close,
    Publish,
    Drop,
    Create,
    Note,
    Hold,
    Drain,
    Compare,
    Sent,
    HoldAgain,
    Witness,
    HandOver,
}

/// A run of it.
#[derive(Debug)]
pub struct ToStream {
    number: u32,
    /// Later rows of a key wait for one that is abandoned.
    hold_keys: HoldKeys,
    stage: Stage,
    /// This process has made the slot.
    is_new: bool,
    before: Option<Catalog>,
    snapshot: Option<Box<Database>>,
}

impl Switched {
    /// As `outbox_router.switch` has it.
    pub const fn state(self) -> Option<SwitchState> {
        match self {
            Self::Polled => None,
            Self::Closing => Some(SwitchState::Closing),
            Self::Sent => Some(SwitchState::Sent),
            Self::Streamed => Some(SwitchState::Stream),
            Self::Marked => Some(SwitchState::Marked),
        }
    }
}

impl Site {
    /// State, slot and witness, as a switch finds them.
    pub fn found(&self) -> Found<'static> {
        Found {
            state: self.database.switched.state(),
            slot: match self.database.slot {
                Some(slot) if slot.is_lost => SlotFound::Lost,
                Some(_) => SlotFound::There,
                None => SlotFound::Missing,
            },
            witness: match self.pipeline.witness {
                Some(_) => Presence::There,
                None => Presence::Missing,
            },
            name: SLOT,
        }
    }
}

impl ToStream {
    /// A run that begins, or goes on.
    pub fn new(number: u32, hold_keys: HoldKeys) -> Self {
        Self { number, hold_keys, stage: Stage::Look, is_new: false, before: None, snapshot: None }
    }

    /// Whether its slot is made, and not held yet.
    pub fn is_to_hold(&self) -> bool {
        matches!(self.stage, Stage::Note | Stage::Hold)
    }

    /// The next step.
    pub fn step(&mut self, site: &mut Site) -> Step {
        match self.stage {
            Stage::Look => self.look(site),
            Stage::Close => self.close(site),
            Stage::Publish => self.publish(site),
            Stage::Drop => self.drop_slot(site),
            Stage::Create => self.create(site),
            Stage::Note => self.note(site),
            Stage::Hold | Stage::HoldAgain => self.hold(site),
            Stage::Drain => self.drain(site),
            Stage::Compare => self.compare(site),
            Stage::Sent => {
                site.database.switched = Switched::Sent;
                self.goes_to(Stage::Witness)
            }
            Stage::Witness => self.write_witness(site),
            Stage::HandOver => {
                site.database.switched = Switched::Streamed;
                site.database.noted.clear();
                Step::Ends("switch: streamed")
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
        // A run that was killed still made the slot.
        site.database.creation = None;
        match site.found().to_stream() {
            Err(_) => Step::Ends("switch: of another slot"),
            Ok(None) => Step::Ends("switch: streamed already"),
            Ok(Some(Todo::Finish)) => self.goes_to(Stage::HoldAgain),
            Ok(Some(Todo::Send)) if self.is_held_up(site) => Step::Ends("switch: abandoned rows"),
            Ok(Some(Todo::Send)) => self.goes_to(Stage::Close),
        }
    }

    fn close(&mut self, site: &mut Site) -> Step {
        site.database.switched = Switched::Closing;
        self.goes_to(Stage::Publish)
    }

    fn publish(&mut self, site: &mut Site) -> Step {
        if self.is_held_up(site) {
            return Step::Ends("switch: abandoned rows");
        }
        (0..TABLES).for_each(|table| site.database.publish(table));
        self.goes_to(Stage::Drop)
    }

    fn drop_slot(&mut self, site: &mut Site) -> Step {
        self.before = Some(site.read(None).catalog);
        if site.database.slot.is_some_and(|slot| slot.holder.is_some()) {
            return Step::Ends("switch: slot in use");
        }
        site.database.slot = None;
        site.database.noted.clear();
        site.database.create_slot(self.number);
        self.goes_to(Stage::Create)
    }

    fn create(&mut self, site: &mut Site) -> Step {
        if let Some(made) = site.database.finished_slot(self.number) {
            self.before = self.before.take().map(|before| with_partitions_of(&made, before));
            self.snapshot = Some(made);
            self.stage = Stage::Note;
        }
        Step::Goes
    }

    /// The pending rows that the snapshot sees, of the partitions of the present.
    fn note(&mut self, site: &mut Site) -> Step {
        // With row_security = off, a statement that would not see every row ends with an error.
        if site.database.hides {
            return Step::Ends("switch: rows hidden");
        }
        let Some(snapshot) = &self.snapshot else { return Step::Ends("switch") };
        let is_pending = |row: &&Row| !row.is_marked && site.database.reaches(row);
        let pending = snapshot.rows.iter().filter(is_pending);
        site.database.noted = pending.map(|row| row.row).collect();
        self.is_new = true;
        self.goes_to(Stage::Hold)
    }

    fn hold(&mut self, site: &mut Site) -> Step {
        match site.database.hold_slot(self.number, self.snapshot.as_deref()) {
            Ok(()) => {}
            Err(NotHeld::InUse) => return Step::Ends("switch: slot in use"),
            Err(NotHeld::Moved) => return Step::Ends("switch: slot moved"),
        }
        let stage = if self.is_new { Stage::Drain } else { Stage::Witness };
        self.goes_to(stage)
    }

    /// Sends a row that is older than the slot.
    fn drain(&mut self, site: &mut Site) -> Step {
        if !site.database.is_held_by(self.number) {
            return Step::Ends("switch: slot lost");
        }
        let Some(index) = site.database.older_pending() else {
            return self.goes_to(Stage::Compare);
        };
        site.database.rows[index].is_marked = true;
        let row = site.database.rows[index];
        if row.fit == Fit::Fine {
            site.pipeline.produce(&row);
        }
        Step::Did("switch: older sent")
    }

    fn compare(&mut self, site: &mut Site) -> Step {
        if self.is_held_up(site) {
            return Step::Ends("switch: abandoned rows");
        }
        if site.database.older_pending().is_some() {
            return Step::Ends("switch: pending again");
        }
        if self.is_altered(&site.read(None).catalog) {
            return Step::Ends("switch: altered while rows were divided");
        }
        self.goes_to(Stage::Sent)
    }

    /// `first::record`.
    fn write_witness(&mut self, site: &mut Site) -> Step {
        if !site.database.is_held_by(self.number) {
            return Step::Ends("switch: slot lost");
        }
        self.stage = Stage::HandOver;
        if site.pipeline.witness.is_some() {
            return Step::Did("switch: witnessed already");
        }
        let reading = site.read(Some(Holder::Command(self.number)));
        let expected = site.setup.expected(None);
        let baseline = preflight(expected, reading.server, &reading.slot, reading.catalog);
        let Ok(baseline) = baseline else { return Step::Ends("switch: no stream could start") };
        if self.is_new && self.is_altered(&baseline.catalog) {
            return Step::Ends("switch: altered before the witness");
        }
        let is_all_sent = self.abandoned(site).next().is_none();
        let sent: &[TableName] = if is_all_sent { &site.setup.names } else { &[] };
        let begun = Witness::begin(&baseline, "k", &site.setup.outboxes)
            .with_older_rows_sent(sent, &baseline.catalog);
        let began_without = (!self.is_new).then(|| baseline.beginning());
        site.pipeline.witness = Some(Witness { began_without, ..begun });
        let mut given_up: Vec<u64> = self.abandoned(site).map(|row| row.row).collect();
        if let Some(snapshot) = &self.snapshot {
            given_up.extend(snapshot.of_no_partition());
        }
        Step::Done(Done::Handed { given_up, how: "handed to the stream" })
    }

    fn is_altered(&self, now: &Catalog) -> bool {
        self.before.as_ref().is_some_and(|before| altered(before, now).is_some())
    }

    fn is_held_up(&self, site: &Site) -> bool {
        self.hold_keys == HoldKeys::Yes && self.abandoned(site).next().is_some()
    }

    /// Rows that workers have given up: the command says that the stream never sends them.
    fn abandoned<'s>(&'s self, site: &'s Site) -> impl Iterator<Item = &'s Row> {
        let is_older = |row: &Row| {
            let snapshot = self.snapshot.as_deref();
            snapshot.is_none_or(|of| of.rows.iter().any(|older| older.row == row.row))
        };
        let rows = site.database.rows.iter();
        rows.filter(move |row| row.fit == Fit::Bad && !row.is_marked && is_older(row))
    }
}

impl Database {
    /// A row that is older than the slot, and pending.
    fn older_pending(&self) -> Option<usize> {
        let is_pending =
            |row: &Row| self.noted.contains(&row.row) && row.is_pending() && self.reaches(row);
        self.rows.iter().position(is_pending)
    }
}
