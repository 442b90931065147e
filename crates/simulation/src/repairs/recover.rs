//! The command `recover`, one step at a time: `cli/recover/{work,since,slot,refusals}.rs`.

use relay::{
    Lsn,
    delivered::{
        FullXid,
        compared::{
            ClosedGap, Compared, FilteredRows, FirstOfGap, MadeSince, Rows, Scope, ServerNow,
            Settled, altered, since_restore, was_compared,
        },
        required::Required,
    },
    source::{Catalog, Gap, SlotHealth},
    witness::{OpenFinding, Witness},
};

use super::{
    compare::{Seen, Selected, compare, has_time, is_in_scope, tells_apart},
    database::{Database, Fit, Row, Switched, TABLES},
    facts::Facts,
    site::{Site, printed, seconds, with_partitions_of},
    slot::{Holder, NotHeld},
    step::{Done, Step},
};

/// How long before a named time rows are compared.
const MARGIN: i64 = 3_600;

/// What a person types.
#[derive(Debug, Clone, Copy)]
pub struct Typed {
    /// Which rows.
    pub selected: Selected,
    /// `--since`.
    pub since: Option<i64>,
    /// `--drop-slot`.
    pub drops_slot: bool,
    /// `--mend-publication`.
    pub mends: bool,
    /// `--skip-bad`.
    pub skips_bad: bool,
    /// `--filtered give-up`.
    pub gives_up_filtered: bool,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Look,
    Begin,
    Prepare,
    Drop,
    Create,
    Hold,
    Read,
    Compare(usize),
    Send(usize),
    Close,
}

/// A run of it.
#[derive(Debug)]
pub struct Recover {
    number: u32,
    pub(super) typed: Typed,
    stage: Stage,
    gaps: Vec<Gap>,
    first: Option<FirstOfGap>,
    made: Option<MadeSince>,
    pub(super) witness: Option<Witness>,
    goes_on: bool,
    prepared: Option<Catalog>,
    snapshot: Option<Box<Database>>,
    seen: Seen,
    to_send: Vec<Row>,
    compared: Vec<(Compared, Settled)>,
    /// Rows that `where` leaves out.
    filtered: Vec<u64>,
}

impl Typed {
    fn filtered_rows(&self) -> FilteredRows {
        if self.gives_up_filtered { FilteredRows::GivenUp } else { FilteredRows::Kept }
    }
}

impl Recover {
    /// A run that begins.
    pub fn new(number: u32, typed: Typed) -> Self {
        Self {
            number,
            typed,
            stage: Stage::Look,
            gaps: Vec::new(),
            first: None,
            made: None,
            witness: None,
            goes_on: false,
            prepared: None,
            snapshot: None,
            seen: Seen::default(),
            to_send: Vec::new(),
            compared: Vec::new(),
            filtered: Vec::new(),
        }
    }

    /// Whether its slot is made, and not held yet.
    pub fn is_to_hold(&self) -> bool {
        self.stage == Stage::Hold
    }

    /// The next step.
    pub fn step(&mut self, site: &mut Site) -> Step {
        match self.stage {
            Stage::Look => self.look(site),
            Stage::Begin => self.begin(site),
            Stage::Prepare => self.prepare(site),
            Stage::Drop => self.drop_slot(site),
            Stage::Create => self.create(site),
            Stage::Hold => self.hold(site),
            Stage::Read => self.read(site),
            Stage::Compare(table) => self.compare(site, table),
            Stage::Send(table) => self.send(site, table),
            Stage::Close => self.close(site),
        }
    }

    fn goes_to(&mut self, stage: Stage) -> Step {
        self.stage = stage;
        Step::Goes
    }

    fn look(&mut self, site: &mut Site) -> Step {
        if site.database.lock.is_some() || site.database.switched != Switched::Streamed {
            return Step::Ends("recover: refused by a lock");
        }
        site.database.lock = Some(self.number);
        // A person says of this moment that ids are unique.
        if self.typed.selected == Selected::MissingIdsUnique && site.pipeline.is_mixed {
            return Step::Ends("recover: ids ambiguous");
        }
        // A run that was killed still made the slot.
        site.database.creation = None;
        let Some(facts) = site.facts(None) else { return Step::Ends("recover: no witness") };
        self.gaps = facts.gaps();
        if self.gaps.is_empty() {
            return Step::Ends("recover: nothing is open");
        }
        if facts.reading.slot.slot.as_ref().is_some_and(SlotHealth::is_active) {
            return Step::Ends("recover: slot in use");
        }
        if !self.finds(site, &facts) {
            return Step::Ends("recover: begins before --since");
        }
        self.witness = Some(facts.witness);
        let is_known = (0..TABLES).all(|table| self.scope(site, table).is_some());
        if !is_known {
            return Step::Ends("recover: no transaction known");
        }
        if site.database.hides {
            return Step::Ends("recover: rows hidden");
        }
        if !tells_apart(&site.setup, self.typed.selected, &self.gaps) {
            return Step::Ends("recover: ids ambiguous");
        }
        self.goes_on = site.database.has_run;
        if let Some(why) = self.refuses(site) {
            return Step::Ends(why);
        }
        self.goes_to(Stage::Begin)
    }

    /// `since::find`.
    fn finds(&mut self, site: &Site, facts: &Facts) -> bool {
        let now = ServerNow {
            history: &facts.reading.server.history,
            slot: facts.reading.slot.slot.as_ref().and_then(SlotHealth::horizon),
            next: FullXid::from_u64(site.database.next_xid),
        };
        let begins_before = |gap: &Gap| {
            let at = gap.interval.from.as_ref().and_then(|from| from.at.as_deref());
            at.zip(self.typed.since).is_some_and(|(at, since)| seconds(at) < since)
        };
        self.first = FirstOfGap::of(&facts.witness, &self.gaps, now);
        let acknowledged = facts.witness.mark().at;
        let is_unacknowledged_before = self.first.is_none()
            && acknowledged.zip(self.typed.since).is_some_and(|(at, since)| seconds(&at) < since);
        if is_unacknowledged_before || self.gaps.iter().any(begins_before) {
            return false;
        }
        let restored = self.first.and_then(|_| since_restore(&facts.witness, &self.gaps));
        let began = site.database.running.iter().map(|running| running.began).min();
        let margin = MARGIN + began.map_or(0, |began| site.clock - began);
        let earliest = restored.as_deref().map(seconds).into_iter().chain(self.typed.since).min();
        self.made = earliest.map(|earliest| MadeSince(printed(earliest - margin)));
        true
    }

    fn scope(&self, site: &Site, table: usize) -> Option<Scope> {
        let has_time = has_time(&site.setup.shapes[table]);
        Scope::of((&self.gaps, self.first), self.made.as_ref(), has_time)
    }

    fn begin(&mut self, site: &mut Site) -> Step {
        // A person may take long to answer.
        let names = |gaps: &[Gap]| gaps.iter().map(Gap::name).collect::<Vec<_>>();
        let Some(now) = site.facts(None) else { return Step::Ends("recover: no witness") };
        if names(&now.gaps()) != names(&self.gaps) {
            return Step::Ends("recover: other gaps");
        }
        if let Some(open) = now.with_open() {
            site.pipeline.witness = Some(open);
        }
        site.database.has_run = true;
        self.goes_to(Stage::Prepare)
    }

    fn prepare(&mut self, site: &mut Site) -> Step {
        if self.typed.mends {
            (0..TABLES).for_each(|table| site.database.publish(table));
        }
        if !site.is_published() {
            return Step::Ends("recover: publication incomplete");
        }
        self.prepared = Some(site.read(None).catalog);
        if self.detached(site) {
            return Step::Ends("recover: detached partition");
        }
        self.goes_to(Stage::Drop)
    }

    fn drop_slot(&mut self, site: &mut Site) -> Step {
        if !self.may_drop(site) {
            return Step::Ends("recover: slot has rows");
        }
        let slot = site.database.slot;
        if slot.is_some_and(|slot| slot.holder.is_some()) {
            return Step::Ends("recover: slot in use");
        }
        site.database.slot = None;
        site.database.create_slot(self.number);
        self.goes_to(Stage::Create)
    }

    /// The reader's transaction begins with the snapshot of the slot.
    fn create(&mut self, site: &mut Site) -> Step {
        if let Some(made) = site.database.finished_slot(self.number) {
            self.prepared = self.prepared.take().map(|before| with_partitions_of(&made, before));
            self.snapshot = Some(made);
            self.stage = Stage::Hold;
        }
        Step::Goes
    }

    fn hold(&mut self, site: &mut Site) -> Step {
        match site.database.hold_slot(self.number, self.snapshot.as_deref()) {
            Ok(()) => {}
            Err(NotHeld::InUse) => return Step::Ends("recover: slot in use"),
            Err(NotHeld::Moved) => return Step::Ends("recover: slot moved"),
        }
        self.goes_to(Stage::Read)
    }

    /// Once more: what was written until the slot was dropped has to be seen.
    fn read(&mut self, site: &mut Site) -> Step {
        self.seen = Seen::read(&site.pipeline.records);
        self.goes_to(Stage::Compare(0))
    }

    fn compare(&mut self, site: &mut Site, table: usize) -> Step {
        // With row_security = off, a statement that would not see every row ends with an error.
        if site.database.hides {
            return Step::Ends("recover: rows hidden");
        }
        let Some((scope, snapshot)) = self.scope(site, table).zip(self.snapshot.as_ref()) else {
            return Step::Ends("recover: no transaction known");
        };
        let begin = self.gaps.iter().map(|gap| gap.interval.begins_at()).min();
        let of = (scope, self.typed.selected, &self.seen, begin.unwrap_or(Lsn::ZERO));
        let Some((compared, to_send)) = compare(snapshot, &site.setup, table, of) else {
            return Step::Ends("recover: records of former rows");
        };
        self.compared.push((compared, Settled::default()));
        self.to_send = to_send;
        self.goes_to(Stage::Send(table))
    }

    /// Sends a row.
    fn send(&mut self, site: &mut Site, table: usize) -> Step {
        let Some(row) = self.to_send.pop() else {
            let next = table + 1;
            return self.goes_to(if next < TABLES { Stage::Compare(next) } else { Stage::Close });
        };
        let Some((_, settled)) = self.compared.last_mut() else { return Step::Ends("recover") };
        match row.fit {
            Fit::Fine => {
                site.pipeline.produce(&row);
                settled.sent += 1;
                return Step::Did("recover: sent");
            }
            Fit::Filtered => {
                self.filtered.push(row.row);
                settled.filtered += 1;
            }
            Fit::Bad if self.typed.skips_bad => {
                site.database.leave_out(row);
                settled.left_out += 1;
                return Step::Did("recover: left out");
            }
            Fit::Bad => return Step::Ends("recover: stopped at a row"),
        }
        Step::Goes
    }

    fn close(&mut self, site: &mut Site) -> Step {
        let settled: Vec<(&Compared, Settled)> =
            self.compared.iter().map(|(compared, settled)| (compared, *settled)).collect();
        let Some(facts) = site.facts(Some(Holder::Command(self.number))) else {
            return Step::Ends("recover: no witness");
        };
        let prepared = self.prepared.clone().unwrap_or_default();
        let server = (&facts.reading.server.history, &prepared);
        let required = self
            .witness
            .as_ref()
            .map(|witness| Required::of(witness, server, &site.setup.names, &[]));
        let Some(closed) = required
            .and_then(|required| ClosedGap::of(&required, &settled, self.typed.filtered_rows()))
        else {
            return Step::Ends("recover: not settled");
        };
        let facts = facts.with_shown(&self.gaps);
        if altered(&prepared, &facts.reading.catalog).is_some() {
            return Step::Ends("recover: altered meanwhile");
        }
        let open = facts.gaps();
        if open.iter().any(|gap| !self.is_compared(gap, &facts.witness)) {
            return Step::Ends("recover: other gaps");
        }
        let open: Vec<OpenFinding> = open.into_iter().map(OpenFinding::Gap).collect();
        let now = facts.reading.catalog.clone();
        let Some(next) = facts.closed(&site.setup, &open, "ann") else {
            return Step::Ends("recover: no stream could start");
        };
        let next = next.with_notes(Some(site.database.notes()));
        site.pipeline.witness = Some(next.with_recovered(&closed, &now));
        site.pipeline.is_restored = false;
        site.database.has_run = false;
        Step::Done(Done::Closed { given_up: self.given_up(site), how: self.how() })
    }

    fn is_compared(&self, gap: &Gap, witness: &Witness) -> bool {
        self.gaps.iter().any(|known| known.name() == gap.name())
            || was_compared(gap, (&self.gaps, witness))
    }

    /// Rows that no topic has and that `where` leaves out, where a person says so; and rows of
    /// which the answer says that their times alone show that they are older. Who reads it
    /// takes it for what it is. Those of a copy stay in their table.
    fn given_up(&self, site: &Site) -> Vec<u64> {
        let mut given_up = self.filtered.clone();
        for (table, (compared, _)) in self.compared.iter().enumerate() {
            if compared.leaves_unproved() {
                given_up.extend(self.beside(site, table, compared.scope()));
            }
            let Rows::Named { since } = compared.scope().rows() else { continue };
            let is_older = |row: &&Row| {
                let is_older = row.made.is_none_or(|made| made < seconds(since));
                self.first.is_none() && row.says.is_some() && is_older
            };
            given_up.extend(site.database.rows_of(table).filter(is_older).map(|row| row.row));
        }
        given_up
    }

    /// Rows of a copy that were not compared.
    fn beside(&self, site: &Site, table: usize, scope: &Scope) -> Vec<u64> {
        let shape = &site.setup.shapes[table];
        let next = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.next_xid);
        let is_left = |row: &&Row| {
            site.pipeline.beside.contains(&row.row)
                && !is_in_scope(scope, row, shape, FullXid::from_u64(next))
        };
        site.database.rows_of(table).filter(is_left).map(|row| row.row).collect()
    }

    fn how(&self) -> &'static str {
        let scopes = || self.compared.iter().map(|(compared, _)| compared.scope().rows());
        if self.goes_on {
            "closed after an interruption"
        } else if scopes().any(|rows| matches!(rows, Rows::Transactions { or_since: Some(_), .. }))
        {
            "closed by transactions and times"
        } else if scopes().any(|rows| matches!(rows, Rows::Transactions { .. })) {
            "closed by transactions"
        } else if scopes().any(|rows| matches!(rows, Rows::Named { .. })) {
            "closed by a named time"
        } else {
            "closed by all rows"
        }
    }
}
