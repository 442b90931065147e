//! The order of events, from a seed; and what must hold after them.

use relay::{source::preflight, witness::Witness};

use super::{
    RepairsCoverage,
    actor::Actor,
    database::{Database, Fit, Row, Switched, TABLES},
    pipeline::Pipeline,
    site::{BEGIN, Setup, Site},
    step::{Done, Step},
};
use crate::{
    invariant::{Invariant, Violation},
    plan::Trace,
    random::Random,
};

/// How many steps a run takes.
const STEPS: u64 = 420;

/// Everything there is.
pub struct RepairsWorld {
    pub(super) random: Random,
    trace: Trace,
    pub(super) site: Site,
    /// A standby's, or a backup's, state.
    pub(super) copy: Database,
    /// The clock when it was copied.
    pub(super) copied_at: i64,
    pub(super) actors: Vec<Actor>,
    /// No application makes up a time.
    pub(super) is_truthful: bool,
    pub(super) next_row: u64,
    /// Random ids of rows that were removed, with their tables.
    pub(super) freed: Vec<(usize, u64)>,
    pub(super) next_actor: u32,
    /// What was reached.
    pub coverage: RepairsCoverage,
}

impl RepairsWorld {
    /// The world of a seed.
    pub fn new(seed: u64, trace: Trace) -> Self {
        let mut random = Random::new(seed ^ 0x5265_7061);
        let first_xid = if random.one_in(3) { (1 << 32) - 20 } else { 1_000 };
        let setup = Setup::chosen(&mut random);
        let is_set_up = !Random::new(seed ^ 0x4669_6c6c).one_in(4);
        let database = Database::new(first_xid);
        let copy = database.clone();
        let site = Site { database, pipeline: Pipeline::default(), setup, clock: BEGIN };
        let mut world = Self {
            random,
            trace,
            site,
            copy,
            copied_at: BEGIN,
            actors: Vec::new(),
            is_truthful: false,
            next_row: 0,
            freed: Vec::new(),
            next_actor: 0,
            coverage: RepairsCoverage::default(),
        };
        world.write_older();
        if is_set_up {
            world.set_up();
        } else {
            world.leave_unpublished();
        }
        world.copy = world.site.database.clone();
        world
    }

    /// Rows that are older than the slot.
    fn write_older(&mut self) {
        for _ in 0..4 {
            self.begin();
            self.write();
            self.site.database.commit(0, self.site.clock);
        }
    }

    /// `setup`, which gives them up.
    fn set_up(&mut self) {
        let older = self.site.database.rows.iter().map(|row| row.row);
        self.site.pipeline.given_up.extend(older);
        self.site.database.create_slot(0);
        self.site.database.finish_slot(0);
        let reading = self.site.read(None);
        let expected = self.site.setup.expected(None);
        let baseline = preflight(expected, reading.server, &reading.slot, reading.catalog);
        let baseline = baseline.expect("nothing is wrong yet");
        self.site.pipeline.witness =
            Some(Witness::begin(&baseline, "k", &self.site.setup.outboxes));
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// A row is missing that nobody has given up, and no gap is open.
    pub fn run(&mut self) -> Result<(), Violation> {
        for step in 0..STEPS {
            self.site.clock += match self.random.below(20) {
                0 => i64::try_from(self.random.below(5 * 3_600)).expect("some hours"),
                _ => i64::try_from(self.random.below(90)).expect("some seconds"),
            };
            if let Some(seen) = self.step() {
                self.see(step, seen);
            }
            if self.random.one_in(2) {
                self.command(step)?;
            }
        }
        self.end()
    }

    fn see(&mut self, step: u64, seen: &'static str) {
        self.coverage.count(seen);
        self.tell(step, seen);
    }

    #[expect(clippy::print_stderr, reason = "requested by --trace")]
    fn tell(&self, step: u64, seen: &str) {
        if self.trace == Trace::On {
            let Database { wal, slot, next_xid, history, .. } = &self.site.database;
            let witness = self.site.pipeline.witness.as_ref();
            let gaps: Vec<String> = witness
                .map(|witness| witness.gaps.iter().map(relay::source::Gap::name).collect())
                .unwrap_or_default();
            let known = witness.map(|witness| (witness.position, witness.horizon));
            eprintln!(
                "{step}: {seen} · WAL {wal} {slot:?} next {next_xid} timeline {} · {known:?} \
                 {gaps:?}",
                history.timeline
            );
        }
    }

    fn step(&mut self) -> Option<&'static str> {
        let is_new = self.actors.iter().any(Actor::is_to_hold);
        // That moment is short, and the slot is no other command's yet.
        if is_new && self.random.one_in(6) {
            return self.slot();
        }
        if self.actors.iter().any(Actor::is_to_witness) && self.random.one_in(8) {
            return self.kill();
        }
        let is_divided = self.actors.iter().any(Actor::is_dividing) || self.is_left_unwitnessed();
        if is_divided && let Some(seen) = self.alter() {
            return Some(seen);
        }
        match self.random.below(64) {
            0..=5 => self.begin(),
            6..=19 => self.write(),
            20..=28 => self.end_one(),
            29..=35 => self.deliver(),
            36..=38 => {
                self.site.write_witness();
                None
            }
            39 | 40 => {
                self.site.confirm();
                None
            }
            41 | 42 => self.site.monitor(),
            43 | 44 => {
                let is_witnessed = self.site.pipeline.witness.is_some();
                let seen = self.site.start_router();
                if !is_witnessed && self.site.pipeline.witness.is_some() {
                    // Its beginning is open, and a person closes it by accepting what is missing.
                    self.give_up_missing();
                }
                seen
            }
            45 => {
                self.site.stop_router();
                None
            }
            46 | 47 => {
                self.site.database.log_running();
                None
            }
            48 => self.pass_time(),
            49 => self.site.skip(),
            50 => self.dead_letter(),
            51 | 52 => self.application(),
            53 => self.partitions(),
            54 => self.publication_at_times(),
            55 if self.random.one_in(2) => self.slot(),
            56 => self.server(),
            57 => self.kill(),
            _ => self.person(),
        }
    }

    fn publication_at_times(&mut self) -> Option<&'static str> {
        let is_out = self.site.database.entries.len() < TABLES;
        if is_out || self.random.one_in(3) { self.publication() } else { None }
    }

    fn pass_time(&mut self) -> Option<&'static str> {
        let database = &mut self.site.database;
        if let Some(slot) = &mut database.slot {
            slot.saved = (slot.confirmed, slot.catalog_xmin);
        }
        let few = 1 + self.random.below(9);
        let many = (1 << 29) + self.random.below(1 << 29);
        let count = if self.random.one_in(6) { many } else { few };
        database.others(count);
        None
    }

    /// A router delivers, or a worker.
    pub(super) fn deliver(&mut self) -> Option<&'static str> {
        if self.site.database.switched != Switched::Polled {
            return self.site.deliver();
        }
        let Database { rows, parts, .. } = &mut self.site.database;
        let reaches = |row: &Row| row.part.is_none_or(|part| parts.contains_key(&part));
        let row = rows.iter_mut().find(|row| row.is_pending() && reaches(row))?;
        row.is_marked = true;
        let row = *row;
        if row.fit == Fit::Fine {
            self.site.pipeline.produce(&row);
        }
        Some("polled")
    }

    fn kill(&mut self) -> Option<&'static str> {
        if self.actors.is_empty() {
            return None;
        }
        let index = self.random.index(self.actors.len());
        self.actors.remove(index).leave(&mut self.site);
        Some("command killed")
    }

    fn command(&mut self, step: u64) -> Result<(), Violation> {
        if self.actors.is_empty() {
            return Ok(());
        }
        let index = self.random.index(self.actors.len());
        let mut actor = self.actors.remove(index);
        let done = actor.step(&mut self.site, &mut self.random);
        match done {
            Step::Goes => self.actors.push(actor),
            Step::Did(seen) => {
                self.actors.push(actor);
                self.see(step, seen);
            }
            Step::Ends(why) => {
                actor.leave(&mut self.site);
                self.see(step, why);
            }
            Step::Done(Done::Marked(rows)) => {
                self.actors.push(actor);
                self.tell(step, "marks");
                self.check_marked(&rows)?;
            }
            Step::Done(done @ Done::Handed { .. }) => {
                self.actors.push(actor);
                self.settle(step, done)?;
            }
            Step::Done(done) => {
                actor.leave(&mut self.site);
                self.settle(step, done)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, step: u64, done: Done) -> Result<(), Violation> {
        match done {
            Done::Closed { given_up, how } => {
                self.is_truthful = false;
                self.site.pipeline.given_up.extend(given_up);
                self.see(step, how);
                self.nothing_is_missing("the gap is closed")?;
                // A standby may lack the last commits.
                if self.random.one_in(8) {
                    let promoted = self.promote();
                    self.see(step, promoted);
                }
            }
            Done::Accepted => {
                self.is_truthful = false;
                self.give_up_missing();
                self.see(step, "accepted");
            }
            Done::Polled => self.see(step, "switched"),
            Done::Marked(_) => {}
            Done::Handed { given_up, how } => {
                self.is_truthful = false;
                self.site.pipeline.is_restored = false;
                self.site.pipeline.given_up.extend(given_up);
                self.see(step, how);
                return self.check_handed(how);
            }
            Done::Repeated(row) => {
                let what = format!("{row:?} is sent again, and nothing was interrupted");
                return Err(Violation { invariant: Invariant::R6Repeated, what });
            }
        }
        Ok(())
    }
}
