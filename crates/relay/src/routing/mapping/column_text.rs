//! One column of a row.

use pgoutput::{TupleColumns, TupleData};

/// The text of a column; `None` for NULL.
#[inline]
pub(super) fn text(mut row: TupleColumns<'_>, position: usize) -> Option<&[u8]> {
    match row.nth(position) {
        Some(TupleData::Text(text)) => Some(text),
        _ => None,
    }
}
