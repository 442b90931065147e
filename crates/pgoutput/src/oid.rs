//! The two 32-bit identifiers that messages carry, kept apart by type.

use core::fmt;

/// The OID of a relation or a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Oid(u32);

impl Oid {
    /// The OID with this number.
    #[must_use]
    pub const fn from_u32(number: u32) -> Self {
        Self(number)
    }

    /// The OID as a number.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A transaction id. It wraps around, so it identifies a transaction but gives no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Xid(u32);

impl Xid {
    /// The transaction id with this number.
    #[must_use]
    pub const fn from_u32(number: u32) -> Self {
        Self(number)
    }

    /// The transaction id as a number.
    #[must_use]
    pub const fn as_u32(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
