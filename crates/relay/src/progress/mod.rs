//! The way back: which position may be confirmed, and when the server is told.

pub(crate) mod feedback;
pub(crate) mod ledger;
pub(crate) mod ticket;
pub(crate) mod transaction;
pub(crate) mod window;

pub use feedback::Timing;
pub use ledger::ConfirmedLsn;
pub use ticket::{SessionId, Ticket, TransactionRef};
pub use transaction::LastTransaction;
pub use window::Window;
