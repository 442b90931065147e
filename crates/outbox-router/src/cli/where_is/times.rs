//! Times in milliseconds since 1970, as they are printed.

use relay::{PgTimestamp, wording};

/// In UTC, ISO 8601, with milliseconds; the number itself where it is of another millennium.
pub(super) fn utc(millis: i64) -> String {
    let seconds = wording::utc(PgTimestamp::from_unix_micros(millis.saturating_mul(1_000)));
    let Some(seconds) = seconds else { return millis.to_string() };
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), millis.rem_euclid(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_milliseconds() {
        assert_eq!(utc(1_767_225_600_007), "2026-01-01T00:00:00.007Z");
        assert_eq!(utc(-1), "-1", "no record is that old");
    }
}
