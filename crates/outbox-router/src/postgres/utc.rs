//! Times as SQL prints them.

/// A time as every other message writes it.
macro_rules! utc {
    ($column:literal) => {
        concat!("to_char(", $column, " at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")
    };
}
pub(crate) use utc;
