//! What the core reports: plain numbers, counted by the one task that owns them. A [`Snapshot`] is
//! a copy of them for metrics and `/status.json`, so that no lock is needed.

use std::{collections::BTreeMap, ops::AddAssign, sync::Arc, time::Duration};

use pgoutput::{Lsn, PgTimestamp};

use crate::{
    delivered::{EventsSince, Place},
    failure::Code,
    held::{EventId, HeldEvent, HeldLimits, Leaving, Letter, Outcome, TableMark},
    notice::ServerNotice,
    progress::WitnessStore,
    routing::topic::TopicName,
    source::{Baseline, Gap, Mark},
    state::Condition,
    witness::{Acceptance, LostTopic, Notes},
};

/// Upper bounds of the latency buckets, in seconds; what is slower falls into `+Inf`.
pub const LATENCY_BOUNDS: [f64; 18] = [
    0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0,
];

/// The same bounds in microseconds, for counting without floating point.
const LATENCY_BOUNDS_MICROS: [i64; 18] = [
    1_000,
    2_000,
    3_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
];

/// Commit to acknowledgement, as a Prometheus histogram counts it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latencies {
    /// Events per bucket of [`LATENCY_BOUNDS`], not cumulative; the last is `+Inf`.
    pub buckets: [u64; 19],
    /// Sum over all events, in microseconds.
    pub sum_micros: u64,
}

impl Latencies {
    /// Counts `events` that took `micros` each. A negative time, which clocks that differ give,
    /// counts as zero.
    pub(crate) fn count(&mut self, micros: i64, events: u32) {
        let micros = micros.max(0);
        let bucket = LATENCY_BOUNDS_MICROS.partition_point(|&bound| bound < micros);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += u64::from(events);
        }
        let sum = u64::try_from(micros).unwrap_or(0).saturating_mul(u64::from(events));
        self.sum_micros = self.sum_micros.saturating_add(sum);
    }

    /// The number of events in all buckets.
    pub fn events(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The counters of one topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicTotals {
    /// The topic.
    pub name: TopicName,
    /// Events that the broker acknowledged.
    pub acked: u64,
    /// The time from their commit to the acknowledgement.
    pub latencies: Latencies,
}

/// The counters of all topics that have none of their own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherTopics {
    /// How many topics these are.
    pub topics: u64,
    /// Events that the broker acknowledged.
    pub acked: u64,
    /// The time from their commit to the acknowledgement.
    pub latencies: Latencies,
}

/// The numbers of the core at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// State and reason.
    pub condition: Condition,
    /// The last position received in this session; the confirmed position while there is none.
    pub received: Lsn,
    /// The settled position: everything before it is acknowledged by Kafka.
    pub settled: Lsn,
    /// The confirmed position: the greatest that a status update of this process has named, or with
    /// which one of its sessions began (the slot's own, where the witness names that too); else
    /// 0/0.
    pub confirmed: Lsn,
    /// Events in the window: past the confirmable position.
    pub window_events: u64,
    /// Bytes in the window.
    pub window_bytes: u64,
    /// Events that the broker has not acknowledged.
    pub unacked_events: u64,
    /// How long the core has waited for Kafka: for the oldest acknowledgement of a record or of
    /// a write of the witness, or for an answer about a topic.
    pub waiting_for_ack: Option<Duration>,
    /// The commit time of the oldest event that was read, or is waited at, and is not acknowledged;
    /// `None` when there is none. It does not end with the connection.
    pub oldest_unacked: Option<PgTimestamp>,
    /// For how long the socket was not read since the process started, in the order of
    /// [`PauseReason::ALL`].
    pub paused: [Duration; PauseReason::ALL.len()],
    /// Totals of the first [`TOPICS_COUNTED`](crate::TOPICS_COUNTED) topics, in the order of first
    /// use.
    pub topics: Vec<TopicTotals>,
    /// Totals of the other topics.
    pub other_topics: OtherTopics,
    /// Committed transactions that carried at least one event.
    pub transactions: u64,
    /// Changes that are no events, by operation.
    pub rows_ignored: RowsIgnored,
    /// Rows of outbox tables that `where` leaves out.
    pub rows_filtered: u64,
    /// Events in the table of held events.
    pub held: HeldReport,
    /// Reconnections, by peer.
    pub reconnects: Reconnects,
    /// Failures since the start, by code.
    pub errors: BTreeMap<Code, u64>,
    /// Whether a session of this router holds the slot.
    pub has_session: bool,
    /// Process id of the walsender that holds the slot, when another router does.
    pub slot_holder: Option<i32>,
    /// What the server reads again before it sends the first row of this session; `None` where it
    /// has sent something.
    pub rereads: Option<Rereads>,
    /// What the server warns of within the stream, if that is no gap.
    pub warning: Option<ServerNotice>,
    /// What slot and publication looked like when the last session began.
    pub baseline: Option<Arc<Baseline>>,
    /// What the witness contains.
    pub witness: WitnessReport,
}

/// A session to which the server has sent nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rereads {
    /// The slot's `restart_lsn` when the session began; `None` where it was not shown.
    pub from: Option<Lsn>,
    /// Where the slot stood then.
    pub to: Lsn,
    /// For how long the session has lasted.
    pub lasts: Duration,
}

impl Snapshot {
    /// Events that Kafka has acknowledged since the process started.
    pub fn events_acked(&self) -> u64 {
        self.topics.iter().map(|topic| topic.acked).sum::<u64>() + self.other_topics.acked
    }
}

/// Why the socket is not read while a session streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseReason {
    /// The window is full: Kafka, or the witness, has to acknowledge first.
    Window,
    /// The producer's queue is full, or its partition waits.
    Queue,
    /// A topic is looked up, or changes its partition count.
    Topic,
    /// A row cannot become a record, and a person is needed.
    Row,
    /// A transaction at which a session failed waits until everything before it is confirmed.
    Isolation,
}

impl PauseReason {
    /// Every reason.
    pub const ALL: [Self; 5] = [Self::Window, Self::Queue, Self::Topic, Self::Row, Self::Isolation];

    /// The word in metrics and `/status.json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Row => "row",
            Self::Isolation => "isolation",
        }
    }

    /// Its place in [`PauseReason::ALL`].
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Window => 0,
            Self::Queue => 1,
            Self::Topic => 2,
            Self::Row => 3,
            Self::Isolation => 4,
        }
    }
}

/// The contents of the witness, for metrics and `/status.json`.
#[derive(Debug, Clone)]
pub struct WitnessReport {
    /// Whether the witness is kept in Kafka or in memory only.
    pub store: WitnessStore,
    /// The witness's position: everything before it is acknowledged.
    pub position: Option<Lsn>,
    /// A time up to which everything is acknowledged, by the server's clock.
    pub acknowledged_at: Option<String>,
    /// The witness's generation; 0 when there is no witness.
    pub generation: u64,
    /// The open gaps: nobody has accepted them.
    pub gaps: Vec<Gap>,
    /// The gap that would follow if the server reached now replaced the witness's server. It is
    /// reported and never written to the witness.
    pub other_server_gap: Option<Gap>,
    /// Whether no gap waits to be written to the state topic; always true without one.
    pub are_gaps_written: bool,
    /// What a person has accepted, gaps and others.
    pub accepted: Vec<Acceptance>,
    /// Where the pipeline began, if there was no witness of it then.
    pub began_without: Option<Mark>,
    /// Topics that are gone with their records.
    pub lost_topics: Vec<LostTopic>,
    /// Whether this session has looked at every topic that was produced to before it.
    pub topic_look: TopicLook,
    /// The end of WAL when slot, publication and tables were last found as they must be. Whatever
    /// was committed before that position, and is an event by [`Self::since`], was published as it
    /// must be.
    pub verified: Option<Lsn>,
    /// From where on the rows of outboxes and of their partitions are events, by the same reading;
    /// empty without a state topic.
    pub since: Arc<BTreeMap<Place, EventsSince>>,
    /// The database's notes of rows that are in no topic.
    pub notes: Notes,
}

/// Whether a session has looked at every topic that was produced to before it: one may have been
/// deleted meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicLook {
    /// It has.
    Complete,
    /// Not at all of them yet.
    Due,
}

impl Default for WitnessReport {
    fn default() -> Self {
        Self {
            store: WitnessStore::Memory,
            position: None,
            acknowledged_at: None,
            generation: 0,
            gaps: Vec::new(),
            other_server_gap: None,
            are_gaps_written: true,
            accepted: Vec::new(),
            began_without: None,
            lost_topics: Vec::new(),
            topic_look: TopicLook::Complete,
            verified: None,
            since: Arc::default(),
            notes: Notes::default(),
        }
    }
}

/// Changes that arrived and are no events, by operation. An outbox is append-only, so every update,
/// delete and truncate counts here, and of the inserts those into tables that are no outbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowsIgnored {
    /// Rows inserted into tables that are no outbox.
    pub insert: u64,
    /// Rows updated.
    pub update: u64,
    /// Rows deleted.
    pub delete: u64,
    /// TRUNCATE messages; one of them may name several tables.
    pub truncate: u64,
}

impl RowsIgnored {
    /// The number of all of them.
    pub fn total(&self) -> u64 {
        let Self { insert, update, delete, truncate } = self;
        insert + update + delete + truncate
    }
}

impl AddAssign for RowsIgnored {
    fn add_assign(&mut self, more: Self) {
        let Self { insert, update, delete, truncate } = more;
        self.insert += insert;
        self.update += update;
        self.delete += delete;
        self.truncate += truncate;
    }
}

/// Events that are held, and those that have left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldReport {
    /// What is held now; zero while there is no session.
    pub held: HeldLimits,
    /// When the transaction of the oldest of them was committed.
    pub oldest: Option<PgTimestamp>,
    /// The table that is relied on: everything that is confirmed and not delivered is in it.
    pub table: TableMark,
    /// Since the process started.
    pub totals: HeldTotals,
}

impl Default for HeldReport {
    fn default() -> Self {
        let (held, totals) = (HeldLimits::NONE, HeldTotals::default());
        Self { held, oldest: None, table: TableMark::default(), totals }
    }
}

/// What has become a dead letter, and what has left the table, since the process started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldTotals {
    /// Dead letters, by code.
    pub letters: BTreeMap<Code, u64>,
    /// Dead letters that were requeued, and could not be delivered again.
    pub refused_again: u64,
    /// Events that were delivered out of the table.
    pub delivered: u64,
    /// Events that were dropped.
    pub dropped: u64,
    /// Rows that were skipped.
    pub skipped: u64,
}

impl HeldTotals {
    pub(crate) fn count(&mut self, leaving: &[Leaving]) {
        for leaving in leaving {
            match leaving.outcome {
                Outcome::Delivered => self.delivered += 1,
                Outcome::Dropped => self.dropped += 1,
                Outcome::Refused(_) => {}
            }
        }
    }
}

/// A row that was skipped, as a person has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRow {
    /// What it is known by.
    pub id: EventId,
    /// Its table.
    pub table: String,
    /// The value of its id column, where it can be read.
    pub event_id: Option<String>,
}

/// An event that has become a dead letter, or one that was requeued and refused again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLetter {
    /// What it is known by.
    pub id: EventId,
    /// Its table.
    pub table: String,
    /// The value of its id column, where it can be read.
    pub event_id: Option<String>,
    /// Why.
    pub code: Code,
    /// Why, in words.
    pub message: String,
}

impl NewLetter {
    pub(crate) fn of(event: &HeldEvent, letter: &Letter) -> Self {
        Self {
            id: event.id,
            table: event.table.clone(),
            event_id: event.event_id.clone(),
            code: letter.code,
            message: letter.message.clone(),
        }
    }
}

/// Reconnections since the process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reconnects {
    /// To PostgreSQL's walsender.
    pub postgres: u64,
    /// Producers that were replaced.
    pub kafka: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_falls_into_the_first_bucket_that_is_not_below_it() {
        let mut latencies = Latencies::default();
        for micros in [-5, 0, 1_000] {
            latencies.count(micros, 1);
        }
        latencies.count(1_001, 2);
        latencies.count(400_000_000, 1);
        assert_eq!(latencies.buckets[..2], [3, 2]);
        assert_eq!(latencies.buckets[18], 1);
        assert_eq!(latencies.events(), 6);
        assert_eq!(latencies.sum_micros, 1_000 + 2_002 + 400_000_000);
    }

    #[test]
    fn a_commit_time_that_means_nothing_does_not_overflow() {
        let mut latencies = Latencies::default();
        latencies.count(i64::MAX, u32::MAX);
        latencies.count(i64::MAX, 1);
        assert_eq!(latencies.sum_micros, u64::MAX);
    }
}
