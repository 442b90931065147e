//! Headers of a record: those of its format, and those that its row brings.

mod header;
mod plain;
mod record;
mod row;

pub use header::Header;
pub use record::Headers;
pub use row::RowHeaders;
