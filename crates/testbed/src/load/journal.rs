//! What writers know and the database does not: what they rolled back, and what failed.

use uuid::Uuid;

/// What one writer, or all of them, did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal {
    /// Events whose commit was acknowledged by the server.
    pub committed: u64,
    /// Ids that were written and rolled back: none may ever appear in Kafka.
    pub rolled_back: Vec<Uuid>,
    /// Transactions that failed.
    pub failures: u64,
}

impl Journal {
    pub(super) fn merge(&mut self, other: Self) {
        self.committed += other.committed;
        self.rolled_back.extend(other.rolled_back);
        self.failures += other.failures;
    }
}
