//! How the source of a part of a record is named.

use relay::Template;

/// A column, or the text that stands in the place of one.
pub(super) fn source(column: &str) -> String {
    match Template::is_one(column) {
        true => format!("text {column}"),
        false => format!("column {column}"),
    }
}
