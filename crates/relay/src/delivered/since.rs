//! From where on rows are events, place by place.

use pgoutput::{Oid, PgTimestamp, Xid};

use super::xid::FullXid;

/// From where on the rows of a table, or of a partition, are events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventsSince {
    /// The first transaction of which every row is an event: when it began, the table was in the
    /// publication, and the slot existed. Zero where all rows are.
    pub xid: FullXid,
    /// What tells the rows that were there before, if there were any.
    pub older: Option<OlderRows>,
}

/// What tells the rows from before. Such a row gets a younger transaction when it is updated, or
/// when ALTER TABLE rewrites it; so rows with an older time stay, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OlderRows {
    /// The server's clock when the table was read.
    pub at: PgTimestamp,
    /// The column whose time tells them. In a column that was added since, with the default
    /// `now()`, they have the time of ALTER TABLE.
    pub by: AgeColumn,
}

/// The column that gives the rows of a table their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgeColumn {
    /// Not known: what the configuration maps does not fit the table, or an earlier version wrote
    /// the record.
    Unknown,
    /// No column does.
    None,
    /// This one does. ALTER TABLE may give its times another type, and with that other values; and
    /// where it was made NOT NULL since, an UPDATE may have given times to rows that had none.
    Column {
        /// `pg_attribute.attnum`, which no column after it has.
        number: i16,
        /// `pg_attribute.atttypid`.
        type_oid: u32,
        /// Whether every row has a time (`pg_attribute.attnotnull`, and the constraint is valid).
        is_never_null: bool,
    },
}

impl AgeColumn {
    /// Whether both are one column.
    pub fn is_same(self, other: Self) -> bool {
        match self {
            Self::Unknown | Self::None => false,
            Self::Column { .. } => self == other,
        }
    }
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

    /// By a later reading of the catalog, which knows this column, and by which a place that is new
    /// to it has events since `fresh`. Rows with a time of another column than before are told from
    /// older ones since that reading.
    #[must_use]
    pub fn aged_by(self, column: AgeColumn, fresh: Self) -> Self {
        match self.older {
            Some(older) if column != AgeColumn::Unknown && column != older.by => self.and(fresh),
            Some(_) | None => self,
        }
    }

    /// Whether a row with this `xmin` and this time, which is that of a column, is an event. `next`
    /// is an id that no transaction has yet.
    pub fn has_event(
        self,
        xmin: Xid,
        (time, column): (Option<PgTimestamp>, AgeColumn),
        next: FullXid,
    ) -> bool {
        let is_late =
            |older: OlderRows| older.by.is_same(column) && time.is_some_and(|time| time > older.at);
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

    fn column(number: i16, type_oid: u32) -> AgeColumn {
        AgeColumn::Column { number, type_oid, is_never_null: true }
    }

    /// A row that was updated since has a later transaction than the first, on a server that was
    /// restored, and its time is before the second.
    #[test]
    fn a_row_is_an_event_of_both_only_where_it_is_one_of_each() {
        let since = |xid, micros| {
            let at = PgTimestamp::from_micros(micros);
            let older = Some(OlderRows { at, by: column(5, 1_184) });
            EventsSince { xid: FullXid::from_u64(xid), older }
        };
        let (first, restored) = (since(950, 10), since(930, 70));
        for both in [first.and(restored), restored.and(first)] {
            let has_event = |xmin, micros| {
                let time = (Some(PgTimestamp::from_micros(micros)), column(5, 1_184));
                both.has_event(Xid::from_u32(xmin), time, FullXid::from_u64(999))
            };
            assert!(has_event(950, 71));
            assert!(!has_event(949, 71) && !has_event(950, 70));
        }
        assert_eq!(first.and(EventsSince::FIRST_ROW), first);
    }

    /// A column that was added has `now()` in the rows from before, and they may have been updated.
    #[test]
    fn a_time_of_another_column_shows_nothing() {
        let at = PgTimestamp::from_micros(10);
        let nullable = AgeColumn::Column { number: 6, type_oid: 1_184, is_never_null: false };
        let others = [column(5, 1_184), column(6, 1_114), nullable];
        for by in [AgeColumn::Unknown, AgeColumn::None].into_iter().chain(others) {
            let older = Some(OlderRows { at, by });
            let since = EventsSince { xid: FullXid::from_u64(900), older };
            let time = (Some(PgTimestamp::from_micros(11)), column(6, 1_184));
            let is_event = since.has_event(Xid::from_u32(950), time, FullXid::from_u64(999));
            assert!(!is_event, "{by:?}");
        }
    }
}
