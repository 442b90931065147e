//! A polled row at one of its versions; `version` says why a version names its content.

use std::fmt;

use crate::polling::RowId;

/// A version of a row. See `version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RowVersion(u32);

impl RowVersion {
    /// The version whose `xmin` is this.
    pub const fn of_xmin(xmin: u32) -> Self {
        Self(xmin)
    }
}

impl fmt::Display for RowVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A connection to PostgreSQL, from the moment at which it was opened to its loss, by its number.
/// Versions that were read on one of them count on that one alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerSession(u64);

impl ServerSession {
    /// The number of the connection that is opened after this one is lost.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// A row at one of its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowAt {
    /// What it is found again by.
    pub id: RowId,
    /// As it was read, or claimed.
    pub version: RowVersion,
}

impl RowAt {
    /// Whether the row that has this version now is the row at this one.
    pub fn is_still(&self, now: RowVersion) -> bool {
        self.version == now
    }
}
