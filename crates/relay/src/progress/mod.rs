//! From an acknowledgement to a confirmed position: which position may be confirmed, and when a
//! status update is due.

pub(crate) mod feedback;
pub(crate) mod ledger;
pub(crate) mod ticket;
pub(crate) mod transaction;
pub(crate) mod window;
mod witness_store;

pub use feedback::Timing;
pub use ledger::ConfirmedLsn;
pub(crate) use ledger::{NextRow, Unacked};
pub use ticket::{SessionId, Ticket, TransactionRef};
pub use transaction::LastTransaction;
pub use window::Window;
pub use witness_store::WitnessStore;
