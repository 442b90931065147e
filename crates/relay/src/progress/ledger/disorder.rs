//! What breaks the books: messages out of order, or more acknowledgements than records.

use pgoutput::Lsn;

use crate::failure::{Code, Failure};

/// The order of messages that the ledger relies on was broken: the stream is not what it claims to
/// be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Disorder {
    /// Begin inside a transaction.
    #[error("a transaction begins inside another")]
    NestedBegin,
    /// Commit without a transaction.
    #[error("a commit without a begin")]
    CommitWithoutBegin,
    /// A row outside a transaction.
    #[error("a row outside a transaction")]
    RowOutsideTransaction,
    /// The commit names another position than its begin did.
    #[error("the commit at {commit} does not match its begin, which announced {begin}")]
    WrongCommit {
        /// As announced.
        begin: Lsn,
        /// As committed.
        commit: Lsn,
    },
    /// A transaction ends before it commits, or before an earlier one.
    #[error("position {0} lies before one that was already received")]
    Backwards(Lsn),
    /// More acknowledgements than records.
    #[error("more acknowledgements than records")]
    Overcredit,
}

impl From<Disorder> for Failure {
    fn from(disorder: Disorder) -> Self {
        Self::new(Code::Protocol, disorder.to_string())
    }
}
