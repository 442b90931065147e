//! An insert of which only the beginning is there.
//!
//! A row larger than the reader's limit is discarded while it streams in. The part that was kept
//! suffices to say which row it was, because the small columns (id, aggregate, type) usually stand
//! before the payload.

use crate::reader::Reader;
use crate::tuple::{PartialTuple, Tuple};
use crate::{DecodeError, DecodeErrorKind, Insert, Oid, TupleColumns};

/// The beginning of an [`Insert`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsertPrefix<'a> {
    /// The table.
    pub relation: Oid,
    /// Columns the row has.
    pub announced: usize,
    /// The column at which the prefix ends; its index is the number of [`columns`](Self::columns).
    /// `None` when the row is there to its end.
    pub cut: Option<CutColumn>,
    whole: Tuple<'a>,
}

/// The column that the end of a prefix lies in, or directly before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutColumn {
    /// Length of the value, from its length word; `None` when the prefix ends before the end of
    /// that word.
    pub claimed_bytes: Option<u32>,
    /// Bytes of the value that are in the prefix.
    pub received_bytes: usize,
}

impl<'a> InsertPrefix<'a> {
    /// The columns that are whole, from the first on.
    #[must_use]
    pub fn columns(&self) -> TupleColumns<'a> {
        self.whole.iter()
    }
}

/// Decodes the beginning of an insert, however little of its tuple is there.
///
/// # Errors
///
/// When the bytes are the beginning of another message, end before the first column, or cannot be
/// continued to a valid insert.
pub fn parse_insert_prefix(bytes: &[u8]) -> Result<InsertPrefix<'_>, DecodeError> {
    let mut reader = Reader::new("message", bytes);
    let start = reader;
    let tag = reader.u8("tag")?;
    if tag != b'I' {
        return Err(start.error("tag".into(), DecodeErrorKind::UnknownTag { tag }));
    }
    let relation = Insert::read_head(&mut reader)?;
    let PartialTuple { announced, whole, fault } = Tuple::read_partial(&mut reader)?;
    let cut = match fault {
        None => {
            reader.finish()?;
            None
        }
        Some(DecodeErrorKind::Truncated { .. }) => {
            Some(CutColumn { claimed_bytes: None, received_bytes: 0 })
        }
        Some(DecodeErrorKind::TooLong { claimed, left }) => {
            Some(CutColumn { claimed_bytes: Some(claimed), received_bytes: left })
        }
        Some(
            kind @ (DecodeErrorKind::NegativeLength { .. }
            | DecodeErrorKind::NegativeCount { .. }
            | DecodeErrorKind::UnterminatedString
            | DecodeErrorKind::UnknownTag { .. }
            | DecodeErrorKind::InvalidValue { .. }
            | DecodeErrorKind::TrailingBytes { .. }),
        ) => return Err(reader.error(whole.column_after("tuple column"), kind)),
    };
    Ok(InsertPrefix { relation, announced: usize::from(announced), cut, whole })
}
