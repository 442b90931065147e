//! The column by which a row has an age, as SQL.

use std::time::Duration;

use relay::{EpochUnit, OutboxTable, PgTimestamp};

use super::partitions::moment::{self, DAY, SECOND};
use crate::postgres::{quote_identifier, quote_literal};

/// The column, quoted, and what its values are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeColumn {
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

    /// Whether the value of a row was certainly written behind a moment, if it is the time of the
    /// writer. A time without a zone may be that of any zone: the first of them is 14 h ahead.
    pub(super) fn is_after(&self, row: &str, moment: PgTimestamp) -> String {
        const UNIX: i64 = 10_957 * DAY; // 2000-01-01
        const FIRST_ZONE: i64 = 14 * 3_600 * SECOND;
        let ahead = match self.kind {
            TimeKind::TimestampTz | TimeKind::Integer(_) => 0,
            TimeKind::Timestamp | TimeKind::Date => FIRST_ZONE,
        };
        let moment = moment.as_micros().saturating_add(UNIX + ahead);
        format!("{row}.{} > {}", self.quoted(), self.bound(moment))
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

    /// A value as microseconds since 1970, or the greatest or least that 64 bits can count.
    pub(super) fn micros(&self, value: &str) -> String {
        let seconds = match self.kind {
            TimeKind::TimestampTz => format!("extract(epoch from {value})::numeric"),
            TimeKind::Timestamp => {
                format!("extract(epoch from ({value} at time zone 'UTC'))::numeric")
            }
            TimeKind::Date => {
                format!("extract(epoch from ({value}::timestamp at time zone 'UTC'))::numeric")
            }
            TimeKind::Integer(per_second) => format!("({value}::numeric / {per_second})"),
        };
        format!("greatest(least({seconds} * 1000000, 9.2e18), -9.2e18)::int8")
    }

    /// A time, in microseconds since 1970, as a bound of a partition.
    pub(super) fn bound(&self, micros: i64) -> String {
        match self.kind {
            TimeKind::TimestampTz => format!("'{}+00'", moment::date_time(micros)),
            TimeKind::Timestamp => format!("'{}'", moment::date_time(micros)),
            TimeKind::Date => format!("'{}'", moment::date(micros)),
            TimeKind::Integer(_) => (micros / self.unit()).to_string(),
        }
    }

    /// The shortest time between two values, in microseconds.
    pub(super) fn unit(&self) -> i64 {
        match self.kind {
            TimeKind::TimestampTz | TimeKind::Timestamp => 1,
            TimeKind::Date => DAY,
            TimeKind::Integer(per_second) => SECOND / i64::from(per_second),
        }
    }
}

#[cfg(test)]
mod tests {
    use relay::TableName;

    use super::*;

    #[test]
    fn a_time_without_a_zone_is_later_only_if_it_is_so_in_every_zone() {
        let name = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
        let outbox = OutboxTable::with_defaults(name);
        let noon = PgTimestamp::from_micros(12 * 3_600 * SECOND);
        for (type_oid, text) in [
            (1184, "t.\"at\" > '2000-01-01 12:00:00+00'"),
            (1114, "t.\"at\" > '2000-01-02 02:00:00'"),
            (1082, "t.\"at\" > '2000-01-02'"),
            (20, "t.\"at\" > 946728000000"),
        ] {
            let column = TimeColumn::of("at", type_oid, &outbox).unwrap();
            assert_eq!(column.is_after("t", noon), text);
        }
    }

    #[test]
    fn a_bound_is_written_in_the_form_of_its_column() {
        let name = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
        let mut outbox = OutboxTable::with_defaults(name);
        outbox.timestamp_unit = EpochUnit::Milliseconds;
        let new_year = 1_767_225_600 * SECOND;
        for (type_oid, text) in [
            (1184, "'2026-01-01 00:00:00+00'"),
            (1114, "'2026-01-01 00:00:00'"),
            (1082, "'2026-01-01'"),
            (20, "1767225600000"),
        ] {
            let column = TimeColumn::of("t", type_oid, &outbox).unwrap();
            assert_eq!(column.bound(new_year), text);
        }
    }
}
