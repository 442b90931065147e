//! Events that wait in a table of the same database, `outbox_router.held`, instead of stopping the
//! stream: *dead letters*, which cannot be delivered, and the later events of their keys, which are
//! held behind them in order.
//!
//! # Why this is right
//!
//! An event is settled when Kafka has acknowledged it, *or* when its row in the table is committed.
//! The ledger does not know the difference: an event that is held has a ticket like any other, and
//! the commit of its row redeems it (`queue`). So the confirm rule is unchanged, and after a
//! crash the server sends every event again that is neither in Kafka nor in the table.
//!
//! An event is known by its transaction's commit LSN and its number among the inserts of that
//! transaction ([`EventId`]). Logical decoding gives the same for the same WAL, so an event that
//! comes again is found in the table, and is neither held twice nor produced past it (`keys`).
//!
//! Order within a key: while a key has events in the table, its next events go there, too. Events
//! leave the table in the order in which they came, through the same producer (`release`), and
//! the key is free only when the table says that none is left and none waits to be written. So
//! nothing of a key passes an event of it.
//!
//! What a person decides (to requeue or to drop a dead letter) is a change of the row's state in
//! the table, by SQL. Only the router produces, and only the router closes a row; so what the core
//! remembers of the table changes by its own requests alone, of which one runs at a time
//! (`requests`).
//!
//! The table is only as good as the database's history. A promotion, a backup or a person may take
//! it back; the witness keeps its version, so that this is found (`version`).
//!
//! The whole message is kept, with the Relation message that describes it, and not the record: a
//! row that could not become a record is routed again when it is requeued, by the configuration of
//! that time.

pub(crate) mod behind;
pub(crate) mod decisions;
pub(crate) mod event;
pub(crate) mod event_id;
pub(crate) mod holding;
pub(crate) mod key_hash;
pub(crate) mod keys;
pub(crate) mod messages;
pub(crate) mod policy;
pub(crate) mod queue;
pub(crate) mod release;
pub(crate) mod requests;
pub(crate) mod settings;
pub(crate) mod skipping;
pub(crate) mod suspects;
pub(crate) mod version;

pub use behind::{TableFound, TableReading};
pub use event::{HeldEvent, Letter};
pub use event_id::EventId;
pub use key_hash::KeyHash;
pub use keys::HeldLimits;
pub use messages::HeldMessages;
pub use policy::{ErrorClass, ErrorPolicy, OnError};
pub use requests::{
    Closed, DECIDED_MAX, Decision, HeldAnswer, HeldRequest, KeyTotals, KnownAs, Leaving, Loaded,
    OpenCount, Outcome,
};
pub use settings::{HeldSettings, HoldKeys};
pub use version::{TableMark, TableVersion};
