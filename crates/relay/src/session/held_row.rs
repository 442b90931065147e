//! A row of the stream, of which all or only the beginning has arrived.

use pgoutput::{Insert, InsertPrefix, Oid, TupleColumns};

use crate::routing::route::Arrived;

/// A row of the stream that may have to be held.
#[derive(Clone, Copy)]
pub(crate) enum HeldRow<'a> {
    /// With its Insert message.
    Whole(Insert<'a>, &'a [u8]),
    /// A row that is larger than `limits.row_bytes`, of which only the beginning was kept.
    Cut(&'a InsertPrefix<'a>),
}

impl<'a> HeldRow<'a> {
    pub(super) fn relation(self) -> Oid {
        match self {
            Self::Whole(insert, _) => insert.relation,
            Self::Cut(prefix) => prefix.relation,
        }
    }

    pub(super) fn arrived(self) -> Arrived {
        match self {
            Self::Whole(..) => Arrived::Whole,
            Self::Cut(_) => Arrived::Beginning,
        }
    }

    pub(super) fn columns(self) -> TupleColumns<'a> {
        match self {
            Self::Whole(insert, _) => insert.tuple.iter(),
            Self::Cut(prefix) => prefix.columns(),
        }
    }
}
