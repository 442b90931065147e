//! The witness: one small record per pipeline, kept in Kafka, which says how far everything is
//! acknowledged, on which server and in which cluster.
//!
//! The slot is the only position that anything resumes from. What the slot does not say is who
//! moved it, whether the server is still the one that it was, and whether somebody noticed that
//! rows may be missing. The witness says it, and it outlives every router. Two rules make it
//! evidence:
//!
//! * A position is told to the server only after the witness with that position is acknowledged. So
//!   a slot that stands past the witness was moved by somebody else.
//! * What the witness covers is believed only after its last transaction has come by again
//!   (`session/covered.rs`). So a server that was taken back to an earlier state, and has written
//!   other rows since, is recognised.
//!
//! A router that was stopped (SIGSTOP) or cut off may write late. Such a write must not count, and
//! it cannot be prevented: Kafka compares nothing before it stores a record. So a late write is
//! made harmless instead. Each session writes under a key of its own, and of all records of a
//! pipeline the one with the greatest (generation, timeline, [`Held`], position) counts
//! ([`combine`]). What starts a new history (a promotion, an acceptance by a person) or opens a gap
//! starts a new generation. Within one, whoever held the slot last counts, although an earlier
//! holder may have had more acknowledged: the later one has sent part of that again, and the rest
//! has to follow it, else the last record of a key would not be its last event. The next session
//! deletes the keys of those before it. A transactional producer was rejected: it fences by the
//! order of `initTransactions`, which is not the order in which sessions hold the slot, so a router
//! that wakes up late would fence the holder.

mod acceptance;
mod combine;
mod format;
mod keeper;
mod key;
mod record;

pub use crate::{
    progress::LastTransaction,
    protocol::{StateRecord, Write},
    source::{Held, History},
};
pub use acceptance::Open;
pub use combine::combine;
pub use format::Unreadable;
pub(crate) use keeper::{Keeper, Seen, Since, Want};
pub use key::Pipeline;
pub use record::{ACCEPTED_MAX, Acceptance, Former, Witness};
