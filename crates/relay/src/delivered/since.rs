//! From where on rows are events, place by place.

use pgoutput::{Oid, PgTimestamp, Xid};

use super::xid::FullXid;

/// From where on the rows of a table, or of a partition, are events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventsSince {
    /// The first transaction of which every row is an event: when it began, the table was in the
    /// publication, and the slot existed. Zero where all rows are.
    pub xid: FullXid,
    /// The server's clock then, if there were rows before. Such a row gets a younger transaction
    /// when it is updated, or when ALTER TABLE rewrites it; so rows with an older time stay, too.
    pub older: Option<PgTimestamp>,
}

impl EventsSince {
    /// Every row is an event.
    pub const FIRST_ROW: Self = Self { xid: FullXid::from_u64(0), older: None };

    /// Whether a row with this `xmin` and this time is an event. `next` is an id that no
    /// transaction has yet.
    pub fn has_event(self, xmin: Xid, time: Option<PgTimestamp>, next: FullXid) -> bool {
        let is_late = |older| time.is_some_and(|time| time > older);
        self == Self::FIRST_ROW
            || FullXid::of_past(xmin, next).is_some_and(|xid| xid >= self.xid)
                && self.older.is_none_or(is_late)
    }
}

/// A place of rows. A partition that was attached again is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The table or partition.
    pub oid: Oid,
    /// The transaction that attached it (`pg_inherits`, `xmin`); `None`: the outbox itself.
    pub attached_by: Option<u32>,
}

impl Place {
    /// An outbox.
    pub const fn table(oid: Oid) -> Self {
        Self { oid, attached_by: None }
    }

    /// A partition of it, of any level.
    pub const fn partition(oid: Oid, attached_by: u32) -> Self {
        Self { oid, attached_by: Some(attached_by) }
    }
}
