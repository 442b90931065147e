//! What became of the row that was taken last, for somebody who looks on (`outbox-router tap`).
//!
//! It is found out afterwards, from what the row has left behind; and its record is made a second
//! time, which gives the same. So the way of a row knows nothing of it. A sink that looks on was
//! rejected: with a second kind of sink the compiler makes every function of that way twice, and
//! inlines fewer of them. In the program of `scripts/instructions.sh` each event then cost 8 % more
//! instructions while nobody looked.

use pgoutput::{Frame, Insert, Oid, PgTimestamp, parse_insert_prefix};

use super::{Row, Session, held_row::HeldRow};
use crate::{
    failure::Code,
    held::{EventId, KnownAs, holding::Holding},
    routing::{
        record::Record,
        route::{Original, OriginalValue},
        topics::Topics,
    },
};

/// A row of an outbox that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRow<'a> {
    /// What it is known by.
    pub id: EventId,
    /// The commit time of its transaction.
    pub committed_at: PgTimestamp,
    /// Its table, for [`crate::Relay::table_name`].
    pub table: Oid,
    /// The value of the column that chooses the topic, if the table has one.
    pub aggregate_type: Option<&'a [u8]>,
    /// The value of the column of the event's type, if the table has one.
    pub event_type: Option<&'a [u8]>,
}

/// What became of a row of an outbox.
#[derive(Debug, Clone, Copy)]
pub enum Fate<'a> {
    /// This record was given to the producer.
    Produced(&'a Record<'a>),
    /// It has no record, for this reason. The record would have been this, as far as it can be
    /// made.
    Without(Reason, &'a Unsent),
}

/// Why a row has no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It goes into the table of held events, behind an earlier event of its key.
    Held,
    /// It can never be delivered, and goes into the table of held events.
    DeadLetter(Code),
    /// A person has given it up.
    Skipped,
    /// The table's `where` leaves it out.
    Filtered,
    /// It came again after a restart, and is in the table of held events, or was delivered out of
    /// it.
    Repeated,
}

/// What the record of a row would have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unsent {
    /// Its topic.
    pub topic: Option<String>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value: `None` where it is not known, `Some(None)` for Kafka's null.
    pub value: Option<Option<Vec<u8>>>,
    /// Its headers.
    pub headers: Vec<(String, Option<String>)>,
}

impl From<(Original, Option<Vec<u8>>)> for Unsent {
    fn from((original, key): (Original, Option<Vec<u8>>)) -> Self {
        let Original { value, headers, topic } = original;
        let value = match value {
            OriginalValue::Known(value) => Some(value),
            OriginalValue::LeftOut => None,
        };
        Self { topic, key, value, headers }
    }
}

/// Is told of a row.
pub type Onlooker<'o> = dyn FnMut(LastRow<'_>, Fate<'_>) + 'o;

impl Session {
    /// Whether a frame that was taken a moment ago has a row of an outbox, and one that no earlier
    /// session has produced.
    pub(crate) fn has_row(&self, payload: &[u8]) -> bool {
        let Ok(Frame::XLogData(data)) = Frame::parse(payload) else { return false };
        let relation = match Insert::parse(data.data) {
            Some(Ok(insert)) => insert.relation,
            Some(Err(_)) | None => return false,
        };
        !self.is_within_covered() && self.rows.router(relation).is_some()
    }

    /// Tells of the row in a frame that was taken a moment ago, of which only the beginning may
    /// have been kept; nothing of a frame without a row of an outbox, and of a row that an earlier
    /// session has produced.
    #[cold]
    #[inline(never)]
    pub(crate) fn last_row(
        &mut self,
        payload: &[u8],
        topics: &mut Topics,
        held: &Holding,
        onlooker: &mut Onlooker<'_>,
    ) {
        let Ok(Frame::XLogData(data)) = Frame::parse(payload) else { return };
        match Insert::parse(data.data) {
            Some(Ok(insert)) => {
                self.row_taken(HeldRow::Whole(insert, data.data), topics, held, onlooker);
            }
            Some(Err(_)) => {
                if let Ok(prefix) = parse_insert_prefix(data.data) {
                    self.row_taken(HeldRow::Cut(&prefix), topics, held, onlooker);
                }
            }
            None => {}
        }
    }

    fn row_taken(
        &mut self,
        row: HeldRow<'_>,
        topics: &mut Topics,
        held: &Holding,
        onlooker: &mut Onlooker<'_>,
    ) {
        let Some(commit_lsn) = self.ledger.open_commit_lsn() else { return };
        let Some(index) = self.inserts.checked_sub(1) else { return };
        let id = EventId { commit_lsn, index };
        let Some([aggregate_type, event_type]) = self.rows.types(row) else { return };
        if self.is_within_covered() {
            return;
        }
        let (table, committed_at) = (row.relation(), self.committed_at);
        let last = LastRow { id, committed_at, table, aggregate_type, event_type };
        let reason = match self.reason(id, held) {
            Some(reason) => reason,
            None => {
                let HeldRow::Whole(insert, _) = row else { return };
                let produced = self.rows.route_held(&insert, committed_at, topics, |record, _| {
                    onlooker(last, Fate::Produced(record));
                });
                match produced {
                    Row::FilteredOut => Reason::Filtered,
                    Row::Refused(_) => Reason::Repeated,
                    Row::Event(()) | Row::NotOutbox | Row::TopicPending(_) => return,
                }
            }
        };
        let key = self.rows.key(table, row.columns(), row.arrived()).map(<[u8]>::to_vec);
        let original = self.rows.original(table, row.columns(), row.arrived());
        onlooker(last, Fate::Without(reason, &Unsent::from((original, key))));
    }

    /// Why an event was not routed, as far as what it has left behind shows.
    fn reason(&self, id: EventId, held: &Holding) -> Option<Reason> {
        if let Some(code) = held.letter_of(id) {
            return Some(Reason::DeadLetter(code));
        }
        if held.is_skipped(id) {
            return Some(Reason::Skipped);
        }
        if held.is_queued(id) {
            return Some(Reason::Held);
        }
        match held.keys.known(id)? {
            KnownAs::Settled | KnownAs::OpenLetter(_) => Some(Reason::Repeated),
            // It is produced again, unless it cannot be.
            KnownAs::Delivered => held.refusals.culprit(id).map(|_| Reason::Repeated),
        }
    }

    /// The name of a table that is an outbox.
    pub(crate) fn table_name(&self, table: Oid) -> Option<String> {
        self.rows.router(table).map(|router| router.table().name.to_string())
    }
}
