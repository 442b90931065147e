//! The columns of a row.
//!
//! Manual: "Logical Replication Message Formats", TupleData. A tuple is an Int16 number of columns
//! and, per column, a tag and for a value its Int32 length and its bytes. The walk that finds the
//! tuple's end checks all of that, so that reading the columns afterwards is infallible.

use core::fmt;

use crate::reader::{Reader, split_value, value_fault};
use crate::show::Length;
use crate::{DecodeError, DecodeErrorKind, Field};

/// A row, or the key of one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tuple<'a> {
    columns: u16,
    /// Exactly `columns` columns: only the walks in this file make one.
    body: &'a [u8],
}

/// The value of one column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TupleData<'a> {
    /// SQL NULL. In the key of an old row also: not part of the key.
    Null,
    /// A value stored out of line that an update did not change: not sent, and not NULL.
    UnchangedToast,
    /// What the type's output function wrote, in the session's `client_encoding`.
    Text(&'a [u8]),
    /// What the type's send function wrote; only with the option `binary`.
    Binary(&'a [u8]),
}

/// The columns of a [`Tuple`], in the order of its table's Relation message.
#[derive(Clone, Copy)]
pub struct TupleColumns<'a> {
    left: u16,
    rest: &'a [u8],
}

/// What reading a tuple that may be cut short has found.
pub(crate) struct PartialTuple<'a> {
    /// Columns announced.
    pub(crate) announced: u16,
    /// The columns that are whole.
    pub(crate) whole: Tuple<'a>,
    /// What is wrong with the column after those; `None` if all are whole.
    pub(crate) fault: Option<DecodeErrorKind>,
}

impl<'a> Tuple<'a> {
    /// The number of columns.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a tuple is a row, not a container")]
    pub fn len(&self) -> usize {
        usize::from(self.columns)
    }

    /// The columns, in the order of the table's Relation message.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> TupleColumns<'a> {
        TupleColumns { left: self.columns, rest: self.body }
    }

    /// Reads a whole tuple; `column` is what to call a column of it in an error.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>, column: &'static str) -> Result<Self, DecodeError> {
        let PartialTuple { whole, fault, .. } = Self::read_partial(reader)?;
        match fault {
            None => Ok(whole),
            Some(kind) => Err(reader.error(whole.column_after(column), kind)),
        }
    }

    /// The name, for an error, of the column after the last one of this tuple.
    pub(crate) fn column_after(&self, name: &'static str) -> Field {
        // No overflow: the number of columns came as an Int16.
        Field::nth(name, self.columns.saturating_add(1))
    }

    /// Reads as many columns as are whole, leaving `reader` after them.
    #[inline]
    pub(crate) fn read_partial(reader: &mut Reader<'a>) -> Result<PartialTuple<'a>, DecodeError> {
        let announced = reader.count("number of columns")?;
        let start = reader.rest();
        let mut columns = TupleColumns { left: announced, rest: start };
        while columns.next().is_some() {}
        let TupleColumns { left, rest } = columns;
        let fault = (left > 0).then(|| column_fault(rest));
        reader.resume_at(rest);
        let length = start.len().saturating_sub(rest.len());
        let body = start.get(..length).unwrap_or_default();
        let whole = Self { columns: announced.saturating_sub(left), body };
        Ok(PartialTuple { announced, whole, fault })
    }
}

/// Splits off the column at the front: (the column, what follows it).
#[inline]
fn split_column(bytes: &[u8]) -> Option<(TupleData<'_>, &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    match tag {
        b't' => split_value(rest).map(|(value, rest)| (TupleData::Text(value), rest)),
        b'n' => Some((TupleData::Null, rest)),
        _ => split_rare_column(*tag, rest),
    }
}

/// The columns that no insert in text mode has. Not inlined, because two compares are cheaper than
/// the jump table that four would become.
#[cold]
#[inline(never)]
fn split_rare_column(tag: u8, rest: &[u8]) -> Option<(TupleData<'_>, &[u8])> {
    match tag {
        b'u' => Some((TupleData::UnchangedToast, rest)),
        b'b' => split_value(rest).map(|(value, rest)| (TupleData::Binary(value), rest)),
        _ => None,
    }
}

/// Why [`split_column`] finds no column.
#[cold]
fn column_fault(bytes: &[u8]) -> DecodeErrorKind {
    match bytes.split_first() {
        Some((b't' | b'b', rest)) => value_fault(rest),
        Some((tag, _)) => DecodeErrorKind::UnknownTag { tag: *tag },
        None => DecodeErrorKind::Truncated { needed: 1, left: 0 },
    }
}

impl<'a> Iterator for TupleColumns<'a> {
    type Item = TupleData<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left.checked_sub(1)?;
        let (column, rest) = split_column(self.rest)?;
        *self = Self { left, rest };
        Some(column)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for TupleColumns<'_> {}

impl<'a> IntoIterator for Tuple<'a> {
    type Item = TupleData<'a>;
    type IntoIter = TupleColumns<'a>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Tuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for TupleColumns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl fmt::Debug for TupleData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::UnchangedToast => f.write_str("UnchangedToast"),
            Self::Text(value) => f.debug_tuple("Text").field(&Length(value)).finish(),
            Self::Binary(value) => f.debug_tuple("Binary").field(&Length(value)).finish(),
        }
    }
}
