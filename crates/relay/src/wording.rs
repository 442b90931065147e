//! How messages write sizes, times and causes, in one place, so that all messages write them alike.

use std::{
    error::Error,
    fmt::Write as _,
    time::{Duration, UNIX_EPOCH},
};

use pgoutput::PgTimestamp;

const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];

/// Bytes as people read them: `312 B`, `1.5 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = "KiB";
    let mut whole = bytes;
    let mut tenths = 0;
    for name in UNITS {
        if whole < 1024 {
            break;
        }
        unit = name;
        tenths = (whole % 1024) * 10 / 1024;
        whole /= 1024;
    }
    format!("{whole}.{tenths} {unit}")
}

/// A time in UTC, ISO 8601, without the fraction of the second; `None` outside the years 1970 to
/// 9999.
#[must_use]
pub fn utc(at: PgTimestamp) -> Option<String> {
    let since = u64::try_from(at.unix_millis()).ok()?;
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(since))?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(time)).ok()?;
    Some(text)
}

/// The same with milliseconds.
#[must_use]
pub fn utc_millis(at: PgTimestamp) -> Option<String> {
    let since = u64::try_from(at.unix_millis()).ok()?;
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(since))?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_millis(time)).ok()?;
    Some(text)
}

/// An error with the chain of its causes, for a message that is printed once.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_to_the_second_and_those_without_a_date_are_left_out() {
        let at = |micros| utc(PgTimestamp::from_micros(micros));
        assert_eq!(at(1_999_999).as_deref(), Some("2000-01-01T00:00:01Z"));
        assert_eq!(at(i64::MIN), None);
        assert_eq!(at(i64::MAX), None);
    }

    #[test]
    fn bytes_keep_one_decimal_and_the_largest_unit() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(256 << 20), "256.0 MiB");
        assert_eq!(bytes((5 << 30) + (1 << 29)), "5.5 GiB");
        assert_eq!(bytes(u64::MAX), "16383.9 PiB");
    }
}
