//! The headers of a record: those of its format, then those that the mapping adds, then the members
//! of the row's `headers` column.

mod header;
mod plain;
mod record;
mod row;

pub use header::Header;
pub use record::Headers;
pub(crate) use row::REPEATED;
pub use row::RowHeaders;
