//! Times as microseconds since 1970, in SQL. PostgreSQL's times go to the year 294276, its dates to
//! 5874897, and 64 bits of microseconds to 294247.

use relay::EpochUnit;

/// The microseconds of a time or date, or the bound that it is beyond; NULL where it is NULL or
/// infinite.
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
