//! In a record, from where on the rows of tables and partitions are events.

use std::collections::BTreeMap;

use pgoutput::{Oid, PgTimestamp};
use serde::{Deserialize, Serialize};

use super::catalog::TABLE_PARTITIONS_MAX;
use crate::delivered::{AgeColumn, EventsSince, FullXid, OlderRows, Place};

/// The place, and the transaction unless every row is an event. Nothing is said by name, since
/// there may be many partitions, and the record is written often.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SinceText {
    FirstRow(u32, Option<u32>),
    Transaction(u32, Option<u32>, u64, Option<i64>),
    /// With number and type of the column that gives rows their age, zero where none does, and
    /// whether every row has a time.
    Aged(u32, Option<u32>, u64, i64, i16, u32, bool),
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
        let xid = since.xid.as_u64();
        let Some(OlderRows { at, by }) = since.older else {
            return Self::Transaction(oid, attached_by, xid, None);
        };
        let at = at.as_micros();
        match by {
            AgeColumn::Unknown => Self::Transaction(oid, attached_by, xid, Some(at)),
            AgeColumn::None => Self::Aged(oid, attached_by, xid, at, 0, 0, false),
            AgeColumn::Column { number, type_oid, is_never_null } => {
                Self::Aged(oid, attached_by, xid, at, number, type_oid, is_never_null)
            }
        }
    }

    pub(super) fn read(self) -> (Place, EventsSince) {
        let place = |oid, attached_by| Place { oid: Oid::from_u32(oid), attached_by };
        let since = |xid, older: Option<i64>, by| {
            let older = older.map(|at| OlderRows { at: PgTimestamp::from_micros(at), by });
            EventsSince { xid: FullXid::from_u64(xid), older }
        };
        match self {
            Self::FirstRow(oid, attached_by) => (place(oid, attached_by), EventsSince::FIRST_ROW),
            Self::Transaction(oid, attached_by, xid, older) => {
                (place(oid, attached_by), since(xid, older, AgeColumn::Unknown))
            }
            Self::Aged(oid, attached_by, xid, at, number, type_oid, is_never_null) => {
                let column = AgeColumn::Column { number, type_oid, is_never_null };
                let by = if number == 0 { AgeColumn::None } else { column };
                (place(oid, attached_by), since(xid, Some(at), by))
            }
        }
    }
}
