//! Which row it is.

/// What a row is found again by: the texts of its primary key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub Box<[Box<str>]>);
