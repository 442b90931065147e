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
    /// A timestamp of a domain, with a time zone or without: no message says how fine it is.
    DomainTimestamp,
    /// A date.
    Date,
    /// A type that has none of these forms.
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
    /// The form of a column whose type no Type message names. OIDs are those of
    /// `src/include/catalog/pg_type.dat`, which are stable across versions.
    pub(super) fn of(column: &RelationColumn<'_>) -> Self {
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

    /// The form of a domain over the built-in type of this name. What the domain's definition says
    /// of its precision is not in the stream.
    pub(super) fn of_domain(base: &[u8]) -> Self {
        match base {
            b"bool" => Self::Boolean,
            b"bytea" => Self::Bytea,
            b"int8" | b"int2" | b"int4" => Self::Integer,
            b"name" | b"text" | b"bpchar" | b"varchar" | b"uuid" => Self::Text,
            b"json" | b"jsonb" => Self::Json,
            b"date" => Self::Date,
            b"timestamp" | b"timestamptz" => Self::DomainTimestamp,
            _ => Self::Other,
        }
    }
}
