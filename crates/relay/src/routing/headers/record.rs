//! All headers of one record.

use super::{header::Header, row::RowHeaders};

/// The headers of one record: those of its format, then those that the mapping adds, then the
/// members of the row's `headers` column.
#[derive(Debug, Clone, Copy)]
pub struct Headers<'a> {
    format: &'a [Header<'a>],
    row: &'a RowHeaders,
}

impl<'a> Headers<'a> {
    /// Chains the two lists without copying either.
    pub fn new(format: &'a [Header<'a>], row: &'a RowHeaders) -> Self {
        Self { format, row }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.format.len() + self.row.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of names and values.
    #[inline]
    pub(in crate::routing) fn bytes(&self) -> usize {
        let bytes = |header: &Header<'_>| header.name.len() + header.value.map_or(0, <[u8]>::len);
        self.format.iter().map(bytes).sum::<usize>() + self.row.bytes()
    }

    /// All headers, in the order in which they are written.
    pub fn iter(&self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        self.format.iter().copied().chain(self.row.iter())
    }
}
