//! What must be in Kafka or in the table of held events, and what is, kept from one check to the
//! next: the checker of each single kill.
//!
//! Nothing here reads a clock or a server, and nothing is allowed for time: every position was read
//! while the router was dead. What needs the whole history (order, content) is checked at the end,
//! by [`testbed::checker`].

mod counts;
mod held;
mod observation;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

use tokio_postgres::types::PgLsn;
use uuid::Uuid;

pub(crate) use self::counts::{RoundResult, ViolationCounts};
pub(crate) use self::observation::{Ending, Observation, SlotPersistence};

use self::counts::Repeats;
use self::held::{HeldEvents, Rows};
use crate::held_table::HeldRow;
use crate::observer::{ObservedCommit, RowKind};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Tally {
    window: usize,
    /// Where the slot was created.
    slot_created_at: PgLsn,
    /// Everything that was committed, poisoned rows too.
    commits: HashMap<Uuid, ObservedCommit>,
    /// Events of each transaction.
    sizes: BTreeMap<PgLsn, usize>,
    /// Committed events that are not in Kafka yet.
    missing: BTreeMap<PgLsn, HashSet<Uuid>>,
    arrived: HashSet<Uuid>,
    /// Where the last transaction ends of which an event of each key is in Kafka.
    furthest: HashMap<String, PgLsn>,
    held: HeldEvents,
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
            commits: HashMap::new(),
            sizes: BTreeMap::new(),
            missing: BTreeMap::new(),
            arrived: HashSet::new(),
            furthest: HashMap::new(),
            held: HeldEvents::default(),
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
            if self.commits.insert(commit.id, commit.clone()).is_some() {
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
        let rows = self.by_event(observed.held_later);
        self.check_came(&rows);
        let first = self.count_arrivals(observed.records, &rows);
        let settled: HashSet<Uuid> = observed.held.iter().map(|row| row.id).collect();
        self.check_nothing_missing_before(confirmed, covered, &settled);
        self.check_letters(confirmed.max(covered), &rows, observed.letters);
        self.check_left(&rows);
        let repeats = first + self.count_arrivals(observed.late, &rows);
        self.duplicates += repeats.duplicates();
        self.check_repeats(repeats, observed);
        self.take_rows(rows, observed);
        self.confirmed = observed.confirmed;
        self.witness = covered;
        RoundResult {
            duplicates: repeats.duplicates(),
            repeatable: self.in_kafka_past(covered) + self.open_in_kafka_before(covered),
        }
    }

    /// Checks the number of repeated records. Of the WAL a session repeats a window at most and the
    /// transaction that was open, and out of the table, what had not been closed there.
    fn check_repeats(&mut self, repeats: Repeats, observed: &Observation<'_>) {
        let newest = self.newest_in_kafka();
        let largest = std::mem::replace(&mut self.newest, newest).max(newest);
        let before = std::mem::replace(&mut self.before, observed.ending);
        let interruptions = observed.interruptions + before.cuts_off();
        let of_wal = (self.window + largest) * interruptions;
        let of_table = self.held.repeats_at_most(observed.interruptions);
        for (duplicates, limit, of) in
            [(repeats.of_wal, of_wal, "of the WAL"), (repeats.of_table, of_table, "of the table")]
        {
            if duplicates > limit {
                self.violations.push(format!(
                    "{duplicates} duplicates {of} after {interruptions} interruptions, more than \
                     {limit}"
                ));
            }
        }
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
    /// back. What is in the table, which was read after the positions, needs none.
    pub(crate) fn check_while_held(
        &mut self,
        held_from: PgLsn,
        confirmed: PgLsn,
        witness: Option<PgLsn>,
        table: &[HeldRow],
    ) {
        let mut violations = Vec::new();
        let mut unacknowledged = self.sizes.clone();
        for commit in table.iter().filter_map(|row| self.commits.get(&row.id)) {
            if let Some(size) = unacknowledged.get_mut(&commit.end) {
                *size = size.saturating_sub(1);
            }
        }
        let mut passed = |position: PgLsn, what: &str| {
            let between = (Bound::Excluded(held_from), Bound::Included(position));
            let is_past = position > held_from;
            let passed =
                if is_past { unacknowledged.range(between).map(|(_, size)| size).sum() } else { 0 };
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

    /// Events committed so far, without poisoned rows.
    pub(crate) fn committed(&self) -> usize {
        self.commits.values().filter(|commit| commit.kind == RowKind::Event).count()
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

    /// Takes note of records, and returns how many of them repeat an earlier one. The table has
    /// `rows`.
    fn count_arrivals(&mut self, records: &[Uuid], rows: &Rows) -> Repeats {
        let mut repeats = Repeats::default();
        for id in records {
            let commit = self.commits.get(id);
            let is_of_table = self.held.is_of_table(id, rows);
            if is_of_table {
                self.held.came(*id);
            }
            if !self.arrived.insert(*id) {
                *if is_of_table { &mut repeats.of_table } else { &mut repeats.of_wal } += 1;
                let is_covered = |commit: &&ObservedCommit| commit.end <= self.witness;
                if let Some(ObservedCommit { end, .. }) = commit.filter(is_covered)
                    && !self.held.is_open(id)
                {
                    self.counts.repeated += 1;
                    self.violations.push(format!(
                        "event {id}, whose transaction ends at {end}, was sent again, and the witness covered it: {}",
                        self.witness
                    ));
                }
            }
            let Some(ObservedCommit { key, kind, end, .. }) = commit else { continue };
            if *kind == RowKind::Poisoned {
                self.violations.push(format!("{id}, a poisoned row, is in Kafka"));
            }
            let furthest = self.furthest.entry(key.clone()).or_insert(*end);
            *furthest = (*furthest).max(*end);
            if let Some(transaction) = self.missing.get_mut(end) {
                transaction.remove(id);
                if transaction.is_empty() {
                    self.missing.remove(end);
                }
            }
        }
        repeats
    }

    /// A missing event is reported once, by the first check that finds it, unless it is in the
    /// table: `settled` are the events there.
    fn check_nothing_missing_before(
        &mut self,
        confirmed: PgLsn,
        witness: PgLsn,
        settled: &HashSet<Uuid>,
    ) {
        let furthest = confirmed.max(witness);
        let rest = self.missing.split_off(&PgLsn::from(u64::from(furthest) + 1));
        let mut missing = std::mem::replace(&mut self.missing, rest);
        for (end, events) in &mut missing {
            let held: HashSet<Uuid> = events.extract_if(|id| settled.contains(id)).collect();
            if !held.is_empty() {
                self.missing.insert(*end, held);
            }
        }
        let mut report = |position: PgLsn, what: &str| {
            let before: Vec<&Uuid> =
                missing.range(..=position).flat_map(|(_, events)| events).collect();
            if let Some(first) = before.first() {
                self.violations.push(format!(
                    "{what} {position}, but {} events before it are neither in Kafka nor held, such as {first}",
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
