//! Counts what a run has reached. A run that never reached something it claims to try has shown
//! nothing about it, and fails.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use relay::{
    Class, Code, State,
    failpoint::{self, Failpoint},
};

pub use held::HeldCounts;

use crate::fault::Fault;

mod counts;
mod held;

const FAILPOINTS: usize = Failpoint::ALL.len();

thread_local! {
    static REACHED: RefCell<[u64; FAILPOINTS]> = const { RefCell::new([0; FAILPOINTS]) };
    static ARMED: Cell<Option<(Failpoint, u32)>> = const { Cell::new(None) };
}

/// The panic payload by which a failpoint unwinds the core: the process is dead.
#[derive(Debug)]
pub struct Killed(pub Failpoint);

/// Installs the hook by which failpoints are counted, and kill when armed. Once per process is
/// enough.
pub fn watch_failpoints() {
    // A second call finds the same hook.
    let _is_set = failpoint::set_hook(hook);
}

/// Arms a failpoint: the process dies when it reaches this place for the `nth` time from now.
pub fn arm(point: Failpoint, nth: u32) {
    ARMED.set(Some((point, nth)));
}

/// Whether a failpoint is armed and has not fired yet.
pub fn is_armed() -> bool {
    ARMED.get().is_some()
}

/// Disarms the failpoint.
pub fn disarm() {
    ARMED.set(None);
}

fn hook(point: Failpoint) {
    REACHED.with_borrow_mut(|reached| reached[index_of(point)] += 1);
    match ARMED.get() {
        Some((armed, 1)) if armed == point => {
            ARMED.set(None);
            // `resume_unwind` instead of a panic: no message is printed.
            std::panic::resume_unwind(Box::new(Killed(point)));
        }
        Some((armed, nth)) if armed == point => ARMED.set(Some((armed, nth - 1))),
        Some(_) | None => {}
    }
}

fn index_of(point: Failpoint) -> usize {
    Failpoint::ALL.iter().position(|one| *one == point).expect("every failpoint is in the list")
}

/// Counts of a run, by what was reached.
#[derive(Debug, Default, Clone)]
pub struct Coverage {
    faults: BTreeMap<Fault, u64>,
    states: BTreeMap<&'static str, u64>,
    codes: BTreeMap<Code, u64>,
    reached: BTreeMap<Failpoint, u64>,
    kills: BTreeMap<Failpoint, u64>,
    /// Events that cannot be delivered.
    pub held: HeldCounts,
    /// Records in Kafka.
    pub records: u64,
    /// Records that repeat an event that Kafka already had.
    pub duplicates: u64,
    /// Sessions.
    pub sessions: u64,
}

/// The codes that this world can cause.
pub const CODES: [Code; 28] = [
    Code::ServerUnreachable,
    Code::ServerNotReady,
    Code::ServerError,
    Code::ServerSilent,
    Code::SlotMissing,
    Code::SlotLost,
    Code::SlotInUse,
    Code::SlotMoved,
    Code::HistoryChanged,
    Code::HeldTableBehind,
    Code::PublicationMissing,
    Code::PublicationReplaced,
    Code::PublicationLacksInsert,
    Code::PublicationLacksTable,
    Code::PublicationAltered,
    Code::KafkaUnreachable,
    Code::TopicMissing,
    Code::RecordRefused,
    Code::ProducerFatal,
    Code::DeliveryFailed,
    Code::TopicShrunk,
    Code::ClusterChanged,
    Code::RecordTooLarge,
    Code::KeyIsNull,
    Code::TopicIllegal,
    Code::RowTooLarge,
    Code::ColumnMissing,
    Code::HeldFull,
];

impl Coverage {
    /// Counts a fault that was injected.
    pub fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Counts a state that a router was in.
    pub fn state(&mut self, state: State) {
        *self.states.entry(state.as_str()).or_default() += 1;
    }

    /// Counts an error code that a router reported, by how often it did.
    pub fn code(&mut self, code: Code, times: u64) {
        *self.codes.entry(code).or_default() += times;
    }

    /// Counts a process that died at this failpoint.
    pub fn kill(&mut self, point: Failpoint) {
        *self.kills.entry(point).or_default() += 1;
    }

    /// Adds the counts of this thread's failpoints.
    pub fn collect_failpoints(&mut self) {
        let counts = REACHED.with_borrow_mut(std::mem::take);
        for (point, count) in Failpoint::ALL.into_iter().zip(counts) {
            *self.reached.entry(point).or_default() += count;
        }
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        counts::add(&mut self.faults, &other.faults);
        counts::add(&mut self.states, &other.states);
        counts::add(&mut self.codes, &other.codes);
        counts::add(&mut self.reached, &other.reached);
        counts::add(&mut self.kills, &other.kills);
        self.held.add(&other.held);
        self.records += other.records;
        self.duplicates += other.duplicates;
        self.sessions += other.sessions;
    }

    /// Everything that was never reached.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let mut note = |what: &str, name: &str, count: Option<&u64>| {
            if count.is_none_or(|count| *count == 0) {
                missing.push(format!("{what} {name}"));
            }
        };
        for fault in Fault::ALL {
            note("fault", fault.as_str(), self.faults.get(fault));
        }
        for state in State::ALL {
            note("state", state.as_str(), self.states.get(state.as_str()));
        }
        for class in [Class::Transport, Class::Replay, Class::Mendable, Class::Gap] {
            let of_class = self.codes.iter().filter(|(code, _)| code.class() == class);
            let times: u64 = of_class.map(|(_, times)| times).sum();
            note("error class", &format!("{class:?}"), Some(&times));
        }
        for code in CODES {
            note("error", code.as_str(), self.codes.get(&code));
        }
        for (name, count) in self.held.named() {
            note("held events", &name, Some(&count));
        }
        for point in Failpoint::ALL {
            let name = format!("{point:?}");
            note("failpoint", &name, self.reached.get(&point));
            note("kill at", &name, self.kills.get(&point));
        }
        missing
    }

    /// The counts as a table.
    pub fn report(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, counts: Vec<String>| {
            let _infallible = writeln!(text, "{what:<11}{}", counts.join(" · "));
        };
        line("states", self.states.iter().map(|(name, n)| format!("{name} {n}")).collect());
        let faults = Fault::ALL
            .iter()
            .filter_map(|fault| Some(format!("{} {}", fault.as_str(), self.faults.get(fault)?)));
        line("faults", faults.collect());
        let mut classes = BTreeMap::<&str, u64>::new();
        for (code, times) in &self.codes {
            *classes.entry(code.class().as_str()).or_default() += times;
        }
        line("classes", classes.iter().map(|(class, n)| format!("{class} {n}")).collect());
        line("errors", self.codes.iter().map(|(code, n)| format!("{code} {n}")).collect());
        let points = self.reached.iter().map(|(point, n)| {
            format!("{point:?} {n} ({} kills)", self.kills.get(point).unwrap_or(&0))
        });
        line("failpoints", points.collect());
        let held = self.held.named();
        line("held", held.iter().map(|(name, n)| format!("{name} {n}")).collect());
        let Self { records, duplicates, sessions, .. } = self;
        let totals = format!("records {records} · duplicates {duplicates} · sessions {sessions}");
        line("totals", vec![totals]);
        text
    }

    /// Codes that were reported although no fault of the run causes them.
    pub fn unexplained(&self, causes: &BTreeSet<Code>) -> BTreeSet<Code> {
        self.codes.keys().copied().filter(|code| !causes.contains(code)).collect()
    }
}
