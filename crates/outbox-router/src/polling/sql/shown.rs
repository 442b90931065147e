//! The text that a stream shows of a value: that of its type's output function.

use tokio_postgres::types::Type;

use super::facts::ColumnFacts;
use crate::postgres::quote_identifier;

/// Types whose cast to text gives that text, and is cheaper. Others are written by their output
/// function: an enum may have a cast that its owner has made; a boolean is `t` there, and as a text
/// `true`; an address has its netmask as a text alone, and a `char(4)` its blanks there alone.
const BY_CAST: [Type; 10] = [
    Type::TEXT,
    Type::VARCHAR,
    Type::UUID,
    Type::INT2,
    Type::INT4,
    Type::INT8,
    Type::NUMERIC,
    Type::JSON,
    Type::JSONB,
    Type::BYTEA,
];

/// What gives the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// A cast.
    ByCast,
    /// The output function.
    ByOutput,
}

impl Shown {
    /// Of the values of a column.
    pub(super) fn of(column: &ColumnFacts) -> Self {
        if column.is_of(&BY_CAST) { Self::ByCast } else { Self::ByOutput }
    }

    /// The same, but for the server's own types by their cast, as people type their values and as
    /// keys were divided before: only a type that somebody has made may have a cast that is its
    /// owner's function.
    pub(super) fn of_own(column: &ColumnFacts) -> Self {
        if column.is_of_server() { Self::ByCast } else { Self::ByOutput }
    }

    /// The text of the column's value in a row that the statement calls `alias`; NULL of NULL.
    pub(super) fn sql(self, alias: &str, column: &str) -> String {
        let name = format!("{alias}.{}", quote_identifier(column));
        match self {
            Self::ByCast => format!("{name}::text"),
            Self::ByOutput => {
                format!("case when {name} is not null then format('%s', {name}) end")
            }
        }
    }
}
