//! What the text of a column is, by the column's type.

use pgoutput::RelationColumn;

/// What PostgreSQL's text of a value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Characters.
    Text,
    /// JSON.
    Json,
    /// A decimal integer.
    Integer,
    /// `t` or `f`.
    Boolean,
    /// `\x` and hexadecimal digits.
    Bytea,
    /// A timestamp without a time zone, whose finest unit this is.
    Timestamp(Precision),
    /// A timestamp with a time zone, of at most so many digits of a second's fraction.
    TimestampTz(u8),
    /// A date.
    Date,
    /// A built-in type that has none of these forms.
    Other,
}

/// How fine a timestamp is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precision {
    /// At most three digits of a second's fraction.
    Milliseconds,
    /// More.
    Microseconds,
}

/// `FirstNormalObjectId`: types from here on are not built in, such as enums, domains and
/// `citext`.
const FIRST_NORMAL: u32 = 16384;

impl Form {
    /// The form of a column. OIDs are those of `src/include/catalog/pg_type.dat`, which are stable
    /// across versions.
    pub(crate) fn of(column: &RelationColumn<'_>) -> Self {
        match column.type_oid.as_u32() {
            16 => Self::Boolean,
            17 => Self::Bytea,
            20 | 21 | 23 => Self::Integer,
            // name, text, bpchar, varchar, uuid
            19 | 25 | 1042 | 1043 | 2950 => Self::Text,
            114 | 3802 => Self::Json,
            1082 => Self::Date,
            // The modifier is the declared precision, −1 where none was declared: 6.
            1114 if (0..=3).contains(&column.type_modifier) => {
                Self::Timestamp(Precision::Milliseconds)
            }
            1114 => Self::Timestamp(Precision::Microseconds),
            1184 => Self::TimestampTz(u8::try_from(column.type_modifier).unwrap_or(6)),
            oid if oid >= FIRST_NORMAL => Self::Text,
            _ => Self::Other,
        }
    }
}
