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

    /// From where on rows are events of both. A server that was restored gives its transaction ids
    /// again, so the later of two need not have the greater id.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { xid: self.xid.max(other.xid), older: self.older.max(other.older) }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that was updated since has a later transaction than the first, on a server that was
    /// restored, and its time is before the second.
    #[test]
    fn a_row_is_an_event_of_both_only_where_it_is_one_of_each() {
        let since = |xid, micros| {
            let older = Some(PgTimestamp::from_micros(micros));
            EventsSince { xid: FullXid::from_u64(xid), older }
        };
        let (first, restored) = (since(950, 10), since(930, 70));
        for both in [first.and(restored), restored.and(first)] {
            let has_event = |xmin, micros| {
                let time = Some(PgTimestamp::from_micros(micros));
                both.has_event(Xid::from_u32(xmin), time, FullXid::from_u64(999))
            };
            assert!(has_event(950, 71));
            assert!(!has_event(949, 71) && !has_event(950, 70));
        }
        assert_eq!(first.and(EventsSince::FIRST_ROW), first);
    }
}
