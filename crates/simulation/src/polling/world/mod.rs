//! Workers, tables, leases and Kafka, and the order of their steps. At every step the seed chooses
//! one of the steps that are possible next.

use std::{collections::BTreeMap, time::Duration};

use relay::{Code, Failure, Moment, Now, PgTimestamp, delivered::ServerSession};

use super::{
    PollingCoverage,
    checker::PollingChecker,
    clock::ServerClock,
    kafka::PolledKafka,
    late::Late,
    leases::LeaseTable,
    plan::{LEASE, PollingPlan, SLOTS},
    process::{Process, Statement},
    table::{Marks, PolledTables},
};
use crate::{invariant::Violation, plan::Trace, random::Random};

mod beliefs;
mod broker;
mod end;
mod faults;
mod late;
mod people;
mod server;
mod shell;
mod timers;

/// See the module's header.
pub struct PollingWorld {
    plan: PollingPlan,
    random: Random,
    at: Moment,
    clock: ServerClock,
    tables: PolledTables,
    leases: LeaseTable,
    kafka: PolledKafka,
    slots: Vec<Slot>,
    /// When PostgreSQL is back; `None` while it is there.
    database_down_until: Option<Moment>,
    /// Statements of processes and connections that are gone, and when they are carried out.
    orphans: Vec<Orphan>,
    checker: PollingChecker,
    late: Late,
    /// What was reached.
    pub coverage: PollingCoverage,
    /// The tables of each process that was started so far, by its number; the first one has 1.
    processes: BTreeMap<u64, Vec<usize>>,
    /// Producers that were made so far.
    producers: u64,
}

/// A place for a worker.
#[derive(Default)]
struct Slot {
    process: Option<Process>,
    /// When a process is started here.
    start_at: Option<Moment>,
}

/// A statement that nobody waits for.
struct Orphan {
    due: Moment,
    process: u64,
    statement: OrphanStatement,
}

enum OrphanStatement {
    /// With the session of the server in which it runs.
    Rows(Statement, ServerSession),
    /// With its number among the process' lease requests.
    Lease(relay::polling::RequestNumber, relay::polling::LeaseRequest),
}

impl PollingWorld {
    /// The world of a plan, before anything happens.
    pub fn new(plan: PollingPlan) -> Self {
        let marks =
            Marks { waits: plan.waits, claimed: plan.claimed, hold: plan.hold, lock: LEASE };
        let mut world = Self {
            random: Random::new(plan.seed),
            at: Moment::default(),
            clock: ServerClock::default(),
            tables: PolledTables::new(marks),
            leases: LeaseTable::new(plan.tables),
            kafka: PolledKafka::default(),
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            database_down_until: None,
            orphans: Vec::new(),
            checker: PollingChecker::new(&plan),
            late: Late::new(&plan),
            coverage: PollingCoverage::default(),
            processes: BTreeMap::new(),
            producers: 0,
            plan,
        };
        for slot in 0..world.plan.workers {
            world.start(slot);
        }
        world
    }

    /// Runs to the end, or to the first violation.
    ///
    /// # Errors
    /// The violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        let mut faults = std::mem::take(&mut self.plan.faults).into_iter().peekable();
        for step in 0..self.plan.steps {
            while let Some(planned) = faults.next_if(|planned| planned.at <= step) {
                self.trace(|| format!("fault {}", planned.fault.as_str()));
                if self.inject(planned.fault) {
                    self.coverage.fault(planned.fault);
                }
            }
            self.step();
            self.check()?;
        }
        self.end()?;
        self.check()
    }

    fn check(&mut self) -> Result<(), Violation> {
        match self.checker.violation() {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    /// Prints one line of the trace.
    fn trace(&self, what: impl FnOnce() -> String) {
        if self.plan.trace == Trace::On {
            let millis = self.at.since_origin().as_millis();
            #[expect(clippy::print_stderr, reason = "requested by --trace")]
            {
                eprintln!("{millis:>7} ms  {}", what());
            }
        }
    }

    fn now(&self) -> Now {
        let micros = i64::try_from(self.at.since_origin().as_micros()).expect("a short run");
        Now { at: self.at, wall: PgTimestamp::from_micros(micros) }
    }

    /// Does one of the things that can happen next.
    fn step(&mut self) {
        match self.random.below(20) {
            0..5 => self.write(),
            5..13 => self.some_go_on(),
            13 => self.stray_arrives(),
            14 if self.random.one_in(3) => self.person(),
            _ => self.advance_by_random(),
        }
        if self.random.one_in(4) {
            self.check_beliefs();
        }
    }

    /// Each of the workers gets some steps further.
    fn some_go_on(&mut self) {
        for slot in 0..SLOTS {
            if self.slots[slot].process.is_none() {
                continue;
            }
            for _ in 0..self.random.below(6) {
                match self.random.below(8) {
                    0..4 => self.serve(slot),
                    4 => self.send(slot),
                    5 => self.arrive(slot),
                    6 => self.acknowledge(slot),
                    _ => self.collect(slot),
                }
            }
        }
    }

    fn advance_by_random(&mut self) {
        let some = 1 + self.random.below(8);
        let millis = match self.random.below(30) {
            0 => 900 * some,
            1..5 => 150 * some,
            _ => 10 * some,
        };
        self.advance(Duration::from_millis(millis));
    }

    fn some_time(&mut self, most: Duration) -> Duration {
        some_time(&mut self.random, most)
    }

    fn unreachable_server() -> Failure {
        Failure::new(Code::ServerUnreachable, "the connection broke")
    }
}

/// A time of up to this.
fn some_time(random: &mut Random, most: Duration) -> Duration {
    let millis = u64::try_from(most.as_millis()).expect("a short time");
    Duration::from_millis(1 + random.below(millis))
}
