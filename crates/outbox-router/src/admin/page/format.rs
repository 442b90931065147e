//! How the page writes numbers and times: whole numbers, and times in UTC, because the server does
//! not know where its reader is.

use std::time::{Duration, SystemTime};

use relay::wording::utc;

use crate::{timestamp::timestamp, wording};

/// The whole part; what is no positive number is 0.
pub(crate) fn whole(number: f64) -> u64 {
    Duration::try_from_secs_f64(number).map_or(0, |seconds| seconds.as_secs())
}

/// Seconds as people say them.
pub(crate) fn age(seconds: f64) -> String {
    wording::roughly(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// A number with a narrow space before each three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

/// Events in a second.
pub(crate) fn events_rate(per_second: f64) -> String {
    match whole(per_second) {
        0 if per_second > 0.0 => "< 1/s".to_owned(),
        events => format!("{}/s", grouped(events)),
    }
}

/// Bytes in a second.
pub(crate) fn bytes_rate(per_second: f64) -> String {
    format!("{}/s", wording::bytes(whole(per_second)))
}

/// The time of day, with the date where that is not today's.
pub(crate) fn time(at: SystemTime, now: SystemTime) -> String {
    let text = |time| utc(timestamp(time)).unwrap_or_default();
    let (at, now) = (text(at), text(now));
    let (date, clock) = at.split_once('T').unwrap_or_default();
    let clock = clock.trim_end_matches('Z');
    if now.starts_with(date) { clock.to_owned() } else { format!("{date} {clock}") }
}

/// The same of seconds of the epoch.
pub(crate) fn time_of(epoch_seconds: f64, now: SystemTime) -> String {
    let since = Duration::try_from_secs_f64(epoch_seconds).unwrap_or_default();
    time(SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(now), now)
}

/// A part of a whole in so many steps.
pub(crate) fn part(of: u64, whole: u64, steps: u64) -> u64 {
    let of = u128::from(of.min(whole)) * u128::from(steps);
    u64::try_from(of / u128::from(whole.max(1))).unwrap_or(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_fraction_and_groups_of_three_digits() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(counted(1, "key"), "1 key");
        assert_eq!(events_rate(0.000_1), "< 1/s");
        assert_eq!(events_rate(1_999.999_999), "1\u{202f}999/s");
        assert_eq!(events_rate(f64::NAN), "0/s");
        assert_eq!(bytes_rate(-3.7), "0 B/s");
        assert_eq!(age(f64::INFINITY), "0 s");
    }

    #[test]
    fn a_time_of_another_day_has_its_date() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(time(at(86_399), at(10)), "23:59:59");
        assert_eq!(time(at(86_400), at(10)), "1970-01-02 00:00:00");
        assert_eq!(time_of(f64::NAN, at(10)), "00:00:00");
    }

    #[test]
    fn a_part_is_never_more_than_the_whole() {
        assert_eq!(part(1, 3, 1_000), 333);
        assert_eq!(part(u64::MAX, u64::MAX, 1_000), 1_000);
        assert_eq!(part(5, 0, 1_000), 0);
    }
}
