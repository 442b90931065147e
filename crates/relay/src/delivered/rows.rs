//! Which rows of a table are delivered.

use std::collections::BTreeMap;

use pgoutput::{Oid, PgTimestamp, Xid};

use super::{
    horizon::Covered,
    since::{AgeColumn, EventsSince, Place},
    xid::FullXid,
};

/// A place of a table's rows: the table itself, or a partition of any level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPart {
    /// The table or partition.
    pub oid: Oid,
    /// From where on its rows are events: the last of what is known of it, and of what is above.
    pub since: EventsSince,
    /// What makes it, and the partitions above it, partitions.
    pub links: Vec<PartitionLink>,
}

/// A row of `pg_inherits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionLink {
    /// The partition.
    pub part: Oid,
    /// The transaction that wrote the row.
    pub attached_by: Xid,
}

impl EventPart {
    /// A table, by what the witness knows.
    pub fn table(oid: Oid, known: &BTreeMap<Place, EventsSince>) -> Option<Self> {
        let since = *known.get(&Place::table(oid))?;
        Some(Self { oid, since, links: Vec::new() })
    }

    /// A partition of this table; `None` where it is not known from where on its rows are events,
    /// or those of a partition above it.
    pub fn partition(
        &self,
        oid: Oid,
        links: Vec<PartitionLink>,
        known: &BTreeMap<Place, EventsSince>,
    ) -> Option<Self> {
        let since = links.iter().try_fold(self.since, |last, link| {
            let since = known.get(&Place::partition(link.part, link.attached_by.as_u32()))?;
            Some(last.and(*since))
        })?;
        Some(Self { oid, since, links })
    }
}

/// What a row says of its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenBy {
    /// The table or partition that has it (`tableoid`).
    pub table: Oid,
    /// `xmin`.
    pub xmin: Xid,
    /// The time in the column that gives the row its age, at the latest: a time without a zone may
    /// be that of any zone. `None` where it is NULL.
    pub time: Option<PgTimestamp>,
    /// That column.
    pub aged_by: AgeColumn,
}

/// The rows of one table that are delivered, held, or filtered out. Only [`Covered`] makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredRows {
    covered: Covered,
    /// Where the events are. One that is not known to be a part of the table is left out. `None`: a
    /// person has given up the rows that are no events.
    parts: Option<Vec<EventPart>>,
}

impl Covered {
    /// The rows of a table of which it is proved.
    #[must_use]
    pub const fn rows_of(self, parts: Vec<EventPart>) -> DeliveredRows {
        DeliveredRows { covered: self, parts: Some(parts) }
    }
}

impl DeliveredRows {
    /// The transactions that are confirmed.
    pub const fn covered(&self) -> Covered {
        self.covered
    }

    /// Where the table's events are; `None`: a person has given up its other rows.
    pub fn parts(&self) -> Option<&[EventPart]> {
        self.parts.as_deref()
    }

    /// The same, with the rows of confirmed transactions that are in no stream: a person has given
    /// them up.
    #[must_use]
    pub fn with_older_given_up(self) -> Self {
        Self { parts: None, ..self }
    }

    /// Whether a visible row is one of them. `next` is an id that no transaction has yet.
    pub fn contains(&self, row: WrittenBy, next: FullXid) -> bool {
        self.covered.contains(row.xmin, next) && self.has_event(row, next)
    }

    /// Whether a row was written when its table was an outbox, or a person has given up those that
    /// were not. A row of an unknown place was not.
    pub fn has_event(&self, row: WrittenBy, next: FullXid) -> bool {
        let Some(parts) = &self.parts else { return true };
        let mut of_row = parts.iter().filter(|part| part.oid == row.table);
        of_row.any(|part| part.since.has_event(row.xmin, (row.time, row.aged_by), next))
    }
}
