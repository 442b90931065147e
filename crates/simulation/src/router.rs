//! One process: the real core, and what its shell remembers.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use relay::{
    Code, Moment, OnFatal, Relay, Settings, Timing, TopicId, Window,
    source::{Baseline, LastGood, Word},
};

use crate::{kafka::Producer, postgres::facts};

/// What runs beside the core at its wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Nothing.
    None,
    /// Preflight, connection, `START_REPLICATION`.
    Connect,
    /// Wait until the slot is free.
    WatchSlot,
}

/// See the module's documentation.
pub struct Router {
    /// Tells it from those before it.
    pub number: u64,
    /// The core.
    pub relay: Relay,
    /// None while it is being made.
    pub producer: Option<Producer>,
    /// The replication connection.
    pub connection: Option<u64>,
    /// Number of the session that it carries, or carried.
    pub session: usize,
    /// What is under way.
    pub job: Job,
    /// Topics that were asked for, with their places.
    pub asked: VecDeque<(TopicId, usize)>,
    /// Topics by the core's numbers.
    pub topics: Vec<(TopicId, usize)>,
    /// The highest position that it told anybody.
    pub furthest: u64,
    /// Whether it has seen another process hold the slot since its last session.
    pub has_seen_another: bool,
    /// What we told the slot.
    pub word: Word,
    /// What the last preflight saw.
    pub baseline: Option<Baseline>,
    /// What the monitor has told.
    pub suspected: BTreeSet<Code>,
    /// When the monitor last found all well.
    pub last_good: Option<LastGood>,
    /// When the monitor and the care for topics look next.
    pub look_at: Moment,
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

/// How the core is set up.
pub(crate) fn settings(window: u64, seed: u64) -> Settings {
    Settings {
        outboxes: facts::outboxes(),
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

impl Router {
    /// A new process.
    pub fn start(number: u64, window: u64, seed: u64, at: Moment) -> Self {
        Self {
            number,
            relay: Relay::new(settings(window, seed), at),
            producer: None,
            connection: None,
            session: usize::MAX,
            job: Job::None,
            asked: VecDeque::new(),
            topics: Vec::new(),
            furthest: 0,
            has_seen_another: false,
            word: Word::default(),
            baseline: None,
            suspected: BTreeSet::new(),
            last_good: None,
            look_at: at,
            frozen_since: None,
            takes_leave: false,
            attempts: (0, 0),
            counted: std::collections::BTreeMap::new(),
        }
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.frozen_since.is_none()
    }

    /// The place of a topic that the core knows by number.
    pub fn topic(&self, id: TopicId) -> Option<usize> {
        self.topics.iter().find(|(known, _)| *known == id).map(|(_, topic)| *topic)
    }
}
