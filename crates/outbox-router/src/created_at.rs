//! When a row was written, by a column of its table.

use relay::{ColumnName, EpochUnit, Mapping, Role};
use tokio_postgres::types::Type;

/// Names of that column in outbox tables that we have seen; the name that `setup` uses is first.
pub(crate) const CREATED_AT: [&str; 7] =
    ["created_at", "occurred_at", "inserted_at", "createdat", "occurredat", "created", "timestamp"];

/// Types of such a column.
pub(crate) const TIMES: [Type; 3] = [Type::TIMESTAMPTZ, Type::TIMESTAMP, Type::DATE];

/// The others: units since 1970.
pub(crate) const NUMBERS: [Type; 3] = [Type::INT8, Type::INT4, Type::INT2];

/// Names that it may have in a table, the likeliest first: the configured ones, the preset's, and
/// those that we have seen.
pub(crate) fn names(mapping: Mapping<'_>) -> impl Iterator<Item = &str> {
    // Routing reads the column only where a record's time is taken from it.
    let configured = mapping.table().columns.get(Role::Timestamp).into_iter().flatten();
    let configured = configured.filter_map(|name| match name {
        ColumnName::Column(name) => Some(name.as_str()),
        ColumnName::Template(_) => None,
    });
    let of_preset = mapping.preset().alternatives(Role::Timestamp).iter().copied();
    configured.chain(of_preset).chain(CREATED_AT)
}

/// A time or date as microseconds since 1970, in SQL, or the bound that it is beyond: PostgreSQL's
/// times go to the year 294276, its dates to 5874897, and 64 bits of microseconds to 294247. NULL
/// where it is NULL or infinite.
pub(crate) fn micros_of_time(time: &str) -> String {
    let micros = within_bounds(&format!("extract(epoch from {time}) * 1000000"));
    format!("case when isfinite({time}) then {micros} end")
}

/// The same of a number of such units, which may be no time.
pub(crate) fn micros_of_number(number: &str, unit: EpochUnit) -> String {
    let factor = match unit {
        EpochUnit::Seconds => 1_000_000,
        EpochUnit::Milliseconds => 1_000,
        EpochUnit::Microseconds => 1,
    };
    let micros = within_bounds(&format!("{number}::numeric * {factor}"));
    format!("case when {number} is not null then {micros} end")
}

/// Bounds that `to_timestamp` reads as times. `least` and `greatest` pass over NULL.
fn within_bounds(micros: &str) -> String {
    format!("least(greatest({micros}, -2.1e17), 9e18)::int8")
}
