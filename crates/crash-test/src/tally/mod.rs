//! What must be in Kafka and what is, kept from one check to the next: the checker of each single
//! kill.
//!
//! Nothing here reads a clock or a server, and nothing is allowed for time: every position was read
//! while the router was dead. What needs the whole history (order, content) is checked at the end,
//! by [`testbed::checker`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::Bound;

use tokio_postgres::types::PgLsn;
use uuid::Uuid;

use crate::observer::ObservedCommit;

/// Which position the server's slot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotPersistence {
    /// That of the last status update.
    Kept,
    /// That of the last time when the slot was saved: since then the server crashed, or was stopped
    /// in a version that does not save slots then.
    Lost,
}

/// How the router's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// What was not confirmed will be sent again.
    Killed,
    /// It drained and exited with success: no event may be sent again.
    Drained,
}

/// What a dead router left behind.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    /// The slot's `confirmed_flush_lsn`.
    pub(crate) confirmed: PgLsn,
    /// The highest position in a status update of this process, read off the wire: the server may
    /// not have processed all of them.
    pub(crate) status_flush: PgLsn,
    /// The witness's position just after the router had died, if there was a witness.
    pub(crate) witness: Option<PgLsn>,
    /// The witness's position before the next process: a write that was in flight may have been
    /// stored since.
    pub(crate) witness_later: Option<PgLsn>,
    /// What was committed since the last check, and at least up to the four positions.
    pub(crate) commits: &'a [ObservedCommit],
    /// New records that were in Kafka just after the router had died.
    pub(crate) records: &'a [Uuid],
    /// New records that came later, from requests that were still on their way.
    pub(crate) late: &'a [Uuid],
    /// How often the router lost a session since the last check, besides being killed.
    pub(crate) interruptions: usize,
    /// Which position `confirmed` is.
    pub(crate) slot_persistence: SlotPersistence,
    /// How the router came to be dead.
    pub(crate) ending: Ending,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundResult {
    /// Records that repeat an earlier one.
    pub(crate) duplicates: usize,
    /// Events in Kafka past the witness: the next process may send these again, and no others.
    pub(crate) past_witness: usize,
}

/// Numbers of violations, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ViolationCounts {
    /// Events that were confirmed and were not in Kafka.
    pub(crate) confirmed_ahead: usize,
    /// Checks at which the slot, or a status update to it, was past the witness.
    pub(crate) slot_ahead: usize,
    /// Events before the witness that were not in Kafka.
    pub(crate) witness_ahead: usize,
    /// Records that came again although the witness covered their event.
    pub(crate) repeated: usize,
}

impl fmt::Display for ViolationCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { confirmed_ahead, slot_ahead, witness_ahead, repeated } = self;
        write!(
            f,
            "confirmed ahead {confirmed_ahead} · slot ahead of witness {slot_ahead} · \
             witness ahead of acks {witness_ahead} · covered and repeated {repeated}"
        )
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Tally {
    window: usize,
    /// Where the slot was created.
    slot_created_at: PgLsn,
    ends: HashMap<Uuid, PgLsn>,
    /// Events of each transaction.
    sizes: BTreeMap<PgLsn, usize>,
    /// Committed events that are not in Kafka yet.
    missing: BTreeMap<PgLsn, HashSet<Uuid>>,
    arrived: HashSet<Uuid>,
    /// The slot's position at the last check.
    confirmed: PgLsn,
    /// The witness's position at the last check; before there is a witness, where the slot was
    /// created.
    witness: PgLsn,
    /// Events of the newest transaction that was in Kafka at the last check: it may have been open,
    /// and may exceed the window by itself.
    newest: usize,
    /// How the process before this one ended.
    before: Ending,
    counts: ViolationCounts,
    duplicates: usize,
    violations: Vec<String>,
}

impl Tally {
    /// An empty tally. `window` is the router's `limits.window_events`, and `slot_created_at` the
    /// position of its slot before its first process.
    pub(crate) fn new(window: usize, slot_created_at: PgLsn) -> Self {
        Self {
            window,
            slot_created_at,
            ends: HashMap::new(),
            sizes: BTreeMap::new(),
            missing: BTreeMap::new(),
            arrived: HashSet::new(),
            confirmed: slot_created_at,
            witness: slot_created_at,
            newest: 0,
            before: Ending::Drained,
            counts: ViolationCounts::default(),
            duplicates: 0,
            violations: Vec::new(),
        }
    }

    /// Takes note of commits. After a crash the observer, too, gets again what its slot has
    /// forgotten.
    pub(crate) fn commit(&mut self, commits: &[ObservedCommit]) {
        for commit in commits {
            if self.ends.insert(commit.id, commit.end).is_some() {
                continue;
            }
            *self.sizes.entry(commit.end).or_default() += 1;
            if !self.arrived.contains(&commit.id) {
                self.missing.entry(commit.end).or_default().insert(commit.id);
            }
        }
    }

    /// Checks what one process of the router left behind.
    pub(crate) fn check(&mut self, observed: &Observation<'_>) -> RoundResult {
        self.commit(observed.commits);
        if observed.confirmed < self.confirmed && observed.slot_persistence == SlotPersistence::Kept
        {
            self.violations.push(format!(
                "confirmed_flush_lsn went back from {} to {}",
                self.confirmed, observed.confirmed
            ));
        }
        if observed.confirmed < observed.status_flush && observed.ending == Ending::Drained {
            self.violations.push(format!(
                "the router drained, and confirmed_flush_lsn is {} and not {}, the last position that it sent",
                observed.confirmed, observed.status_flush
            ));
        }
        let confirmed = observed.confirmed.max(observed.status_flush);
        self.slot_within(confirmed, observed.witness);
        let covered = self.advance_witness(observed.witness.max(observed.witness_later));
        let first = self.count_arrivals(observed.records);
        self.check_nothing_missing_before(confirmed, covered);
        let duplicates = first + self.count_arrivals(observed.late);
        self.duplicates += duplicates;

        let newest = self.newest_in_kafka();
        let largest = std::mem::replace(&mut self.newest, newest).max(newest);
        let interruptions = observed.interruptions
            + match std::mem::replace(&mut self.before, observed.ending) {
                Ending::Killed => 1,
                Ending::Drained => 0,
            };
        let limit = (self.window + largest) * interruptions;
        if duplicates > limit {
            self.violations.push(format!(
                "{duplicates} duplicates after {interruptions} interruptions, more than {limit}"
            ));
        }
        self.confirmed = observed.confirmed;
        self.witness = covered;
        RoundResult { duplicates, past_witness: self.in_kafka_past(covered) }
    }

    /// Checks that a slot's position is within the witness, which was read after it.
    pub(crate) fn slot_within(&mut self, confirmed: PgLsn, witness: Option<PgLsn>) -> bool {
        let witness = witness.unwrap_or(self.witness);
        let is_within = confirmed <= witness;
        if !is_within {
            self.counts.slot_ahead += 1;
            self.violations
                .push(format!("{confirmed} was confirmed, and the witness has position {witness}"));
        }
        is_within
    }

    /// Counts events that slot or witness passed although they were not acknowledged, by the
    /// position alone: the acknowledgements of everything committed after `held_from` were held
    /// back.
    pub(crate) fn check_while_held(
        &mut self,
        held_from: PgLsn,
        confirmed: PgLsn,
        witness: Option<PgLsn>,
    ) {
        let mut violations = Vec::new();
        let mut passed = |position: PgLsn, what: &str| {
            let between = (Bound::Excluded(held_from), Bound::Included(position));
            let is_past = position > held_from;
            let passed =
                if is_past { self.sizes.range(between).map(|(_, size)| size).sum() } else { 0 };
            if passed > 0 {
                violations.push(format!(
                    "{what} {position}, past {passed} events, while responses to everything after \
                     {held_from} were held"
                ));
            }
            passed
        };
        self.counts.confirmed_ahead += passed(confirmed, "the slot was confirmed up to");
        self.counts.witness_ahead += witness.map_or(0, |at| passed(at, "the witness has position"));
        self.violations.extend(violations);
    }

    /// The end of the first transaction with events after `position`.
    pub(crate) fn first_end_after(&self, position: PgLsn) -> Option<PgLsn> {
        self.sizes.keys().copied().find(|end| *end > position)
    }

    /// Events committed so far.
    pub(crate) fn committed(&self) -> usize {
        self.ends.len()
    }

    /// The numbers of violations.
    pub(crate) fn violation_counts(&self) -> ViolationCounts {
        self.counts
    }

    /// Records beyond the first of their event.
    pub(crate) fn duplicates(&self) -> usize {
        self.duplicates
    }

    /// The violations, in words.
    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// The position that the witness covers from now on. A witness that goes back is a violation,
    /// because what it covered could come again.
    fn advance_witness(&mut self, witness: Option<PgLsn>) -> PgLsn {
        let before = self.witness;
        let is_less = witness.is_none_or(|now| now < before);
        if is_less && (witness.is_some() || before > self.slot_created_at) {
            let now = witness.map_or_else(|| "no witness".to_owned(), |now| now.to_string());
            self.violations.push(format!("the witness went back from {before} to {now}"));
        }
        witness.unwrap_or(before).max(before)
    }

    /// Takes note of records, and returns how many of them repeat an earlier one.
    fn count_arrivals(&mut self, records: &[Uuid]) -> usize {
        let mut duplicates = 0;
        for id in records {
            let end = self.ends.get(id).copied();
            if !self.arrived.insert(*id) {
                duplicates += 1;
                if let Some(end) = end.filter(|end| *end <= self.witness) {
                    self.counts.repeated += 1;
                    self.violations.push(format!(
                        "event {id}, whose transaction ends at {end}, was sent again, and the witness covered it: {}",
                        self.witness
                    ));
                }
            }
            if let Some(end) = end
                && let Some(transaction) = self.missing.get_mut(&end)
            {
                transaction.remove(id);
                if transaction.is_empty() {
                    self.missing.remove(&end);
                }
            }
        }
        duplicates
    }

    /// A missing event is reported once, by the first check that finds it.
    fn check_nothing_missing_before(&mut self, confirmed: PgLsn, witness: PgLsn) {
        let furthest = confirmed.max(witness);
        let rest = self.missing.split_off(&PgLsn::from(u64::from(furthest) + 1));
        let missing = std::mem::replace(&mut self.missing, rest);
        let mut report = |position: PgLsn, what: &str| {
            let before: Vec<&Uuid> =
                missing.range(..=position).flat_map(|(_, events)| events).collect();
            if let Some(first) = before.first() {
                self.violations.push(format!(
                    "{what} {position}, but {} events before it are not in Kafka, such as {first}",
                    before.len()
                ));
            }
            before.len()
        };
        self.counts.confirmed_ahead += report(confirmed, "the slot is confirmed up to");
        self.counts.witness_ahead += report(witness, "the witness has position");
    }

    /// Events in Kafka of transactions that end after a position.
    fn in_kafka_past(&self, position: PgLsn) -> usize {
        let after = (Bound::Excluded(position), Bound::Unbounded);
        let gone = |end: &PgLsn| self.missing.get(end).map_or(0, HashSet::len);
        self.sizes.range(after).map(|(end, size)| size - gone(end)).sum()
    }

    /// Events of the last transaction of which something is in Kafka.
    fn newest_in_kafka(&self) -> usize {
        let is_there =
            |end: &PgLsn, size: usize| self.missing.get(end).is_none_or(|gone| gone.len() < size);
        self.sizes
            .iter()
            .rev()
            .find(|(end, size)| is_there(end, **size))
            .map_or(0, |(_, size)| *size)
    }
}

#[cfg(test)]
mod tests;
