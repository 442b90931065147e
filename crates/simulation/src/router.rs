//! One process: the real core, and what is under way beside it.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use relay::{
    Code, Failure, Moment, OnFatal, Relay, Settings, StateRead, Timing, TopicId, TopicName, Window,
    WitnessSettings,
    source::{Baseline, LastGood},
    witness::Pipeline,
};

use crate::{
    kafka::Producer,
    plan::Keeping,
    postgres::facts::{self, DATABASE, PUBLICATION, SLOT},
};

/// What the core has asked of the server and waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Nothing.
    None,
    /// A connection.
    Connect,
    /// The history of this timeline.
    ReadTimelines(u32),
    /// The slot.
    ReadSlot,
    /// Publication and tables.
    ReadCatalog,
    /// The stream.
    StartReplication,
    /// That the slot is free.
    WatchSlot,
}

/// The state topic is being read.
#[derive(Debug)]
pub enum Reading {
    /// It will be read.
    Asked,
    /// It was read, and the answer is on its way.
    Read(Result<StateRead, Failure>),
}

/// See the module's documentation.
pub struct Router {
    /// Tells it from those before it.
    pub number: u64,
    /// The core.
    pub relay: Relay,
    /// None while it is being made.
    pub producer: Option<Producer>,
    /// Before this moment no other is made.
    pub producer_at: Moment,
    /// Producers that were given up in the present second.
    pub given_up: (u64, u32),
    /// The server that the connection leads to, by its starts so far; `None`: there is no
    /// connection.
    pub link: Option<u64>,
    /// The stream.
    pub connection: Option<u64>,
    /// Number of the session that it carries, or carried.
    pub session: usize,
    /// The server's history when that session began.
    pub epoch: u64,
    /// What is under way at the server.
    pub job: Job,
    /// Reads of the state topic that are under way.
    pub readings: VecDeque<(u64, Reading)>,
    /// The number of the last one.
    pub last_reading: u64,
    /// Whether the core has taken up the session that the stream carries.
    pub has_begun: bool,
    /// Topics that were asked for, with their places.
    pub asked: VecDeque<(TopicId, usize)>,
    /// Topics by the core's numbers.
    pub topics: Vec<(TopicId, usize)>,
    /// The highest position that it told anybody.
    pub furthest: u64,
    /// What the monitor has told since the present baseline.
    pub suspected: BTreeSet<Code>,
    /// What the monitor compares with.
    pub baseline: Option<Arc<Baseline>>,
    /// When the monitor last found all well.
    pub last_good: Option<LastGood>,
    /// When the monitor and the care for topics look next.
    pub look_at: Moment,
    /// Whether nobody has started it yet.
    pub is_down: bool,
    /// Since when it stands still.
    pub frozen_since: Option<Moment>,
    /// Whether the present session ends in good order.
    pub takes_leave: bool,
    /// Attempts to connect in the present second.
    pub attempts: (u64, u32),
    /// Errors that were counted already.
    pub counted: std::collections::BTreeMap<Code, u64>,
}

/// The largest row that is read whole.
pub(crate) const ROW_BYTES: usize = 1 << 20;

/// How the core of a process is set up.
pub(crate) fn settings(number: u64, window: u64, keeping: Keeping, seed: u64) -> Settings {
    let witness = TopicName::new("state").ok().map(|topic| {
        let process = format!("process {number}");
        WitnessSettings { pipeline: pipeline(), process, topic }
    });
    Settings {
        slot: SLOT.to_owned(),
        publication: PUBLICATION.to_owned(),
        outboxes: facts::outboxes(),
        witness: witness.filter(|_| keeping == Keeping::Witness),
        window: Window { events: window, bytes: 1 << 20 },
        row_bytes: ROW_BYTES,
        timing: Timing {
            status_interval: Duration::from_secs(3),
            silence_limit: Duration::from_secs(10),
        },
        drain: Duration::from_secs(5),
        on_fatal: OnFatal::Stay,
        seed,
    }
}

/// Whose witness it is: that of every router.
pub(crate) fn pipeline() -> Pipeline {
    let (name, database) = ("router".to_owned(), DATABASE.to_owned());
    Pipeline { name, database, slot: SLOT.to_owned() }
}

impl Router {
    /// A new process.
    pub fn start(number: u64, settings: Settings, at: Moment) -> Self {
        Self {
            number,
            relay: Relay::new(settings, at),
            producer: None,
            producer_at: at,
            given_up: (0, 0),
            link: None,
            connection: None,
            session: usize::MAX,
            epoch: 0,
            job: Job::None,
            readings: VecDeque::new(),
            last_reading: 0,
            has_begun: false,
            asked: VecDeque::new(),
            topics: Vec::new(),
            furthest: 0,
            suspected: BTreeSet::new(),
            baseline: None,
            last_good: None,
            look_at: at,
            is_down: false,
            frozen_since: None,
            takes_leave: false,
            attempts: (0, 0),
            counted: std::collections::BTreeMap::new(),
        }
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.frozen_since.is_none() && !self.is_down
    }

    /// Whether an answer is awaited that needs nobody else.
    pub fn has_questions(&self) -> bool {
        let asks = !matches!(self.job, Job::None | Job::WatchSlot);
        self.runs() && (asks || !self.readings.is_empty())
    }

    /// The place of a topic that the core knows by number.
    pub fn topic(&self, id: TopicId) -> Option<usize> {
        self.topics.iter().find(|(known, _)| *known == id).map(|(_, topic)| *topic)
    }
}
