//! Rows that could not be delivered and wait for another attempt, as this worker has seen them.
//!
//! Where the table has no columns for attempts and the time of the next, this is where they are
//! kept, and a restart begins to count again. Where it has, they are kept there, and here only so
//! that the state says why a row is not delivered.

use std::collections::BTreeMap;

use super::{pending_row::RowKey, row_id::RowId};
use crate::{clock::Moment, failure::Failure};

/// For how long a row is remembered after it was due: it may have been delivered by a person, or
/// deleted.
const REMEMBERED: std::time::Duration = std::time::Duration::from_secs(60);

/// The rows of one table that wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    rows: BTreeMap<RowId, Wait>,
}

/// A row that waits.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    pub(super) key: RowKey,
    pub(super) attempts: u32,
    pub(super) until: Moment,
    pub(super) failure: Failure,
}

impl Waits {
    pub(super) fn insert(&mut self, id: RowId, wait: Wait) {
        self.rows.insert(id, wait);
    }

    /// The row was delivered, or abandoned.
    pub(super) fn remove(&mut self, id: &RowId) {
        self.rows.remove(id);
    }

    /// How often a row could not be delivered, as far as is remembered.
    pub(super) fn attempts(&self, id: &RowId) -> u32 {
        self.rows.get(id).map_or(0, |wait| wait.attempts)
    }

    /// The keys of the rows that wait still, as they were when these were tried: a row that was
    /// given another one since is read, and tried, in its turn with the rows of that key.
    pub(super) fn keys(&self, at: Moment) -> Vec<RowKey> {
        let waiting = self.rows.values().filter(|wait| wait.until > at);
        let mut keys: Vec<RowKey> = waiting.map(|wait| wait.key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The rows that wait still.
    pub(super) fn ids(&self, at: Moment) -> Vec<RowId> {
        let waiting = self.rows.iter().filter(|(_, wait)| wait.until > at);
        waiting.map(|(id, _)| id.clone()).collect()
    }

    /// When the first row that waits is due.
    pub(super) fn next_due(&self, at: Moment) -> Option<Moment> {
        self.rows.values().map(|wait| wait.until).filter(|until| *until > at).min()
    }

    /// Forgets rows that were due some time ago and did not fail again.
    pub(super) fn forget(&mut self, at: Moment) {
        self.rows.retain(|_, wait| wait.until + REMEMBERED > at);
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Why a row waits: that of the row with the most attempts.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure_that(|_| true)
    }

    /// The same, of those rows whose failure is such a one.
    pub(super) fn failure_that(&self, is_meant: impl Fn(&Failure) -> bool) -> Option<&Failure> {
        let meant = self.rows.values().filter(|wait| is_meant(&wait.failure));
        meant.max_by_key(|wait| wait.attempts).map(|wait| &wait.failure)
    }
}
