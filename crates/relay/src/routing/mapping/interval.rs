//! PostgreSQL's text of an interval, and what Debezium makes of it.

use std::fmt::Write as _;

/// How many days a month has for Debezium.
const MONTH: f64 = 365.25 / 12.0;

/// An interval, in the fields that PostgreSQL writes; those of its time have one sign.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Interval {
    years: i32,
    months: i32,
    days: i32,
    hours: i32,
    minutes: i32,
    seconds: i32,
    micros: i32,
}

impl Interval {
    /// Reads what PostgreSQL writes with `IntervalStyle = postgres`: `-1 years +2 mons 3 days
    /// -04:05:06.789`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut interval = Self::default();
        let mut words = text.split(' ');
        while let Some(word) = words.next() {
            if word.contains(':') {
                interval.read_clock(word)?;
                continue;
            }
            let number: i32 = word.parse().ok()?;
            let field = match words.next()? {
                "year" | "years" => &mut interval.years,
                "mon" | "mons" => &mut interval.months,
                "day" | "days" => &mut interval.days,
                _ => return None,
            };
            *field = number;
        }
        Some(interval)
    }

    /// `[-+]HH:MM:SS[.ffffff]`
    fn read_clock(&mut self, word: &str) -> Option<()> {
        let (sign, word) = match word.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, word.strip_prefix('+').unwrap_or(word)),
        };
        let (clock, fraction) = word.split_once('.').unwrap_or((word, ""));
        let mut parts = clock.split(':');
        let mut part = || parts.next()?.parse().ok().map(|number: i32| sign * number);
        (self.hours, self.minutes, self.seconds) = (part()?, part()?, part()?);
        let fraction: i32 = format!("{fraction:0<6}").parse().ok()?;
        self.micros = sign * fraction;
        parts.next().is_none().then_some(())
    }

    /// Appends it in microseconds: as Debezium computes them, in floating-point numbers of days and
    /// seconds.
    pub(super) fn write_micros(&self, out: &mut String) {
        let Self { years, months, days, hours, minutes, seconds, micros } = *self;
        let months = f64::from(years) * 12.0 + f64::from(months);
        let days = months * MONTH + f64::from(days);
        let minutes = (days * 24.0 + f64::from(hours)) * 60.0 + f64::from(minutes);
        let seconds = minutes * 60.0 + (f64::from(seconds) + f64::from(micros) / 1e6);
        // A cast cuts off, and past the end of 64 bits it gives the end, in Java as here. Writing
        // to a `String` cannot fail.
        #[expect(
            clippy::as_conversions,
            clippy::cast_possible_truncation,
            reason = "as Java's cast from double to long"
        )]
        let micros = (seconds * 1e6) as i64;
        write!(out, "{micros}").unwrap_or_default();
    }

    /// Appends it as ISO 8601 has it, with every field.
    pub(super) fn write_iso(&self, out: &mut String) {
        let Self { years, months, days, hours, minutes, seconds, micros } = self;
        let sign = if *seconds == 0 && *micros < 0 { "-" } else { "" };
        // Writing to a `String` cannot fail.
        write!(out, "P{years}Y{months}M{days}DT{hours}H{minutes}M{sign}{seconds}")
            .unwrap_or_default();
        if *micros != 0 {
            out.push('.');
            out.push_str(format!("{:06}", micros.abs()).trim_end_matches('0'));
        }
        out.push('S');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debezium 3.7 writes them.
    #[test]
    fn intervals_are_debeziums() {
        for (text, micros, iso) in [
            ("1 day 02:03:04", 93_784_000_000, "P0Y0M1DT2H3M4S"),
            ("1 year 2 mons 3 days", 37_076_400_000_000, "P1Y2M3DT0H0M0S"),
            (
                "-1 years -2 mons +3 days -04:05:06.789",
                -36_572_706_789_000,
                "P-1Y-2M3DT-4H-5M-6.789S",
            ),
            ("00:00:00", 0, "P0Y0M0DT0H0M0S"),
            ("00:00:00.000001", 1, "P0Y0M0DT0H0M0.000001S"),
            ("-00:00:01.5", -1_500_000, "P0Y0M0DT0H0M-1.5S"),
            ("100 years", 3_155_760_000_000_000, "P100Y0M0DT0H0M0S"),
            // A floating-point number is not exact.
            (
                "-8 years -1 mons -250 days -18:42:23.9025",
                -276_757_943_902_499,
                "P-8Y-1M-250DT-18H-42M-23.9025S",
            ),
            ("300000 years", i64::MAX, "P300000Y0M0DT0H0M0S"),
            ("178000000 years", i64::MAX, "P178000000Y0M0DT0H0M0S"),
            ("-178000000 years", i64::MIN, "P-178000000Y0M0DT0H0M0S"),
        ] {
            let interval = Interval::read(text).unwrap();
            let (mut number, mut written) = (String::new(), String::new());
            interval.write_micros(&mut number);
            interval.write_iso(&mut written);
            assert_eq!((number, written.as_str()), (i64::to_string(&micros), iso), "{text}");
        }
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        for text in ["", "infinity", "1", "1 week", "1:2", "P1D", "1 day x", "1:2:3:4"] {
            assert_eq!(Interval::read(text), None, "{text}");
        }
    }
}
