//! Routers, a server and a cluster, and the order of their steps. At every step the seed chooses
//! one of the steps that are possible next.

use std::{collections::BTreeSet, time::Duration};

use relay::{Code, Moment, Now, PgTimestamp};

use crate::{
    checker::InvariantChecker,
    coverage::{self, Coverage},
    history::{CommitHistory, NamedStandby},
    invariant::{Invariant, Violation},
    kafka::SimulatedKafka,
    plan::{BacklogReading, Plan, StandbySetting, Trace},
    postgres::{ServerPhase, SimulatedConnection, SimulatedPostgres},
    random::Random,
    router::{SimulatedRouter, settings},
};

mod accepting;
mod cluster;
mod connecting;
mod ending;
mod expected_failure;
mod faults;
mod held;
mod held_facts;
mod injection;
mod letters;
mod monitor;
mod operators;
mod reading;
mod repair;
mod repairing;
mod shell;
mod witness_writes;

use expected_failure::ExpectedFailure;
use held_facts::HeldFacts;
use injection::Injection;
use repair::Repair;

/// How often routers may wake up within one stretch of time before they count as spinning.
const WAKES_MAX: usize = 3_000;

/// See the module's documentation.
pub struct World {
    plan: Plan,
    random: Random,
    at: Moment,
    server: SimulatedPostgres,
    kafka: SimulatedKafka,
    routers: Vec<SimulatedRouter>,
    checker: InvariantChecker,
    /// What was reached.
    pub coverage: Coverage,
    /// Scheduled repairs, with their times.
    repairs: Vec<(Moment, Repair)>,
    /// The end of WAL of histories that were taken back.
    discarded_wal_end: u64,
    /// The highest position in a status update that its connection lost.
    lost_status_update: u64,
    /// The same, of connections whose backlog was read by SQL: more than a window can lie before
    /// it.
    lost_beside_sql: u64,
    /// The highest position that was written to the state topic by a router after it lost the slot.
    late_witness_position: u64,
    /// Whether the state topic was ever deleted.
    is_state_topic_lost: bool,
    /// The event that the cluster refuses, and the number of the process that has met it.
    refused_event: Option<(usize, Option<u64>)>,
    /// What is known of events that cannot be delivered.
    held: HeldFacts,
    /// Processes that were started so far.
    processes: u64,
    /// Whether a router may or must ask for a person.
    expected_failure: ExpectedFailure,
    /// When the person comes, once a router has asked.
    person_at: Option<Moment>,
    /// Whether no router reaches the server.
    is_cut_off: bool,
    /// The error codes that may be reported in this run.
    causes: BTreeSet<Code>,
}

/// The codes that any run of this plan may report.
fn causes(plan: &Plan) -> BTreeSet<Code> {
    let mut causes = BTreeSet::from([Code::ServerUnreachable, Code::SlotInUse]);
    if plan.backlog != BacklogReading::Stream {
        causes.insert(Code::Backlog);
    }
    causes
}

impl World {
    /// The world of a plan, before anything happens.
    pub fn new(plan: Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let at = Moment::default();
        let start = |number| {
            let seed = random.next_number();
            let settings = settings(number, &plan, seed);
            SimulatedRouter::start(number, settings, at)
        };
        let processes = u64::try_from(plan.routers).expect("a few");
        let routers = (0..processes).map(start).collect();
        coverage::disarm();
        let mut world = Self {
            random,
            at,
            server: SimulatedPostgres::new(plan.version, plan.dead_letters),
            kafka: SimulatedKafka::new(plan.partitions),
            routers,
            checker: InvariantChecker::new(plan.window, plan.state_topic, plan.dead_letters),
            coverage: Coverage::default(),
            repairs: Vec::new(),
            discarded_wal_end: 0,
            lost_status_update: 0,
            lost_beside_sql: 0,
            late_witness_position: 0,
            is_state_topic_lost: false,
            refused_event: None,
            held: HeldFacts::default(),
            processes,
            expected_failure: ExpectedFailure::default(),
            person_at: None,
            is_cut_off: false,
            // Another router, or a late write, may change the state topic between two reads of it.
            causes: causes(&plan),
            plan,
        };
        if world.plan.standby == StandbySetting::Named {
            let end = world.server.history.end_of_wal;
            world.server.history.standby = Some(NamedStandby::at(end));
        }
        world.begin_dead_letters();
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
                self.report_closed_connections();
                self.trace(|| format!("fault {}", planned.fault.as_str()));
                self.causes.extend(planned.fault.causes());
                if self.inject(planned.fault) == Injection::Done {
                    self.coverage.fault(planned.fault);
                }
            }
            self.step();
            self.check_invariants()?;
        }
        self.end();
        self.collect_coverage();
        self.check_invariants()
    }

    fn check_invariants(&mut self) -> Result<(), Violation> {
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

    fn history(&self) -> &CommitHistory {
        &self.server.history
    }

    /// Does one of the things that can happen next.
    fn step(&mut self) {
        let some = 1 + self.random.below(8);
        let router = self.random.index(self.routers.len());
        match self.random.below(16) {
            0..3 => self.server.write(&mut self.random),
            3 | 4 => self.server.send(&mut self.random),
            5 | 6 => self.read(router, 3 * some),
            7 => self.store(router, some),
            8 => self.acknowledge(router, some),
            9..12 => self.answer(router),
            12 => self.run_periodic_checks(router),
            13 => self.store_late_batch(),
            _ => self.advance_clock_by_random(some),
        }
        self.step_dead_letters();
        self.report_closed_connections();
        self.schedule_acceptance();
        if self.random.one_in(40) {
            self.server.save_slot();
        }
    }

    fn advance_clock_by_random(&mut self, some: u64) {
        let millis = if self.random.one_in(10) { 900 * some } else { 15 * some };
        self.advance_clock(Duration::from_millis(millis));
    }

    /// Time passes, and routers whose deadline is reached are woken.
    fn advance_clock(&mut self, stretch: Duration) {
        /// How often the server's timers are checked.
        const TICK: Duration = Duration::from_millis(250);
        let until = self.at + stretch;
        for _ in 0..WAKES_MAX {
            let deadline = self.next_deadline();
            let tick = self.at + TICK;
            let next =
                deadline.map_or(until, |deadline| deadline.max(self.at)).min(until).min(tick);
            self.at = next;
            let micros = i64::try_from(self.at.since_origin().as_micros()).expect("a short run");
            self.server.history.clock = self.server.history.clock.max(micros);
            self.run_due_repairs();
            self.server.tick(next);
            self.check_walsender_timeouts();
            self.check_server_can_stop();
            self.report_closed_connections();
            self.wake_due_routers();
            if next == tick {
                // What has arrived is not left unread for longer than this.
                self.wake_readable_routers();
            }
            if next >= until {
                return;
            }
        }
        self.checker.report_violation(Invariant::S8Slot, || {
            format!("routers were woken {WAKES_MAX} times within {stretch:?}")
        });
    }

    fn next_deadline(&self) -> Option<Moment> {
        let awake = self.routers.iter().filter(|router| router.runs());
        awake.filter_map(|router| router.relay.deadline()).min()
    }

    fn wake_due_routers(&mut self) {
        for router in 0..self.routers.len() {
            let deadline = self.routers[router].relay.deadline();
            if self.routers[router].runs() && deadline.is_some_and(|deadline| deadline <= self.at) {
                self.wake(router);
            }
        }
    }

    /// Wakes every router that has something to read, a limited number of times, as reading may
    /// bring more.
    fn wake_readable_routers(&mut self) {
        const ROUNDS_MAX: usize = 16;
        if let ServerPhase::Stopping { .. } = self.server.phase {
            // The server does not stop before everything is sent.
            for _ in 0..4 {
                self.server.send(&mut self.random);
            }
        }
        for router in 0..self.routers.len() {
            self.run_periodic_checks(router);
            // An attempt to connect takes many requests: now and then one of them takes longer.
            let questions = if self.random.one_in(4) { self.random.index(8) } else { ROUNDS_MAX };
            for _ in 0..questions {
                if self.routers[router].has_answerable_request() {
                    self.answer_one_request(router);
                }
            }
            let mut rounds = 0;
            while self.is_readable(router) && rounds < ROUNDS_MAX {
                self.wake(router);
                rounds += 1;
            }
        }
    }

    fn is_readable(&mut self, router: usize) -> bool {
        let process = &self.routers[router];
        let connection = process.connection.filter(|_| process.runs() && process.relay.wants_wal());
        let Some(id) = connection else { return false };
        self.server.connection(id).is_some_and(|connection| connection.is_readable())
    }

    /// A server that is stopping must not wait long for a router that could confirm everything and
    /// close the stream.
    fn check_server_can_stop(&mut self) {
        const STOP_TIME_MAX: Duration = Duration::from_secs(15);
        let ServerPhase::Stopping { since } = self.server.phase else { return };
        let is_exempt = |connection: &SimulatedConnection| {
            connection.is_black_holed
                || connection.is_abandoned
                || !self.routers[connection.router].runs()
        };
        if self.server.holder().is_some_and(is_exempt) {
            self.server.phase = ServerPhase::Stopping { since: self.at };
        } else if self.at.since(since) > STOP_TIME_MAX {
            self.checker.report_violation(Invariant::S8Slot, || {
                format!("PostgreSQL has been stopping for more than {STOP_TIME_MAX:?}")
            });
        }
    }

    /// `wal_sender_timeout` must not end the connection of a router that runs and can send.
    fn check_walsender_timeouts(&mut self) {
        let Self { server, routers, .. } = self;
        let mut is_blamed = false;
        for connection in &mut server.connections {
            is_blamed |= std::mem::take(&mut connection.was_timed_out)
                && !connection.is_black_holed
                && !connection.is_abandoned
                && routers[connection.router].runs();
        }
        if is_blamed {
            self.checker.report_violation(Invariant::S8Slot, || {
                "the walsender received nothing for 10 s from a router that runs".to_owned()
            });
        }
    }

    /// Takes the counts of routers and failpoints into the coverage, and checks that every reported
    /// error has a cause.
    fn collect_coverage(&mut self) {
        for router in 0..self.routers.len() {
            self.count_errors(router);
        }
        self.coverage.collect_failpoints();
        self.coverage.records = self.checker.records;
        self.coverage.duplicates = self.checker.duplicates;
        for code in self.coverage.unexplained(&self.causes) {
            self.checker.report_violation(Invariant::S11Reporting, || {
                format!("{code} is reported, and no fault of this run causes it")
            });
        }
    }
}
