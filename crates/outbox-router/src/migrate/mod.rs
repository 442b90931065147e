//! Debezium's configuration, translated into the router's.
//!
//! The way of a file: `read` recognises its form and gives a flat list of properties, each with
//! its line. `translate` takes the properties one concern at a time and writes into a draft of
//! our TOML (`draft`); what no translation takes, the table of names (`names`) decides about,
//! and a name that is in no table is reported. So every property of the file ends in one of three
//! lists (`report`): carried over, behaves differently, not supported.
//!
//! Nothing here reads a file, prints, or connects: `cli/migrate/` does.

mod draft;
mod names;
mod placeholder;
mod properties;
mod read;
mod report;
mod translate;

pub use read::{FILE_BYTES_MAX, ReadError};
pub use report::{Migration, PropertyFinding};
pub use translate::{Given, GivenConverter};

/// Translates the text of a file.
///
/// # Errors
/// The text is in none of the forms that Debezium's configuration is kept in, or is malformed.
pub fn debezium(text: &str, given: &Given) -> Result<Migration, ReadError> {
    read::read(text).map(|source| translate::translate(source, given))
}
