//! What the table of held events must say, and what must not be in Kafka because of it.
//!
//! The table is read after the ends of the topics, so a row that has left it as delivered must have
//! its record before those ends.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::PgLsn;
use uuid::Uuid;

use super::{Observation, Tally};
use crate::held_table::{HeldRow, HeldState};
use crate::observer::RowKind;

/// Events that the router reads from the table at once. It closes them before it reads more, so a
/// session that ends repeats no more of them.
pub(super) const RELEASED_AT_ONCE: usize = 1000;

/// Rows of the table, by their events.
pub(super) type Rows = HashMap<Uuid, HeldRow>;

/// The table at the last check, and what is remembered of its events.
#[derive(Debug, Default)]
pub(super) struct HeldEvents {
    rows: Rows,
    /// Records that have come out of the table, for each event.
    records: HashMap<Uuid, usize>,
    /// Sessions in which each event may have come out of the table.
    sessions: HashMap<Uuid, usize>,
    /// Events of which a record has come out of the table since the last check.
    came: HashSet<Uuid>,
    /// Events in Kafka whose rows were open at the last check: each may come again once, and the
    /// next process need not come so far before it drains.
    unclosed: usize,
    /// The events of records in the topic of dead letters.
    letters: HashSet<Uuid>,
    /// Poisoned rows that were passed: each is reported once.
    passed: HashSet<Uuid>,
    /// Dead letters without a record: each is reported once.
    unwritten: HashSet<Uuid>,
}

impl HeldEvents {
    /// Whether a record has come out of the table, which has `rows` now, and not from the WAL: an
    /// event comes from there again if its row was closed.
    pub(super) fn is_of_table(&self, id: &Uuid, rows: &Rows) -> bool {
        match self.rows.get(id) {
            Some(before) => !before.state.is_closed(),
            None => rows.contains_key(id),
        }
    }

    /// Whether the event's row was open at the last check: it comes out of the table then, even if
    /// the witness covers it, and a batch that was not closed comes again.
    pub(super) fn is_open(&self, id: &Uuid) -> bool {
        self.rows.get(id).is_some_and(|row| !row.state.is_closed())
    }

    /// A record has come out of the table.
    pub(super) fn came(&mut self, id: Uuid) {
        *self.records.entry(id).or_default() += 1;
        self.came.insert(id);
    }

    /// Duplicates that a process may send whose sessions were lost `interruptions` times: what its
    /// predecessors have left open, and what each lost session has read at once.
    pub(super) fn repeats_at_most(&self, interruptions: usize) -> usize {
        self.unclosed + RELEASED_AT_ONCE * interruptions
    }
}

impl Tally {
    /// The rows by their events. An event that is there twice is a violation.
    pub(super) fn by_event(&mut self, rows: &[HeldRow]) -> Rows {
        let mut by_event = Rows::with_capacity(rows.len());
        for row in rows {
            if by_event.insert(row.id, row.clone()).is_some() {
                self.violations.push(format!("event {} is in the table twice", row.id));
            }
        }
        by_event
    }

    /// Checks that no event has come into the table that was in Kafka before. New records are not
    /// counted yet.
    pub(super) fn check_came(&mut self, rows: &Rows) {
        for id in rows.keys() {
            if !self.held.rows.contains_key(id) && self.arrived.contains(id) {
                self.violations.push(format!("event {id} was in Kafka before it was held"));
            }
        }
    }

    /// Checks that what has left the table as delivered was in Kafka when the router died: late
    /// records are not counted yet.
    pub(super) fn check_left(&mut self, rows: &Rows) {
        for (id, row) in rows {
            let before = self.held.rows.get(id).map(|row| row.state);
            let has_left =
                row.state == HeldState::Delivered && before != Some(HeldState::Delivered);
            if has_left && !self.arrived.contains(id) {
                self.counts.left_ahead += 1;
                self.violations.push(format!(
                    "event {id} has left the table as delivered, and is not in Kafka"
                ));
            }
        }
    }

    /// Checks that each dead letter that slot or witness has passed has a record for people.
    pub(super) fn check_letters(&mut self, furthest: PgLsn, rows: &Rows, letters: &[Uuid]) {
        self.held.letters.extend(letters);
        for (id, row) in rows.iter().filter(|(_, row)| row.code.is_some()) {
            let is_passed = self.commits.get(id).is_some_and(|commit| commit.end <= furthest);
            if is_passed && !self.held.letters.contains(id) && self.held.unwritten.insert(*id) {
                self.violations
                    .push(format!("dead letter {id} before {furthest} has no record: {row:?}"));
            }
        }
    }

    /// Checks what became of the rows, and replaces those of the last check.
    pub(super) fn take_rows(&mut self, rows: Rows, observed: &Observation<'_>) {
        self.check_changes(&rows);
        let waiting = self.waiting_letters(&rows);
        self.check_passed(&waiting);
        let sessions = observed.interruptions + 1;
        for (id, row) in &rows {
            let is_behind = |(_, commit_lsn): &(Uuid, PgLsn)| *commit_lsn <= row.commit_lsn;
            let may_leave = !waiting.get(&row.key).is_some_and(is_behind);
            if may_leave && !self.was_closed(id) {
                *self.held.sessions.entry(*id).or_default() += sessions;
            }
            let may_come = self.held.sessions.get(id).copied().unwrap_or_default();
            let came = self.held.records.get(id).copied().unwrap_or_default();
            if came > may_come {
                // It is reported once.
                self.held.records.insert(*id, may_come);
                self.violations.push(format!(
                    "event {id} came {came} times out of the table, in {may_come} sessions"
                ));
            }
        }
        self.check_closed(&rows, observed);
        self.held.rows = rows;
    }

    /// A session closes what has come out of the table before it reads more and before it drains:
    /// what this process leaves open was read by sessions that were lost or killed.
    fn check_closed(&mut self, rows: &Rows, observed: &Observation<'_>) {
        let came = std::mem::take(&mut self.held.came);
        let open = rows.iter().filter(|(_, row)| !row.state.is_closed()).map(|(id, _)| id);
        let in_kafka: Vec<&Uuid> = open.filter(|id| self.arrived.contains(*id)).collect();
        self.held.unclosed = in_kafka.len();
        let of_this_process = in_kafka.into_iter().filter(|id| came.contains(*id)).count();
        let cut_off = observed.interruptions + observed.ending.cuts_off();
        let limit = RELEASED_AT_ONCE * cut_off;
        if of_this_process > limit {
            self.violations.push(format!(
                "{of_this_process} events came out of the table, and their rows are still open \
                 after {cut_off} interruptions, more than {limit}"
            ));
        }
    }

    /// Counts events that have left the table as delivered while responses were held: `before` is
    /// the table when that began, before anybody had decided about its dead letters.
    pub(crate) fn check_release_while_held(&mut self, before: &[HeldRow], after: &[HeldRow]) {
        let is_waiting = |row: &&HeldRow| row.code.is_some() && row.state == HeldState::Held;
        let letters: Vec<&HeldRow> = before.iter().filter(is_waiting).collect();
        let is_behind = |row: &&HeldRow| {
            let is_before =
                |letter: &&HeldRow| letter.key == row.key && letter.commit_lsn <= row.commit_lsn;
            letters.iter().any(is_before)
        };
        let behind: HashSet<Uuid> = before.iter().filter(is_behind).map(|row| row.id).collect();
        for row in after {
            if behind.contains(&row.id) && row.state == HeldState::Delivered {
                self.counts.left_ahead += 1;
                self.violations.push(format!(
                    "event {} has left the table as delivered, while responses were held",
                    row.id
                ));
            }
        }
    }

    /// Checks that in the end every poisoned row is dropped, and every other row delivered.
    pub(crate) fn check_all_left(&mut self) {
        for (id, commit) in &self.commits {
            let state = self.held.rows.get(id).map(|row| row.state);
            let is_right = match commit.kind {
                RowKind::Poisoned => state == Some(HeldState::Dropped),
                RowKind::Event => state.is_none_or(|state| state == HeldState::Delivered),
            };
            if !is_right {
                self.violations.push(format!("{commit:?} ended in the table as {state:?}"));
            }
        }
    }

    /// Events up to a position that are in Kafka, and that the table has as open.
    pub(super) fn open_in_kafka_before(&self, position: PgLsn) -> usize {
        let is_before = |id: &Uuid| self.commits.get(id).is_some_and(|at| at.end <= position);
        let open = self.held.rows.iter().filter(|(_, row)| !row.state.is_closed());
        open.filter(|(id, _)| self.arrived.contains(*id) && is_before(id)).count()
    }

    fn was_closed(&self, id: &Uuid) -> bool {
        self.held.rows.get(id).is_some_and(|row| row.state.is_closed())
    }

    /// A row stays, and one whose event has left stays as it is. Only a poisoned row is a dead
    /// letter.
    fn check_changes(&mut self, rows: &Rows) {
        for (id, before) in &self.held.rows {
            match rows.get(id) {
                None => self.violations.push(format!("event {id} is gone from the table")),
                Some(now) if before.state.is_closed() && now.state != before.state => self
                    .violations
                    .push(format!("event {id} was {:?} and is {:?}", before.state, now.state)),
                Some(_) => {}
            }
        }
        for row in rows.values() {
            let is_given_up = matches!(row.state, HeldState::Dropping | HeldState::Dropped);
            if (row.code.is_some() || is_given_up) && !self.is_poisoned(&row.id) {
                self.violations.push(format!("a dead letter without a cause: {row:?}"));
            }
        }
    }

    fn is_poisoned(&self, id: &Uuid) -> bool {
        self.commits.get(id).is_some_and(|commit| commit.kind == RowKind::Poisoned)
    }

    /// The first poisoned row of each key that nobody has given up, and where its transaction's
    /// commit begins. It is the first row of its key in its transaction.
    fn waiting_letters(&self, rows: &Rows) -> HashMap<String, (Uuid, PgLsn)> {
        let mut waiting: HashMap<String, (Uuid, PgLsn)> = HashMap::new();
        for row in rows.values() {
            let is_undecided = matches!(row.state, HeldState::Held | HeldState::Requeued);
            if is_undecided && self.is_poisoned(&row.id) {
                let this = (row.id, row.commit_lsn);
                let first = waiting.entry(row.key.clone()).or_insert(this);
                if this.1 < first.1 {
                    *first = this;
                }
            }
        }
        waiting
    }

    /// Nothing of a key may be in Kafka that was committed after such a row.
    fn check_passed(&mut self, waiting: &HashMap<String, (Uuid, PgLsn)>) {
        for (key, (id, commit_lsn)) in waiting {
            let furthest = self.furthest.get(key).filter(|furthest| *furthest > commit_lsn);
            if let Some(furthest) = furthest
                && self.held.passed.insert(*id)
            {
                self.counts.passed += 1;
                self.violations.push(format!(
                    "key {key} is in Kafka up to {furthest}, past dead letter {id} at {commit_lsn}"
                ));
            }
        }
    }
}
