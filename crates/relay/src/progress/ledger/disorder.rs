//! What the ledger refuses to count: messages out of order, or more acknowledgements than records.

use pgoutput::Lsn;

use crate::failure::{Code, Failure};

/// The stream or the acknowledgements broke an order that the ledger relies on, so it can prove
/// nothing more.
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
        /// The commit position that the Begin message announced.
        begin: Lsn,
        /// The commit position of the Commit message.
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
        Self::from_error(Code::Protocol, disorder)
    }
}
