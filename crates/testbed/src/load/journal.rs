//! What writers know and the database does not: what they rolled back, and what failed.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

/// What one writer, or all of them, did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    /// Events whose commit was acknowledged by the server.
    pub committed: u64,
    /// Transactions whose commit was acknowledged by the server.
    pub transactions: u64,
    /// Ids that were written and rolled back: none may ever appear in Kafka.
    pub never: Vec<Uuid>,
    /// Ids whose commit was sent and not acknowledged: the ledger shows whether they were
    /// committed.
    pub unknown: Vec<Uuid>,
    /// Transactions that failed.
    pub failures: u64,
}

impl Journal {
    pub(super) fn merge(&mut self, other: Self) {
        self.committed += other.committed;
        self.transactions += other.transactions;
        self.never.extend(other.never);
        self.unknown.extend(other.unknown);
        self.failures += other.failures;
    }
}

/// What can be seen while the writers work.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) committed: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Progress {
    pub(super) fn note_error(&self, error: &anyhow::Error) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(format!("{error:#}"));
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
