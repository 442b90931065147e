//! The way back: which position may be confirmed, and when the server is told.

pub(crate) mod feedback;
pub(crate) mod ledger;
pub(crate) mod ticket;

pub use feedback::Timing;
pub use ledger::{ConfirmedLsn, Window};
pub use ticket::{SessionId, Ticket, TransactionRef};
