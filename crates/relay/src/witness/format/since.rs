//! In a record, from where on the rows of tables and partitions are events.

use std::collections::BTreeMap;

use pgoutput::{Oid, PgTimestamp};
use serde::{Deserialize, Serialize};

use super::catalog::TABLE_PARTITIONS_MAX;
use crate::delivered::{EventsSince, FullXid, Place};

/// The place, and the transaction unless every row is an event. Nothing is said by name, since
/// there may be many partitions, and the record is written often.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SinceText {
    FirstRow(u32, Option<u32>),
    Transaction(u32, Option<u32>, u64, Option<i64>),
}

impl SinceText {
    /// All tables, and as many partitions as the catalog's part of the record names.
    pub(super) fn all(since: &BTreeMap<Place, EventsSince>) -> Vec<Self> {
        let (partitions, tables): (Vec<_>, Vec<_>) =
            since.iter().rev().partition(|(place, _)| place.attached_by.is_some());
        let kept = partitions.into_iter().take(TABLE_PARTITIONS_MAX);
        tables.into_iter().chain(kept).map(|(place, since)| Self::of(*place, *since)).collect()
    }

    fn of(Place { oid, attached_by }: Place, since: EventsSince) -> Self {
        let oid = oid.as_u32();
        if since == EventsSince::FIRST_ROW {
            return Self::FirstRow(oid, attached_by);
        }
        let older = since.older.map(PgTimestamp::as_micros);
        Self::Transaction(oid, attached_by, since.xid.as_u64(), older)
    }

    pub(super) fn read(self) -> (Place, EventsSince) {
        let place = |oid, attached_by| Place { oid: Oid::from_u32(oid), attached_by };
        match self {
            Self::FirstRow(oid, attached_by) => (place(oid, attached_by), EventsSince::FIRST_ROW),
            Self::Transaction(oid, attached_by, xid, older) => {
                let older = older.map(PgTimestamp::from_micros);
                let since = EventsSince { xid: FullXid::from_u64(xid), older };
                (place(oid, attached_by), since)
            }
        }
    }
}
