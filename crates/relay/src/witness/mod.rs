//! The witness: one small record per pipeline, kept in Kafka, which says up to which position
//! everything is acknowledged, on which server and in which cluster.
//!
//! The slot is the only position to resume from. But a slot does not show whether somebody else
//! moved it, whether the server is still the same, and whether a router found that rows may be
//! missing. The witness shows all three, and it outlives every router process. Two rules let it
//! show this:
//!
//! * A position is confirmed only after the witness with that position is acknowledged. So a slot
//!   that stands past the witness was moved by somebody else.
//! * Where the slot stands before the witness, nothing is confirmed until the server has sent the
//!   witness's last transaction again (`session/covered.rs`). So a server that was restored to an
//!   earlier state, and has written other rows since, is recognised.
//!
//! A router that was stopped (SIGSTOP) or cut off may write late. Such a write must not count, and
//! it cannot be prevented: Kafka has no conditional write. So a late write is made harmless
//! instead. Each session writes under a key of its own, and of all records of a pipeline the one
//! with the greatest (generation, timeline, [`ServerMoment`], position) counts ([`combine`]). A
//! gap, the acceptance of a gap, and a session on a server that stands before the last holder's
//! moment each begin a new generation. Within a generation the record of the last holder
//! of the slot counts, although an earlier holder may have had more acknowledged: the later holder
//! has sent part of that again, and the rest has to follow, else the last record of a key would not
//! be its last event. The next session deletes the keys of earlier sessions.
//!
//! A *record* is what one writer has stored under its key. The *witness* is what all records of a
//! pipeline make together ([`combine`]). Both have the type [`Witness`].
//!
//! A transactional producer was rejected: it fences by the order of `initTransactions`, which is
//! not the order in which sessions hold the slot, so a router that resumes late would fence the
//! holder.
//!
//! [`ServerMoment`]: crate::source::ServerMoment

mod acceptance;
mod combine;
mod format;
mod keeper;
mod key;
mod lost;
mod record;
mod topics;

pub use crate::progress::{LastTransaction, WitnessStore};
pub use acceptance::OpenFinding;
pub use combine::combine;
pub use format::Unreadable;
pub(crate) use keeper::{Keeper, OthersChange, StateTopicChange, TakenBack, WriteUrgency};
pub use key::WitnessKey;
pub use lost::{KnownTopic, LostTopic, ProducedTo, TopicSight, TopicUuid};
pub use record::{ACCEPTED_MAX, Acceptance, Detached, Former, Notes, Recovered, Witness};
