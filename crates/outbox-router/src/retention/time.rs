//! The column by which a row has an age, as SQL.

use std::time::Duration;

use relay::{EpochUnit, OutboxTable};

use crate::postgres::{quote_identifier, quote_literal};

/// The column, quoted, and what its values are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TimeColumn {
    /// Its name.
    pub(super) name: String,
    kind: TimeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeKind {
    TimestampTz,
    /// In UTC, as in routing.
    Timestamp,
    /// Midnight UTC.
    Date,
    /// So many a second, since 1970.
    Integer(u32),
}

impl TimeColumn {
    /// A column of this type (`pg_type.oid`, of a domain that of its base); `None` where it is no
    /// time.
    pub(super) fn of(name: &str, type_oid: u32, outbox: &OutboxTable) -> Option<Self> {
        let kind = match type_oid {
            1184 => TimeKind::TimestampTz,
            1114 => TimeKind::Timestamp,
            1082 => TimeKind::Date,
            20 | 21 | 23 => TimeKind::Integer(match outbox.timestamp_unit {
                EpochUnit::Seconds => 1,
                EpochUnit::Milliseconds => 1_000,
                EpochUnit::Microseconds => 1_000_000,
            }),
            _ => return None,
        };
        Some(Self { name: name.to_owned(), kind })
    }

    /// As an SQL identifier.
    pub(super) fn quoted(&self) -> String {
        quote_identifier(&self.name)
    }

    /// The time this long ago as a value of the column: a constant of the statement, so that an
    /// index is used.
    pub(super) fn ago(&self, keep: Duration) -> String {
        let at = format!("(now() - interval '{} milliseconds')", keep.as_millis());
        match self.kind {
            TimeKind::TimestampTz => at,
            TimeKind::Timestamp => format!("({at} at time zone 'UTC')"),
            TimeKind::Date => format!("({at} at time zone 'UTC')::date"),
            TimeKind::Integer(per_second) => {
                format!("floor(extract(epoch from {at}) * {per_second})::int8")
            }
        }
    }

    /// A value that was read as text.
    pub(super) fn literal(&self, text: &str) -> String {
        let of_type = match self.kind {
            TimeKind::TimestampTz => "timestamptz",
            TimeKind::Timestamp => "timestamp",
            TimeKind::Date => "date",
            TimeKind::Integer(_) => "int8",
        };
        format!("{}::{of_type}", quote_literal(text))
    }

    /// How many seconds ago a value is; NULL for an infinite one.
    pub(super) fn age(&self, value: &str) -> String {
        let at = match self.kind {
            TimeKind::TimestampTz => value.to_owned(),
            TimeKind::Timestamp => format!("({value} at time zone 'UTC')"),
            TimeKind::Date => format!("({value}::timestamp at time zone 'UTC')"),
            TimeKind::Integer(per_second) => {
                return format!("extract(epoch from now()) - {value} / {per_second}.0");
            }
        };
        format!("case when isfinite({value}) then extract(epoch from now() - {at}) end")
    }
}
