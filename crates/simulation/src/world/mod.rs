//! Routers, a server and a cluster, and the order in which things happen between them. At every
//! step one of the things that can happen next does; the seed says which.

use std::{collections::BTreeSet, time::Duration};

use relay::{Code, Moment, Now, PgTimestamp};

use crate::{
    checker::InvariantChecker,
    coverage::{self, Coverage},
    history::CommitHistory,
    invariant::{Invariant, Violation},
    kafka::SimulatedKafka,
    plan::{Plan, Trace},
    postgres::{ServerPhase, SimulatedConnection, SimulatedPostgres},
    random::Random,
    router::{SimulatedRouter, settings},
};

mod accepting;
mod attesting;
mod cluster;
mod connecting;
mod ending;
mod expected_failure;
mod faults;
mod injection;
mod monitor;
mod reading;
mod repair;
mod repairing;
mod shell;

use expected_failure::ExpectedFailure;
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
    /// Scheduled mends, with their times.
    mends: Vec<(Moment, Repair)>,
    /// The end of WAL of histories that were taken back.
    wal_that_is_gone: u64,
    /// The highest position in a status update that its connection lost.
    lost_word: u64,
    /// The highest position that was written to the state topic by a router after it lost the slot.
    overlapped: u64,
    /// Whether the state topic was ever deleted.
    is_state_lost: bool,
    /// The event that the cluster refuses, and the number of the process that has met it.
    refused: Option<(usize, Option<u64>)>,
    /// Processes that were started so far.
    processes: u64,
    /// Whether a router may or must ask for a person.
    call: ExpectedFailure,
    /// When the person comes, once a router has asked.
    person_at: Option<Moment>,
    /// Whether no router reaches the server.
    is_cut_off: bool,
    /// The error codes that may be reported in this run.
    causes: BTreeSet<Code>,
}

impl World {
    /// The world of a plan, before anything happens.
    pub fn new(plan: Plan) -> Self {
        let mut random = Random::new(plan.seed);
        let at = Moment::default();
        let start = |number| {
            let settings = settings(number, plan.window, plan.keeping, random.next_number());
            SimulatedRouter::start(number, settings, at)
        };
        let processes = u64::try_from(plan.routers).expect("a few");
        let routers = (0..processes).map(start).collect();
        coverage::disarm();
        Self {
            random,
            at,
            server: SimulatedPostgres::new(plan.version),
            kafka: SimulatedKafka::new(plan.partitions),
            routers,
            checker: InvariantChecker::new(plan.window, plan.keeping),
            coverage: Coverage::default(),
            mends: Vec::new(),
            wal_that_is_gone: 0,
            lost_word: 0,
            overlapped: 0,
            is_state_lost: false,
            refused: None,
            processes,
            call: ExpectedFailure::default(),
            person_at: None,
            is_cut_off: false,
            // Another router, or a late write, may change the state topic between two reads of it.
            causes: BTreeSet::from([Code::ServerUnreachable, Code::SlotInUse]),
            plan,
        }
    }

    /// Runs to the end, or to the first violation.
    ///
    /// # Errors
    /// The violation.
    pub fn run(&mut self) -> Result<(), Violation> {
        let mut faults = std::mem::take(&mut self.plan.faults).into_iter().peekable();
        for step in 0..self.plan.steps {
            while let Some(planned) = faults.next_if(|planned| planned.at <= step) {
                self.notice_ends();
                self.tell(|| format!("fault {}", planned.fault.as_str()));
                self.causes.extend(planned.fault.causes());
                if self.inject(planned.fault) == Injection::Done {
                    self.coverage.fault(planned.fault);
                }
            }
            self.step();
            self.hold_against_the_truth()?;
        }
        self.end();
        self.collect();
        self.hold_against_the_truth()
    }

    fn hold_against_the_truth(&mut self) -> Result<(), Violation> {
        match self.checker.violation() {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    /// Prints one line of the trace.
    fn tell(&self, what: impl FnOnce() -> String) {
        if self.plan.trace == Trace::On {
            let millis = self.at.since_origin().as_millis();
            #[expect(clippy::print_stderr, reason = "asked for, to read along with one seed")]
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
            12 => self.look_around(router),
            13 => self.free_a_ghost(),
            _ => self.pass_some_time(some),
        }
        self.notice_ends();
        self.consider_accepting();
        if self.random.one_in(40) {
            self.server.save_slot();
        }
    }

    fn pass_some_time(&mut self, some: u64) {
        let millis = if self.random.one_in(10) { 900 * some } else { 15 * some };
        self.pass_time(Duration::from_millis(millis));
    }

    /// Time passes, and routers whose deadline is reached are woken.
    fn pass_time(&mut self, stretch: Duration) {
        /// How often the server's timers are checked.
        const TICK: Duration = Duration::from_millis(250);
        let until = self.at + stretch;
        for _ in 0..WAKES_MAX {
            let alarm = self.next_alarm();
            let tick = self.at + TICK;
            let next = alarm.map_or(until, |alarm| alarm.max(self.at)).min(until).min(tick);
            self.at = next;
            let micros = i64::try_from(self.at.since_origin().as_micros()).expect("a short run");
            self.server.history.clock = self.server.history.clock.max(micros);
            self.mend_what_is_due();
            self.server.tick(next);
            self.blame_for_timeouts();
            self.blame_for_waiting();
            self.notice_ends();
            self.ring();
            if next == tick {
                // What has arrived is not left unread for longer than this.
                self.deliver();
            }
            if next >= until {
                return;
            }
        }
        self.checker
            .accuse(Invariant::S8Slot, || format!("woken {WAKES_MAX} times in {stretch:?}"));
    }

    fn next_alarm(&self) -> Option<Moment> {
        let awake = self.routers.iter().filter(|router| router.runs());
        awake.filter_map(|router| router.relay.deadline()).min()
    }

    fn ring(&mut self) {
        for router in 0..self.routers.len() {
            let deadline = self.routers[router].relay.deadline();
            if self.routers[router].runs() && deadline.is_some_and(|deadline| deadline <= self.at) {
                self.wake(router);
            }
        }
    }

    /// Wakes every router that has something to read, a limited number of times, as reading may
    /// bring more.
    fn deliver(&mut self) {
        const ROUNDS_MAX: usize = 16;
        if let ServerPhase::Stopping { .. } = self.server.phase {
            // The server does not stop before everything is sent.
            for _ in 0..4 {
                self.server.send(&mut self.random);
            }
        }
        for router in 0..self.routers.len() {
            self.look_around(router);
            // An attempt to connect takes many requests: now and then one of them takes longer.
            let questions = if self.random.one_in(4) { self.random.index(8) } else { ROUNDS_MAX };
            for _ in 0..questions {
                if self.routers[router].has_questions() {
                    self.answer_a_question(router);
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
        self.server.connection(id).is_some_and(|connection| {
            !connection.is_swallowed && (!connection.wire.is_empty() || !connection.is_served)
        })
    }

    /// A server that is stopping must not wait long for a router that could confirm everything and
    /// close the stream.
    fn blame_for_waiting(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(15);
        let ServerPhase::Stopping { since } = self.server.phase else { return };
        let is_excused = |connection: &SimulatedConnection| {
            connection.is_swallowed
                || connection.is_abandoned
                || !self.routers[connection.router].runs()
        };
        if self.server.holder().is_some_and(is_excused) {
            self.server.phase = ServerPhase::Stopping { since: self.at };
        } else if self.at.since(since) > PATIENCE {
            self.checker.accuse(Invariant::S8Slot, || {
                format!("PostgreSQL has been stopping for more than {PATIENCE:?}")
            });
        }
    }

    /// `wal_sender_timeout` must not end the connection of a router that runs and can send.
    fn blame_for_timeouts(&mut self) {
        let Self { server, routers, .. } = self;
        let mut is_blamed = false;
        for connection in &mut server.connections {
            is_blamed |= std::mem::take(&mut connection.was_timed_out)
                && !connection.is_swallowed
                && !connection.is_abandoned
                && routers[connection.router].runs();
        }
        if is_blamed {
            self.checker.accuse(Invariant::S8Slot, || {
                "the walsender heard nothing for 10 s of a router that runs".to_owned()
            });
        }
    }

    /// Takes the counts of routers and failpoints into the coverage, and checks that every reported
    /// error has a cause.
    fn collect(&mut self) {
        for router in 0..self.routers.len() {
            self.count_errors(router);
        }
        self.coverage.collect_failpoints();
        self.coverage.records = self.checker.records;
        self.coverage.duplicates = self.checker.duplicates;
        for code in self.coverage.unexplained(&self.causes) {
            self.checker.accuse(Invariant::S11Loudness, || {
                format!("{code} is reported, and nothing in this run causes it")
            });
        }
    }
}
