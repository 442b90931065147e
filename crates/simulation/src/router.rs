//! One process: the real core, and its pending requests to the server and to Kafka.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use relay::{
    BacklogFrom, BacklogSettings, Code, Failure, HeldSettings, Moment, OnFailed, Relay,
    RelaySettings, StateTopicRead, Timing, TopicId, TopicName, Window, WitnessSettings,
    held::{HeldAnswer, HeldRequest},
    source::{Baseline, LastGood, ServerMoment},
    witness::{Witness, WitnessKey},
};

use crate::{
    kafka::{LETTERS, SimulatedProducer},
    plan::{DeadLetters, LettersTopic, Plan, StateTopicSetting},
    postgres::queries::{self, DATABASE, PUBLICATION, SLOT},
};

/// The request to the server that the core waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingRequest {
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
    StartReplication(BacklogFrom),
    /// A wait until no walsender holds the slot.
    WatchSlot,
}

/// The state topic is being read.
#[derive(Debug)]
pub enum PendingRead {
    /// It was requested and not read yet.
    Requested,
    /// It was read, and the result is on its way to the core.
    Done(Result<StateTopicRead, Failure>),
}

/// What decides, before the position, which of a pipeline's records counts: generation, timeline,
/// and the moment at which its writer held the slot.
pub type Standing = (u64, Option<u32>, Option<ServerMoment>);

/// The standing of a record.
pub fn standing(record: &Witness) -> Standing {
    let timeline = record.history.as_ref().map(|history| history.timeline);
    (record.generation, timeline, record.held)
}

/// A request to the table of held events.
#[derive(Debug)]
pub enum PendingHeld {
    /// It was asked, and nothing has happened.
    Asked(HeldRequest),
    /// It has ended, and the answer is on its way to the core.
    Ended(Result<HeldAnswer, Failure>),
}

/// See the module's documentation.
pub struct SimulatedRouter {
    /// Number of the process, unique in the run.
    pub number: u64,
    /// The core.
    pub relay: Relay,
    /// None while it is being created.
    pub producer: Option<SimulatedProducer>,
    /// When the next producer is created at the earliest.
    pub producer_at: Moment,
    /// Producers that were given up: the second, and how many in it.
    pub given_up: (u64, u32),
    /// The start of the server (`SimulatedPostgres::starts`) that the SQL connection belongs to;
    /// None without a connection.
    pub sql_connection: Option<u64>,
    /// The number of the replication connection.
    pub connection: Option<u64>,
    /// The checker's number of the session on it, or of the last one.
    pub session: usize,
    /// The server's epoch when that session began.
    pub epoch: u64,
    /// The request to the server that is pending.
    pub request: PendingRequest,
    /// The standing of the last record that it has written to the state topic; `None` again after
    /// Kafka has lost writes.
    pub standing: Option<Standing>,
    /// Pending reads of the state topic, by their numbers.
    pub state_topic_reads: VecDeque<(u64, PendingRead)>,
    /// The number of the last one.
    pub last_state_topic_read: u64,
    /// What the last answer said; None without a record.
    pub read_witness: Option<Witness>,
    /// The last generation that an acceptance began, of those that any answer had: this process
    /// knows of the acceptance, though Kafka may have lost it meanwhile.
    pub accepted_in: u64,
    /// Requests to the table of held events, by their numbers, in the order in which they were
    /// made.
    pub held: VecDeque<(u64, PendingHeld)>,
    /// The number of the last one.
    pub last_held: u64,
    /// Whether the core has begun the session on the replication connection.
    pub has_begun: bool,
    /// Topics whose metadata was requested, with their indexes.
    pub topic_lookups: VecDeque<(TopicId, usize)>,
    /// Index of each topic, by the core's number for it.
    pub topics: Vec<(TopicId, usize)>,
    /// The highest position that it has sent in a status update.
    pub furthest: u64,
    /// Gaps that the monitor has reported since the present baseline, by code.
    pub suspected: BTreeSet<Code>,
    /// What the monitor compares with.
    pub baseline: Option<Arc<Baseline>>,
    /// The monitor's last check without a finding.
    pub last_good: Option<LastGood>,
    /// When the monitor and the topic refresh run next.
    pub next_check_at: Moment,
    /// Whether the process is not running.
    pub is_down: bool,
    /// When it was stopped by SIGSTOP; None while it runs.
    pub frozen_since: Option<Moment>,
    /// Whether the present session ends in order: with its last status update and CopyDone.
    pub ended_in_order: bool,
    /// Attempts to connect: the second, and how many in it.
    pub attempts: (u64, u32),
    /// Errors already counted, by code.
    pub counted: std::collections::BTreeMap<Code, u64>,
}

/// The largest row that is read completely, in bytes.
pub(crate) const ROW_BYTES: usize = 1 << 20;

/// The settings of a process's core.
pub(crate) fn settings(number: u64, plan: &Plan, seed: u64) -> RelaySettings {
    let Plan { window, version, state_topic, dead_letters, backlog, .. } = *plan;
    let witness = TopicName::new("state").ok().map(|topic| {
        let process = format!("process {number}");
        WitnessSettings { key: witness_key(), process, topic }
    });
    RelaySettings {
        slot: SLOT.to_owned(),
        publication: PUBLICATION.to_owned(),
        outboxes: queries::outboxes(version),
        witness: witness.filter(|_| state_topic == StateTopicSetting::Used),
        held: held(dead_letters),
        window: Window { events: window, bytes: 1 << 20 },
        row_bytes: ROW_BYTES,
        timing: Timing {
            status_interval: Duration::from_secs(3),
            silence_limit: Duration::from_secs(10),
        },
        shutdown_limit: Duration::from_secs(5),
        backlog: BacklogSettings { from: backlog.from(), long_bytes: 1 },
        on_failed: OnFailed::Stay,
        seed,
    }
}

/// The settings of dead letters.
fn held(dead_letters: Option<DeadLetters>) -> HeldSettings {
    let Some(DeadLetters { limits, policy, hold_keys, topic }) = dead_letters else {
        return HeldSettings::default();
    };
    let topic = match topic {
        LettersTopic::Used => TopicName::new(LETTERS).ok(),
        LettersTopic::Unused => None,
    };
    HeldSettings { policy, hold_keys, topic, limits }
}

/// Under what the state topic keeps the witness: the same for every router.
pub(crate) fn witness_key() -> WitnessKey {
    let (name, database) = ("router".to_owned(), DATABASE.to_owned());
    WitnessKey { name, database, slot: SLOT.to_owned() }
}

impl SimulatedRouter {
    /// Starts a process.
    pub fn start(number: u64, settings: RelaySettings, at: Moment) -> Self {
        Self {
            number,
            relay: Relay::new(settings, at),
            producer: None,
            producer_at: at,
            given_up: (0, 0),
            sql_connection: None,
            connection: None,
            session: usize::MAX,
            epoch: 0,
            request: PendingRequest::None,
            standing: None,
            state_topic_reads: VecDeque::new(),
            last_state_topic_read: 0,
            read_witness: None,
            accepted_in: 0,
            held: VecDeque::new(),
            last_held: 0,
            has_begun: false,
            topic_lookups: VecDeque::new(),
            topics: Vec::new(),
            furthest: 0,
            suspected: BTreeSet::new(),
            baseline: None,
            last_good: None,
            next_check_at: at,
            is_down: false,
            frozen_since: None,
            ended_in_order: false,
            attempts: (0, 0),
            counted: std::collections::BTreeMap::new(),
        }
    }

    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.frozen_since.is_none() && !self.is_down
    }

    /// Whether a request is pending that can be answered at once.
    pub fn has_answerable_request(&self) -> bool {
        let asks = !matches!(self.request, PendingRequest::None | PendingRequest::WatchSlot);
        let waits = asks || !self.state_topic_reads.is_empty() || !self.held.is_empty();
        self.runs() && waits
    }

    /// Whether its session has written no record yet. The first one ranks above the record which
    /// the session began with.
    pub fn is_to_write_first(&self) -> bool {
        self.standing <= self.read_witness.as_ref().map(standing)
    }

    /// The answer to a read of the state topic says this.
    pub fn take_read_witness(&mut self, known: Option<&Witness>) {
        self.read_witness = known.cloned();
        let accepted = known.into_iter().flat_map(|known| &known.accepted);
        let last = accepted.map(|one| one.generation).max();
        self.accepted_in = self.accepted_in.max(last.unwrap_or(0));
    }

    /// Whether the record has a gap that no acceptance has closed which this process knows of. Gaps
    /// of a generation before it are closed: a process that never read it may write them later.
    pub fn knows_open_gap(&self, known: &Witness) -> bool {
        !known.gaps.is_empty() && known.generation >= self.accepted_in
    }

    /// The index of a topic that the core knows by number.
    pub fn topic(&self, id: TopicId) -> Option<usize> {
        self.topics.iter().find(|(known, _)| *known == id).map(|(_, topic)| *topic)
    }
}
