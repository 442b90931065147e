//! Changes of rows.
//!
//! Manual: "Logical Replication Message Formats", Insert, Update, Delete, Truncate.

use core::fmt;

use crate::reader::Reader;
use crate::{DecodeError, DecodeErrorKind, Field, Oid, Tuple};

/// A row was inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert<'a> {
    /// The table.
    pub relation: Oid,
    /// The row.
    pub tuple: Tuple<'a>,
}

/// A row was updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update<'a> {
    /// The table.
    pub relation: Oid,
    /// What the server sends about the row before the update.
    pub old: UpdatedFrom<'a>,
    /// The row after; large values that did not change are
    /// [`TupleData::UnchangedToast`](crate::TupleData::UnchangedToast).
    pub new: Tuple<'a>,
}

/// What an update says about the row before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdatedFrom<'a> {
    /// Nothing: the replica identity is a key and the key did not change.
    SameKey,
    /// The old row, or its key.
    Changed(OldTuple<'a>),
}

/// The old version of a row, or its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldTuple<'a> {
    /// `K`: the columns of its key; the others are NULL.
    Key(Tuple<'a>),
    /// `O`: all of it, under `REPLICA IDENTITY FULL`.
    Full(Tuple<'a>),
}

/// A row was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The table.
    pub relation: Oid,
    /// The row, or its key.
    pub old: OldTuple<'a>,
}

/// Tables were emptied by one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncate<'a> {
    /// Whether `CASCADE` and `RESTART IDENTITY` were given.
    pub options: TruncateOptions,
    relations: RelationIds<'a>,
}

/// The options of a `TRUNCATE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruncateOptions(u8);

/// The tables that a [`Truncate`] is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RelationIds<'a> {
    rest: &'a [[u8; 4]],
}

const RELATION: &str = "relation oid";

impl<'a> Insert<'a> {
    /// Decodes an insert, which must fill `bytes` to the end; `None` if another message begins
    /// there. For callers that read mostly inserts: it avoids a [`Message`](crate::Message), which
    /// is as large as its largest variant.
    ///
    /// # Errors
    ///
    /// When the insert is cut short, too long or holds a value without a meaning.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Result<Self, DecodeError>> {
        let mut reader = Reader::new("message", bytes);
        let insert = match reader.u8("tag") {
            Ok(b'I') => Self::read(&mut reader),
            Ok(_) | Err(_) => return None,
        };
        Some(insert.and_then(|insert| reader.finish().map(|()| insert)))
    }

    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let relation = Self::read_head(reader)?;
        Ok(Self { relation, tuple: Tuple::read(reader, "tuple column")? })
    }

    /// Reads up to the tuple, which [`parse_insert_prefix`](crate::parse_insert_prefix) reads in
    /// another way.
    #[inline]
    pub(crate) fn read_head(reader: &mut Reader<'a>) -> Result<Oid, DecodeError> {
        reader.now_decoding("insert");
        let relation = reader.oid(RELATION)?;
        new_tuple_follows(reader)?;
        Ok(relation)
    }
}

impl<'a> Update<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.now_decoding("update");
        let relation = reader.oid(RELATION)?;
        let old = match reader.rest().first() {
            Some(b'K' | b'O') => UpdatedFrom::Changed(OldTuple::read(reader)?),
            Some(_) | None => UpdatedFrom::SameKey,
        };
        new_tuple_follows(reader)?;
        Ok(Self { relation, old, new: Tuple::read(reader, "new tuple column")? })
    }
}

impl<'a> Delete<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.now_decoding("delete");
        Ok(Self { relation: reader.oid(RELATION)?, old: OldTuple::read(reader)? })
    }
}

impl<'a> OldTuple<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let start = *reader;
        match reader.u8("old tuple")? {
            b'K' => Tuple::read(reader, "old key column").map(OldTuple::Key),
            b'O' => Tuple::read(reader, "old tuple column").map(OldTuple::Full),
            tag => Err(start.error("old tuple".into(), DecodeErrorKind::UnknownTag { tag })),
        }
    }
}

#[inline]
fn new_tuple_follows(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let start = *reader;
    match reader.u8("new tuple")? {
        b'N' => Ok(()),
        tag => Err(start.error("new tuple".into(), DecodeErrorKind::UnknownTag { tag })),
    }
}

impl<'a> Truncate<'a> {
    /// The tables: those named in the statement and those that `CASCADE` added, as far as they are
    /// published.
    #[must_use]
    pub fn relations(&self) -> RelationIds<'a> {
        self.relations
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.now_decoding("truncate");
        let field = Field::from("number of relations");
        let start = *reader;
        let count = reader.i32(field)?;
        let Ok(count) = u32::try_from(count) else {
            return Err(start.error(field, DecodeErrorKind::NegativeCount { count }));
        };
        let options = reader
            .choice("options", "0 to 3", |bits| (bits <= 3).then_some(TruncateOptions(bits)))?;
        let length = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(4);
        let (relations, _) = reader.bytes(length, "relation oids")?.as_chunks();
        Ok(Self { options, relations: RelationIds { rest: relations } })
    }
}

impl TruncateOptions {
    /// Whether `CASCADE` was given.
    #[must_use]
    pub const fn cascades(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether `RESTART IDENTITY` was given.
    #[must_use]
    pub const fn restarts_identity(self) -> bool {
        self.0 & 2 != 0
    }
}

impl Iterator for RelationIds<'_> {
    type Item = Oid;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(Oid::from_u32(u32::from_be_bytes(*first)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.rest.len(), Some(self.rest.len()))
    }
}

impl ExactSizeIterator for RelationIds<'_> {}

impl fmt::Debug for RelationIds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}
