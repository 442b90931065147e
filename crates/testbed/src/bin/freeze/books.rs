//! What must be in Kafka and what is, kept from one look to the next: the judge of each single kill.
//!
//! Nothing here reads a clock or a server, and nothing is allowed for time: every position was read while the router was
//! dead. What takes the whole history to judge (order, content) is judged at the end, by the checker.

use std::collections::{BTreeMap, HashMap, HashSet};

use tokio_postgres::types::PgLsn;
use uuid::Uuid;

use crate::observer::Commit;

/// What the server remembers of the slot's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// What it was told last.
    Kept,
    /// What it was told when the slot was last saved: it was stopped since, and does not save slots then.
    Lost,
}

/// How the router's life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Whatever was not confirmed will come again.
    Killed,
    /// In order, by its own word: nothing has to come again.
    Drained,
}

/// What a dead router left behind.
#[derive(Debug)]
pub(crate) struct Sight<'a> {
    /// The slot's `confirmed_flush_lsn`.
    pub(crate) confirmed: PgLsn,
    /// What the router has confirmed in this life, by what went over the wire: the server may not have taken all of it.
    pub(crate) told: PgLsn,
    /// Everything committed since the last look, and at least up to `confirmed` and `told`.
    pub(crate) commits: &'a [Commit],
    /// New records that were in Kafka when the router had just died.
    pub(crate) records: &'a [Uuid],
    /// New records that came later: requests that were still on their way.
    pub(crate) late: &'a [Uuid],
    /// How often the router lost a session since the last look, beside having been killed then.
    pub(crate) interruptions: usize,
    /// What `confirmed` is worth.
    pub(crate) memory: Memory,
    /// How it came to be dead.
    pub(crate) ending: Ending,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Records that were there already.
    pub(crate) duplicates: usize,
    /// Of these, those that had not been confirmed: what the window bounds.
    pub(crate) unconfirmed: usize,
}

/// The books.
#[derive(Debug)]
pub(crate) struct Books {
    window: usize,
    ends: HashMap<Uuid, PgLsn>,
    /// Events of each transaction.
    sizes: BTreeMap<PgLsn, usize>,
    /// Committed and not yet in Kafka.
    missing: BTreeMap<PgLsn, HashSet<Uuid>>,
    arrived: HashSet<Uuid>,
    /// Where the slot stood at the last look.
    confirmed: PgLsn,
    /// Events of the newest transaction that was in Kafka at the last look: it may have been open, and alone may exceed
    /// the window.
    newest: usize,
    /// How the life before the present one ended.
    before: Ending,
    /// What the router had confirmed at the last look. When less of it reached the slot, it is sent again, and that is not
    /// the router's doing.
    told: PgLsn,
    ahead: usize,
    duplicates: usize,
    /// Of these, repeated because the server did not take, or forgot, what it was told.
    excused: usize,
    violations: Vec<String>,
}

impl Books {
    /// Empty books; `window` is the router's `limits.window_events`.
    pub(crate) fn new(window: usize) -> Self {
        Self {
            window,
            ends: HashMap::new(),
            sizes: BTreeMap::new(),
            missing: BTreeMap::new(),
            arrived: HashSet::new(),
            confirmed: PgLsn::from(0),
            newest: 0,
            before: Ending::Drained,
            told: PgLsn::from(0),
            ahead: 0,
            duplicates: 0,
            excused: 0,
            violations: Vec::new(),
        }
    }

    /// Takes note of commits.
    pub(crate) fn commit(&mut self, commits: &[Commit]) {
        for commit in commits {
            self.ends.insert(commit.id, commit.end);
            *self.sizes.entry(commit.end).or_default() += 1;
            if !self.arrived.contains(&commit.id) {
                self.missing.entry(commit.end).or_default().insert(commit.id);
            }
        }
    }

    /// Judges what one life of the router left behind.
    pub(crate) fn look(&mut self, sight: &Sight<'_>) -> Finding {
        self.commit(sight.commits);
        if sight.confirmed < self.confirmed && sight.memory == Memory::Kept {
            self.violations.push(format!(
                "confirmed_flush_lsn went back from {} to {}",
                self.confirmed, sight.confirmed
            ));
        }
        if sight.confirmed < sight.told && sight.ending == Ending::Drained {
            self.violations.push(format!(
                "drained, but confirmed_flush_lsn is {} and not {}, as the server was told",
                sight.confirmed, sight.told
            ));
        }
        let first = self.arrive(sight.records);
        self.nothing_is_missing_before(sight.confirmed.max(sight.told));
        let late = self.arrive(sight.late);
        let duplicates = first.all + late.all;
        self.duplicates += duplicates;
        self.excused += duplicates - first.counted - late.counted;

        let newest = self.newest_in_kafka();
        let largest = std::mem::replace(&mut self.newest, newest).max(newest);
        let interruptions = sight.interruptions
            + match std::mem::replace(&mut self.before, sight.ending) {
                Ending::Killed => 1,
                Ending::Drained => 0,
            };
        let limit = (self.window + largest) * interruptions;
        let counted = first.counted + late.counted;
        if counted > limit {
            self.violations.push(format!(
                "{counted} duplicates after {interruptions} interruptions, more than {limit}"
            ));
        }
        self.confirmed = sight.confirmed;
        self.told = self.told.max(sight.told);
        Finding { duplicates, unconfirmed: counted }
    }

    /// Counts events that the slot left behind although they were not acknowledged, by the position alone: the answers
    /// to everything committed after `held_from` were held back.
    pub(crate) fn look_while_held(&mut self, held_from: PgLsn, confirmed: PgLsn) {
        let passed: usize = self
            .sizes
            .range(..=confirmed)
            .filter(|(end, _)| **end > held_from)
            .map(|(_, size)| size)
            .sum();
        if passed > 0 {
            self.ahead += passed;
            self.violations.push(format!(
                "{confirmed} was confirmed while answers to everything after {held_from} were held: {passed} events"
            ));
        }
    }

    /// Where the first transaction with events after `position` ends.
    pub(crate) fn first_end_after(&self, position: PgLsn) -> Option<PgLsn> {
        self.sizes.keys().copied().find(|end| *end > position)
    }

    /// Events committed so far.
    pub(crate) fn committed(&self) -> usize {
        self.ends.len()
    }

    /// Events that were confirmed and were not in Kafka.
    pub(crate) fn ahead(&self) -> usize {
        self.ahead
    }

    /// Records beyond the first of their event.
    pub(crate) fn duplicates(&self) -> usize {
        self.duplicates
    }

    /// Of the duplicates, those that were confirmed before, to a server that did not take it or forgot.
    pub(crate) fn excused(&self) -> usize {
        self.excused
    }

    /// What was wrong, in words.
    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
    }

    fn arrive(&mut self, records: &[Uuid]) -> Repeated {
        let mut repeated = Repeated::default();
        for id in records {
            let end = self.ends.get(id).copied();
            if !self.arrived.insert(*id) {
                repeated.all += 1;
                repeated.counted += usize::from(end.is_none_or(|end| end > self.told));
                if end.is_some_and(|end| end <= self.confirmed) {
                    self.violations
                        .push(format!("event {id} was sent again after it was confirmed"));
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
        repeated
    }

    fn nothing_is_missing_before(&mut self, confirmed: PgLsn) {
        let rest = self.missing.split_off(&PgLsn::from(u64::from(confirmed) + 1));
        let ahead: Vec<Uuid> =
            std::mem::replace(&mut self.missing, rest).into_values().flatten().collect();
        if let Some(first) = ahead.first() {
            self.ahead += ahead.len();
            self.violations.push(format!(
                "{confirmed} is confirmed, but {} events before it are not in Kafka, such as {first}",
                ahead.len()
            ));
        }
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

/// Records that were there already.
#[derive(Debug, Clone, Copy, Default)]
struct Repeated {
    all: usize,
    /// Without those that were confirmed before.
    counted: usize,
}

#[cfg(test)]
mod tests;
