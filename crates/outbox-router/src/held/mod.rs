//! The table of held events, `outbox_router.held`: its definition, and the requests of the core as
//! SQL. [`relay::held`] says what is held, and why nothing is lost or reordered by it.
//!
//! One [`HeldStore`] belongs to one router. It has a connection of its own, and carries out one
//! request at a time. `session` opens the connection and sees to it that no earlier one is still
//! at work; `load`, `insert`, `release`, `close` and `skip` are the requests.

mod close;
mod existence;
mod failure;
mod insert;
mod load;
mod notes;
mod pipeline;
mod reading;
mod release;
pub mod schema;
mod session;
mod skip;
mod store;
mod stream;
mod values;
mod version;

pub(crate) use existence::{Readability, are_readable, exists, readability};
pub(crate) use notes::{
    count_note, count_note_if_allowed, make_note_version, note_writes, notes, set_note_writes,
};
pub use pipeline::Pipeline;
pub(crate) use reading::{is_table_readable, not_of_others, read_table};
pub use store::{HeldStore, Keep};
pub use stream::HeldStream;
pub(crate) use version::check_own;

/// The code of rows that did not arrive whole.
pub(crate) const CUT: &str = relay::Code::RowTooLarge.as_str();
