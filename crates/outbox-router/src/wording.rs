//! How durations, sizes and causes are written for people, in one place, so that they read the same
//! in logs, `/status.json` and errors. Those for sizes and causes are in the core, whose messages
//! contain them, too.

use std::time::Duration;

pub(crate) use relay::wording::{bytes, chain};

/// A duration, rounded down to the largest fitting unit: nobody acts differently on 3,611 and 3,600
/// seconds.
pub(crate) fn roughly(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A number with its noun: `1 event`, `2 events`.
pub(crate) fn count(number: impl Into<i64>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// So many rows, with their verb.
pub(crate) fn rows_are(rows: u64) -> String {
    if rows == 1 { "1 row is".to_owned() } else { format!("{rows} rows are") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_the_unit_that_matters() {
        assert_eq!(roughly(Duration::from_secs(90)), "90 s");
        assert_eq!(roughly(Duration::from_secs(3_700)), "61 min");
        assert_eq!(roughly(Duration::from_secs(9_000)), "2 h");
        assert_eq!(roughly(Duration::from_secs(400_000)), "4 days");
    }

    #[test]
    fn one_is_counted_without_an_s() {
        assert_eq!((count(1, "key"), count(0, "key")), ("1 key".to_owned(), "0 keys".to_owned()));
    }
}
