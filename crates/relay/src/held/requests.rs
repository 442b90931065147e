//! What the core asks of the table, and the answers. One request runs at a time.
//!
//! A request is carried out only while the walsender of the session that makes it holds the slot:
//! else it fails with P012, and the session ends. And it is carried out only when every earlier
//! request, of whichever router and connection, has ended. Without the first, a router that has
//! lost the slot, or whose server was replaced behind the same address, would write events of
//! another history, by whose positions later events would be taken for known. Without the second,
//! an event could get into the table after the present session has produced it.

use std::sync::Arc;

use pgoutput::{Lsn, PgTimestamp};

use super::{EventId, HeldEvent, KeyHash, Letter, TableMark, TableVersion};
use crate::{failure::Code, witness::Notes};

/// How many keys one answer to [`HeldRequest::ReadDecided`] has at most.
pub const DECIDED_MAX: usize = 1_000;

/// A request to the table of held events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldRequest {
    /// Read what is held, and which events of transactions that commit at or after `since` are in
    /// the table. Answer: [`HeldAnswer::Loaded`], or [`HeldAnswer::Absent`].
    Load {
        /// Where the slot stands.
        since: Lsn,
        /// Where the number of open events comes from.
        open: OpenCount,
    },
    /// Write these events, all or none, leaving out those that are in the table already; the
    /// answer, [`HeldAnswer::Inserted`], comes when they are durable.
    Insert(Arc<[HeldEvent]>),
    /// Read the keys about whose dead letters a person has decided, [`DECIDED_MAX`] at most, any of
    /// them. Answer: [`HeldAnswer::Decided`].
    ReadDecided,
    /// Read the first events of these keys that may leave the table, in their order: each key's
    /// events up to its first dead letter about which nobody has decided. Answer:
    /// [`HeldAnswer::Next`].
    ReadNext {
        /// The keys.
        keys: Vec<KeyHash>,
        /// The most events.
        events: usize,
        /// The most bytes, except for a single event.
        bytes: usize,
    },
    /// Read whether a person has decided that this event, at which the session waits, is skipped.
    /// Answer: [`HeldAnswer::Skipped`]; it is not where the table does not exist.
    ReadSkip {
        /// The event.
        id: EventId,
        /// The value of its id column, where it can be read.
        event_id: Option<String>,
        /// Its table: a row of another one may have the same id in the same transaction.
        table: String,
    },
    /// Write how these events have left, all or none, as far as they are open. Answer:
    /// [`HeldAnswer::Closed`].
    Close {
        /// The events.
        leaving: Vec<Leaving>,
        /// The last write before this one. If the table has another write since, that is this
        /// one, whose answer was lost: then nothing is written, because a person may have decided
        /// since.
        after: Option<TableVersion>,
    },
}

/// Where the table's number of open events comes from when a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenCount {
    /// Its writes, which count what they add and close: events that somebody else has removed are
    /// missed.
    Recorded,
    /// Its rows, and it is recorded: nothing relies on events that are gone, or a person has
    /// accepted that they are.
    Counted,
}

/// An answer of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldAnswer {
    /// To [`HeldRequest::Load`]: the table does not exist.
    Absent,
    /// To [`HeldRequest::Load`].
    Loaded(Box<Loaded>),
    /// To [`HeldRequest::Insert`]: what the table is after this write.
    Inserted(TableMark),
    /// To [`HeldRequest::ReadDecided`].
    Decided(Vec<KeyHash>),
    /// To [`HeldRequest::ReadNext`].
    Next(Vec<(HeldEvent, Decision)>),
    /// To [`HeldRequest::ReadSkip`]: the database's notes when the decision was there.
    Skipped(Option<Notes>),
    /// To [`HeldRequest::Close`].
    Closed(Closed),
}

/// The table after events have left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// What the table is after this write.
    pub mark: TableMark,
    /// Each key of these events, with its first event that is open then.
    pub first: Vec<(KeyHash, Option<(EventId, PgTimestamp)>)>,
}

/// What the table holds when a session begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// What the writes of this pipeline have made of the table.
    pub mark: TableMark,
    /// Each key that has open events, and what it has.
    pub keys: Vec<(KeyHash, KeyTotals)>,
    /// Keys whose first open event may leave: a release was interrupted.
    pub leaving: Vec<KeyHash>,
    /// The events of transactions that the server may send again.
    pub known: Vec<(EventId, KnownAs)>,
}

/// What an event is, that is in the table when it comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownAs {
    /// A dead letter that is open, with its code.
    OpenLetter(Code),
    /// Delivered. It is produced again with the events of its key that come again before it, so
    /// that the last record of the key is its last event.
    Delivered,
    /// Held behind a dead letter, or dropped.
    Settled,
}

/// The open events of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTotals {
    /// How many.
    pub events: u64,
    /// Their [`HeldEvent::bytes`].
    pub bytes: u64,
    /// When the transaction of the first was committed.
    pub oldest: PgTimestamp,
    /// The first; without one, any.
    pub first: EventId,
}

/// What a person has decided about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// To deliver it. An event that is held behind a dead letter needs no decision.
    Deliver,
    /// Not to deliver it.
    Drop,
}

/// How an event leaves the table, or stays in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// The event.
    pub id: EventId,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an event that was to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Kafka has acknowledged it.
    Delivered,
    /// It is not delivered, as a person has decided.
    Dropped,
    /// It cannot be delivered, again or for the first time: it is a dead letter that waits.
    Refused(Letter),
}
