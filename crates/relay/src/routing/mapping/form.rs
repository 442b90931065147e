//! What the text of a column is, by the column's type, and what Debezium makes of it where that can
//! be chosen.

use pgoutput::RelationColumn;

use crate::routing::table::{Decimals, Intervals, OutboxTable, Times};

/// What PostgreSQL's text of a value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Characters.
    Text,
    /// JSON.
    Json,
    /// A decimal integer.
    Integer,
    /// A binary floating-point number.
    Float(Width),
    /// A decimal number.
    Decimal(DecimalAs),
    /// `t` or `f`.
    Boolean,
    /// `\x` and hexadecimal digits.
    Bytea,
    /// A timestamp without a time zone, and the unit in which Debezium counts it.
    Timestamp(Unit),
    /// A timestamp with a time zone, of at most so many digits of a second's fraction.
    TimestampTz(u8),
    /// A date.
    Date,
    /// A timestamp or a date of which it is not known how Debezium writes it.
    UnclearTime,
    /// A time of day, and the unit in which Debezium counts it.
    Clock(Unit),
    /// A time of day with an offset from UTC.
    ClockTz,
    /// An interval.
    Interval(Intervals),
    /// An array of one dimension.
    Array(Element),
    /// A type that has none of these forms.
    Other,
}

/// What the elements of an array are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Text,
    Json,
    Integer,
    Float(Width),
    Boolean,
    Bytea,
    Timestamp(Unit),
    TimestampTz(u8),
    Date,
    Clock(Unit),
}

/// The unit in which Debezium counts a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl Unit {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }

    /// The first and the last timestamp whose number has 64 bits, within those of PostgreSQL.
    pub(super) const fn range(self) -> [&'static str; 2] {
        match self {
            Self::Milliseconds => ["4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999"],
            Self::Microseconds => ["4714-11-24 00:00:00 BC", "294247-01-10 04:00:54.775807"],
            Self::Nanoseconds => ["1677-09-21 00:12:43.145225", "2262-04-11 23:47:16.854775"],
        }
    }
}

/// How many bits a floating-point number has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Single,
    Double,
}

/// How Debezium writes a decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecimalAs {
    /// The bytes of its digits; its declaration names the scale.
    Bytes,
    /// An object of scale and bytes.
    ScaleAndBytes,
    Text,
    Double,
}

impl Element {
    pub(super) const fn form(self) -> Form {
        match self {
            Self::Text => Form::Text,
            Self::Json => Form::Json,
            Self::Integer => Form::Integer,
            Self::Float(width) => Form::Float(width),
            Self::Boolean => Form::Boolean,
            Self::Bytea => Form::Bytea,
            Self::Timestamp(unit) => Form::Timestamp(unit),
            Self::TimestampTz(digits) => Form::TimestampTz(digits),
            Self::Date => Form::Date,
            Self::Clock(unit) => Form::Clock(unit),
        }
    }

    /// `None`: of an array of such values it is not known how Debezium writes it.
    const fn of(form: Form) -> Option<Self> {
        match form {
            Form::Text => Some(Self::Text),
            Form::Json => Some(Self::Json),
            Form::Integer => Some(Self::Integer),
            Form::Float(width) => Some(Self::Float(width)),
            Form::Boolean => Some(Self::Boolean),
            Form::Bytea => Some(Self::Bytea),
            Form::Timestamp(unit) => Some(Self::Timestamp(unit)),
            Form::TimestampTz(digits) => Some(Self::TimestampTz(digits)),
            Form::Date => Some(Self::Date),
            Form::Clock(unit) => Some(Self::Clock(unit)),
            Form::Decimal(_)
            | Form::UnclearTime
            | Form::ClockTz
            | Form::Interval(_)
            | Form::Array(_)
            | Form::Other => None,
        }
    }
}

/// `FirstNormalObjectId`: types from here on are not built in, such as enums, domains and
/// `citext`.
const FIRST_NORMAL: u32 = 16384;

/// Arrays, with the types of their elements.
const ARRAYS: [(u32, u32); 18] = [
    (199, 114),
    (1000, 16),
    (1001, 17),
    (1005, 21),
    (1007, 23),
    (1009, 25),
    (1014, 1042),
    (1015, 1043),
    (1016, 20),
    (1021, 700),
    (1022, 701),
    (1115, 1114),
    (1182, 1082),
    (1183, 1083),
    (1185, 1184),
    (2951, 2950),
    (3807, 3802),
    (1003, 19),
];

impl Form {
    /// The form of a column whose type no Type message names.
    pub(super) fn of(column: &RelationColumn<'_>, table: &OutboxTable) -> Self {
        let type_oid = column.type_oid.as_u32();
        match ARRAYS.iter().find(|(array, _)| *array == type_oid) {
            Some((_, element)) => {
                let element = Self::built_in(*element, column.type_modifier, table);
                Element::of(element).map_or(Self::Other, Self::Array)
            }
            None => Self::built_in(type_oid, column.type_modifier, table),
        }
    }

    /// OIDs are those of `src/include/catalog/pg_type.dat`, which are stable across versions. The
    /// modifier is what the type was declared with, −1 where nothing was declared.
    fn built_in(type_oid: u32, modifier: i32, table: &OutboxTable) -> Self {
        match type_oid {
            16 => Self::Boolean,
            17 => Self::Bytea,
            20 | 21 | 23 => Self::Integer,
            // name, text, bpchar, varchar, uuid
            19 | 25 | 1042 | 1043 | 2950 => Self::Text,
            // "char", xml, cidr, macaddr8, macaddr, inet, tsvector, and ranges of built-in types
            18 | 142 | 650 | 774 | 829 | 869 | 3614 | 3904 | 3906 | 3908 | 3910 | 3912 | 3926 => {
                Self::Text
            }
            114 | 3802 => Self::Json,
            700 => Self::Float(Width::Single),
            701 => Self::Float(Width::Double),
            1082 => match table.times {
                Times::Connect | Times::IsoString | Times::Structured => Self::UnclearTime,
                Times::Adaptive
                | Times::AdaptiveTimeMicroseconds
                | Times::Microseconds
                | Times::Nanoseconds => Self::Date,
            },
            1083 => clock_unit(modifier, table.times).map_or(Self::Other, Self::Clock),
            1114 => {
                timestamp_unit(modifier, table.times).map_or(Self::UnclearTime, Self::Timestamp)
            }
            // Objects of their parts.
            1184 if table.times == Times::Structured => Self::UnclearTime,
            1186 if table.times == Times::Structured => Self::Other,
            1184 => Self::TimestampTz(u8::try_from(modifier).unwrap_or(6)),
            1186 => Self::Interval(table.intervals),
            1266 => match table.times {
                Times::Connect | Times::IsoString | Times::Structured => Self::Other,
                Times::Adaptive
                | Times::AdaptiveTimeMicroseconds
                | Times::Microseconds
                | Times::Nanoseconds => Self::ClockTz,
            },
            1700 => decimal(modifier, table.decimals),
            oid if oid >= FIRST_NORMAL => Self::Text,
            _ => Self::Other,
        }
    }

    /// The form of a domain over the built-in type of this name. What the domain's definition says
    /// of precision and scale is not in the stream.
    pub(super) fn of_domain(base: &[u8], table: &OutboxTable) -> Self {
        match base {
            b"bool" => Self::Boolean,
            b"bytea" => Self::Bytea,
            b"int8" | b"int2" | b"int4" => Self::Integer,
            b"float4" => Self::Float(Width::Single),
            b"float8" => Self::Float(Width::Double),
            b"name" | b"text" | b"bpchar" | b"varchar" | b"uuid" | b"xml" | b"inet" => Self::Text,
            b"json" | b"jsonb" => Self::Json,
            b"date" => Self::built_in(1082, -1, table),
            b"timestamp" | b"timestamptz" => Self::UnclearTime,
            b"numeric" => match table.decimals {
                Decimals::Precise => Self::Other,
                Decimals::Text => Self::Decimal(DecimalAs::Text),
                Decimals::Double => Self::Decimal(DecimalAs::Double),
            },
            b"interval" => Self::built_in(1186, -1, table),
            _ => Self::Other,
        }
    }
}

/// `None`: what Debezium writes depends on the JVM, or is not known.
fn timestamp_unit(modifier: i32, times: Times) -> Option<Unit> {
    match times {
        Times::Adaptive | Times::AdaptiveTimeMicroseconds => Some(finest(modifier)),
        Times::Microseconds => Some(Unit::Microseconds),
        Times::Nanoseconds => Some(Unit::Nanoseconds),
        Times::Connect | Times::IsoString | Times::Structured => None,
    }
}

fn clock_unit(modifier: i32, times: Times) -> Option<Unit> {
    match times {
        Times::AdaptiveTimeMicroseconds => Some(Unit::Microseconds),
        Times::Adaptive
        | Times::Microseconds
        | Times::Nanoseconds
        | Times::Connect
        | Times::IsoString
        | Times::Structured => timestamp_unit(modifier, times),
    }
}

/// Milliseconds where at most three digits of a second's fraction were declared.
fn finest(modifier: i32) -> Unit {
    if (0..=3).contains(&modifier) { Unit::Milliseconds } else { Unit::Microseconds }
}

/// What is added to a numeric's modifier (`VARHDRSZ`).
const MODIFIER_OFFSET: i32 = 4;
/// Where the sign of a scale is in a numeric's modifier.
const SCALE_SIGN: i32 = 0x400;

fn decimal(modifier: i32, decimals: Decimals) -> Form {
    match decimals {
        Decimals::Text => Form::Decimal(DecimalAs::Text),
        Decimals::Double => Form::Decimal(DecimalAs::Double),
        Decimals::Precise if modifier < MODIFIER_OFFSET => Form::Decimal(DecimalAs::ScaleAndBytes),
        // Of a negative scale Debezium makes 2,046 and the like.
        Decimals::Precise if (modifier - MODIFIER_OFFSET) & SCALE_SIGN != 0 => Form::Other,
        Decimals::Precise => Form::Decimal(DecimalAs::Bytes),
    }
}
