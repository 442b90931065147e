//! PostgreSQL's text of a timestamp, a date or a number as a time, and as the time of a record: in
//! milliseconds since 1970.
//!
//! The connection sets `DateStyle = ISO`, so a timestamp is `2026-01-31 23:59:59.123456`, one with
//! a time zone has the offset from UTC after it, and years before the first end in ` BC`. A
//! timestamp without a time zone counts as UTC, as it does in Debezium.

use std::fmt;

/// The text of a `timestamptz` as a session with `TimeZone = UTC` has it, made of a text with any
/// offset from UTC, such as `2026-01-31T23:59:59.5+02:00`, which is the form in JSON. `None` for a
/// text without an offset and for what is no such time; infinite times have no offset.
pub fn timestamptz_in_utc(text: &str) -> Option<String> {
    if matches!(text, "infinity" | "-infinity") {
        return Some(text.to_owned());
    }
    let text = text.replacen('T', " ", 1);
    let (_, time) = text.split_once(' ')?;
    let has_offset = time.contains(['+', '-']);
    has_offset.then(|| Timepoint::read(&text).ok())?.map(|at| at.in_utc())
}

/// What a column's text says of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeForm {
    /// A timestamp, with a time zone or without, or a date: midnight.
    Calendar,
    /// A number of these units since 1970.
    Epoch(EpochUnit),
}

/// The unit of a time that is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
}

/// Why a value is no time of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTime {
    #[error("it is infinite")]
    Infinite,
    /// A producer cannot send it: librdkafka takes 0 for the present time, and Kafka refuses
    /// negative ones (`InvalidTimestampException`).
    #[error("it is not after 1970-01-01 00:00:00 UTC")]
    TooEarly,
    /// More than 64 bits of milliseconds.
    #[error("it is later than a record can say")]
    TooLate,
    #[error("its text has another form than its type")]
    Form,
}

/// A time, as PostgreSQL keeps it: to the microsecond. Its microseconds since 1970 need more than
/// 64 bits at the end of PostgreSQL's range, so the day stands apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timepoint {
    /// Days since 1970.
    days: i64,
    /// Since midnight; less than a day, not negative.
    micros_of_day: i64,
}

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
const MILLIS_PER_DAY: i64 = 86_400_000;

/// Milliseconds since 1970; what is finer is cut off.
///
/// # Errors
/// [`NoTime`]: no record can carry that time.
pub(crate) fn millis(text: &[u8], form: TimeForm) -> Result<i64, NoTime> {
    let text = str::from_utf8(text).map_err(|_| NoTime::Form)?;
    let millis = match form {
        TimeForm::Calendar => Timepoint::read(text)?.millis(),
        TimeForm::Epoch(unit) => {
            let number: i64 = text.parse().map_err(|_| NoTime::Form)?;
            match unit {
                EpochUnit::Seconds => number.checked_mul(1_000).ok_or(if number > 0 {
                    NoTime::TooLate
                } else {
                    NoTime::TooEarly
                })?,
                EpochUnit::Milliseconds => number,
                EpochUnit::Microseconds => number / 1_000,
            }
        }
    };
    if millis > 0 { Ok(millis) } else { Err(NoTime::TooEarly) }
}

impl Timepoint {
    /// Reads a timestamp, with a time zone or without, or a date.
    ///
    /// # Errors
    /// It is infinite, or no such text.
    pub(crate) fn read(text: &str) -> Result<Self, NoTime> {
        match usual(text.as_bytes()) {
            Some(at) => Ok(at),
            None => Self::read_any(text),
        }
    }

    fn read_any(text: &str) -> Result<Self, NoTime> {
        if matches!(text, "infinity" | "-infinity") {
            return Err(NoTime::Infinite);
        }
        let (text, era) = match text.strip_suffix(" BC") {
            Some(text) => (text, Era::BeforeChrist),
            None => (text, Era::AnnoDomini),
        };
        let (date, time) = text.split_once(' ').unwrap_or((text, ""));
        let days = days_of(date, era).ok_or(NoTime::Form)?;
        let micros = match time {
            "" => 0,
            time => micros_of_day(time).ok_or(NoTime::Form)?,
        };
        // An offset may lead to another day.
        let (more, micros_of_day) =
            (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
        Ok(Self { days: days + more, micros_of_day })
    }

    /// Days since 1970.
    pub(crate) const fn days(self) -> i64 {
        self.days
    }

    /// Milliseconds since 1970, rounded down.
    pub(crate) const fn millis(self) -> i64 {
        self.days * MILLIS_PER_DAY + self.micros_of_day / 1_000
    }

    /// Written as ISO 8601 in UTC, with so many digits of the second's fraction.
    pub(crate) const fn iso(self, digits: usize) -> Iso {
        Iso { at: self, digits }
    }

    /// PostgreSQL's text of a `timestamptz` where `TimeZone` is UTC and `DateStyle` is ISO: no more
    /// digits of the second's fraction than it needs, and years before the first with ` BC`.
    pub(crate) fn in_utc(self) -> String {
        let (year, month, day) = civil_from_days(self.days);
        let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
        let seconds = self.micros_of_day / MICROS_PER_SECOND;
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        let fraction = format!(".{:06}", self.micros_of_day % MICROS_PER_SECOND);
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}+00{era}")
    }

    /// Microseconds since 1970.
    pub(crate) fn micros(self) -> i128 {
        i128::from(self.days) * i128::from(MICROS_PER_DAY) + i128::from(self.micros_of_day)
    }
}

/// A time as ISO 8601 in UTC, with a fixed number of digits of the second's fraction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Iso {
    at: Timepoint,
    digits: usize,
}

impl fmt::Display for Iso {
    /// As Java's `DateTimeFormatter` writes years: four digits at least, and a sign where there are
    /// more, or where the year is before the first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.at.days);
        let sign = match year {
            ..0 => "-",
            0..=9_999 => "",
            _ => "+",
        };
        let seconds = self.at.micros_of_day / MICROS_PER_SECOND;
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        let year = year.abs();
        write!(f, "{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.digits > 0 {
            let micros = format!("{:06}", self.at.micros_of_day % MICROS_PER_SECOND);
            write!(f, ".{}", micros.get(..self.digits).unwrap_or(&micros))?;
        }
        f.write_str("Z")
    }
}

/// The usual form, `YYYY-MM-DD HH:MM:SS[.ffffff][+00]`, whose parts have their places; `None` for
/// any other. It costs a fifth of what [`Timepoint::read_any`] does.
fn usual(text: &[u8]) -> Option<Timepoint> {
    let (clock, rest) = text.split_first_chunk::<19>()?;
    let [y1, y2, y3, y4, b'-', mo1, mo2, b'-', d1, d2, b' ', h1, h2, b':', m1, m2, b':', s1, s2] =
        *clock
    else {
        return None;
    };
    let two = |tens: u8, ones: u8| {
        (tens.is_ascii_digit() && ones.is_ascii_digit())
            .then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
    };
    let (year, month, day) = (two(y1, y2)? * 100 + two(y3, y4)?, two(mo1, mo2)?, two(d1, d2)?);
    let is_date = year >= 1 && (1..=12).contains(&month) && (1..=31).contains(&day);
    let seconds = (two(h1, h2)? * 60 + two(m1, m2)?) * 60 + two(s1, s2)?;
    let (fraction, offset) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest.split_at_checked(digits)?
        }
        None => (&b""[..], rest),
    };
    let is_usual = is_date
        && seconds < 86_400
        && fraction.len() <= 6
        && (fraction.is_empty() == (rest.len() == offset.len()))
        && matches!(offset, b"" | b"+00");
    if !is_usual {
        return None;
    }
    let mut micros = 0;
    let mut weight = MICROS_PER_SECOND;
    for digit in fraction {
        weight /= 10;
        micros += i64::from(digit - b'0') * weight;
    }
    let micros_of_day = seconds * MICROS_PER_SECOND + micros;
    Some(Timepoint { days: days_from_civil(year, month, day), micros_of_day })
}

/// Whether a year is counted from the first on, or backwards from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    AnnoDomini,
    BeforeChrist,
}

/// The last year that PostgreSQL's `date` has.
const YEAR_MAX: i64 = 5_874_897;

/// `YYYY-MM-DD`, years with four to seven digits, as days since 1970.
fn days_of(date: &str, era: Era) -> Option<i64> {
    let (year, rest) = date.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let (year, month, day) = (digits(year)?, digits(month)?, digits(day)?);
    let is_date =
        (1..=YEAR_MAX).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    // There is no year 0: the one before the first is 1 BC.
    let year = match era {
        Era::AnnoDomini => year,
        Era::BeforeChrist => 1 - year,
    };
    is_date.then(|| days_from_civil(year, month, day))
}

/// Days since 1970 in the proleptic Gregorian calendar. Years begin in March, so that the leap day
/// is a year's last; 400 years have 146,097 days.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = year_of_era + era * 400;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

/// `HH:MM:SS[.ffffff][±HH[:MM[:SS]]]` as microseconds, with the offset taken off.
pub(crate) fn micros_of_day(text: &str) -> Option<i64> {
    let (clock, offset) = match text.find(['+', '-']) {
        Some(at) => {
            let (clock, offset) = text.split_at(at);
            let sign = if offset.starts_with('-') { -1 } else { 1 };
            (clock, sign * seconds(offset.get(1..)?)?)
        }
        None => (text, 0),
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    digits(fraction)?;
    let mut micros = 0;
    let mut weight = MICROS_PER_SECOND;
    for digit in fraction.bytes().take(6) {
        weight /= 10;
        micros += i64::from(digit - b'0') * weight;
    }
    Some((seconds(clock)? - offset) * MICROS_PER_SECOND + micros)
}

/// `HH[:MM[:SS]]` as seconds.
fn seconds(text: &str) -> Option<i64> {
    let mut total = 0;
    let mut unit = 3_600;
    for part in text.split(':') {
        if unit == 0 {
            return None;
        }
        total += digits(part)? * unit;
        unit /= 60;
    }
    Some(total)
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar(text: &str) -> Result<i64, NoTime> {
        millis(text.as_bytes(), TimeForm::Calendar)
    }

    /// Figures of `extract(epoch from …)`.
    #[test]
    fn timestamps_and_dates_are_read() {
        for (text, expected) in [
            ("2019-03-24 20:52:59", 1_553_460_779_000),
            ("2019-03-24 20:52:59.123456", 1_553_460_779_123),
            ("2019-03-24 20:52:59.1+00", 1_553_460_779_100),
            ("2019-03-24 20:52:59+05:30", 1_553_440_979_000),
            ("2019-03-24 20:52:59-08", 1_553_489_579_000),
            ("2024-02-29", 1_709_164_800_000),
            ("2000-03-01 00:00:00", 951_868_800_000),
            ("1970-01-01 00:00:00.001", 1),
            ("9999-12-31 23:59:59.999+00", 253_402_300_799_999),
            ("294276-12-31 23:59:59.999999", 9_224_318_015_999_999),
        ] {
            assert_eq!(calendar(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_no_record_can_carry_is_refused() {
        for (text, expected) in [
            ("infinity", NoTime::Infinite),
            ("-infinity", NoTime::Infinite),
            ("0044-03-15 BC", NoTime::TooEarly),
            ("1969-12-31 23:59:59.999", NoTime::TooEarly),
            ("1970-01-01 00:00:00+00", NoTime::TooEarly),
            ("", NoTime::Form),
            ("yesterday", NoTime::Form),
            ("2024-13-01", NoTime::Form),
            ("2024-01-01 1:2:3:4", NoTime::Form),
            ("2024-01-01 10:00:00.x", NoTime::Form),
            ("2024-01-01 10:00:00+", NoTime::Form),
        ] {
            assert_eq!(calendar(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn numbers_are_read_in_their_unit() {
        let epoch = |text: &str, unit| millis(text.as_bytes(), TimeForm::Epoch(unit));
        assert_eq!(epoch("1553460779", EpochUnit::Seconds), Ok(1_553_460_779_000));
        assert_eq!(epoch("1553460779001", EpochUnit::Milliseconds), Ok(1_553_460_779_001));
        assert_eq!(epoch("1553460779001999", EpochUnit::Microseconds), Ok(1_553_460_779_001));
        assert_eq!(epoch("9223372036854775807", EpochUnit::Seconds), Err(NoTime::TooLate));
        assert_eq!(epoch("-9223372036854775808", EpochUnit::Seconds), Err(NoTime::TooEarly));
        assert_eq!(epoch("0", EpochUnit::Milliseconds), Err(NoTime::TooEarly));
        assert_eq!(epoch("1.5", EpochUnit::Seconds), Err(NoTime::Form));
    }

    /// As Debezium 3.7 writes a `timestamptz` of the declared precision.
    #[test]
    fn a_time_is_written_as_iso_8601_in_utc() {
        for (text, digits, expected) in [
            ("2019-03-24 20:52:59+00", 6, "2019-03-24T20:52:59.000000Z"),
            ("2019-03-24 20:52:59+00", 0, "2019-03-24T20:52:59Z"),
            ("2019-03-24 20:52:59.12+00", 6, "2019-03-24T20:52:59.120000Z"),
            ("2019-03-24 20:52:59.12+00", 2, "2019-03-24T20:52:59.12Z"),
            ("2019-03-24 01:02:03.000001+05:30", 6, "2019-03-23T19:32:03.000001Z"),
            ("0099-01-01 00:00:00+00", 0, "0099-01-01T00:00:00Z"),
            ("0001-01-01 00:00:00+00 BC", 0, "0000-01-01T00:00:00Z"),
            ("0044-03-15 12:00:00+00 BC", 6, "-0043-03-15T12:00:00.000000Z"),
            ("10000-01-01 00:00:00.5+00", 6, "+10000-01-01T00:00:00.500000Z"),
            ("294276-12-31 23:59:59.999999+00", 6, "+294276-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Timepoint::read(text).unwrap().iso(digits).to_string(), expected);
        }
    }

    /// Texts of `to_jsonb(…)` in several time zones, and of the same values in UTC.
    #[test]
    fn a_time_with_any_offset_is_told_in_utc() {
        for (text, expected) in [
            ("2026-01-31T23:59:59+00:00", "2026-01-31 23:59:59+00"),
            ("2026-01-31T23:59:59.120+02:00", "2026-01-31 21:59:59.12+00"),
            ("2026-01-31T23:59:59.000001-05:30", "2026-02-01 05:29:59.000001+00"),
            ("2024-02-29T23:30:00-01", "2024-03-01 00:30:00+00"),
            ("1890-01-01T00:00:00+00:53:28", "1889-12-31 23:06:32+00"),
            ("0001-01-01T00:30:00+01:00", "0001-12-31 23:30:00+00 BC"),
            ("0044-03-15T12:00:00+00:00 BC", "0044-03-15 12:00:00+00 BC"),
            ("294276-12-31T23:59:59.999999+00:00", "294276-12-31 23:59:59.999999+00"),
            ("-infinity", "-infinity"),
        ] {
            assert_eq!(timestamptz_in_utc(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["2026-01-31T23:59:59", "2026-01-31", "2026-01-31T23:59:59 CET", "now", ""] {
            assert_eq!(timestamptz_in_utc(text), None, "{text}");
        }
    }

    /// Figures of `date - '1970-01-01'`.
    #[test]
    fn days_are_counted_over_all_of_postgresqls_range() {
        for (text, expected) in [
            ("5874897-12-31", 2_145_042_905),
            ("0001-01-01", -719_162),
            ("0001-12-31 BC", -719_163),
            ("0044-03-15 BC", -735_160),
        ] {
            assert_eq!(Timepoint::read(text).unwrap().days(), expected, "{text}");
        }
    }

    #[test]
    fn both_ways_of_reading_agree() {
        for text in [
            "2019-03-24 20:52:59",
            "2019-03-24 20:52:59.5",
            "2019-03-24 20:52:59.123456+00",
            "1969-12-31 23:59:59.999999",
            "0001-01-01 00:00:00+00",
            "9999-12-31 23:59:59.1+00",
        ] {
            assert_eq!(usual(text.as_bytes()), Timepoint::read_any(text).ok(), "{text}");
            assert!(usual(text.as_bytes()).is_some(), "{text}");
        }
        for text in [
            "2019-03-24 20:52:59.",
            "2019-03-24 20:52:59+01",
            "2019-03-24 20:52:59 BC",
            "2019-03-24T20:52:59",
            "2019-13-24 20:52:59",
            "10000-01-01 00:00:00",
            "2019-03-24 24:00:00",
            "2019-03-24 20:52:59.1234567",
            "infinity",
        ] {
            assert_eq!(usual(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn microseconds_reach_to_the_end_of_postgresqls_range() {
        let micros = |text| Timepoint::read(text).unwrap().micros();
        assert_eq!(micros("294276-12-31 23:59:59.999999"), 9_224_318_015_999_999_999);
        assert_eq!(micros("1969-12-31 23:59:59.9999"), -100);
        assert_eq!(micros("0001-01-01 00:00:00"), -62_135_596_800_000_000);
        assert_eq!(micros("0044-03-15 12:00:00 BC"), -63_517_780_800_000_000);
    }

    /// Every day of four centuries follows the one before it.
    #[test]
    fn days_follow_each_other() {
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut expected = 0;
        for year in 1970..2370 {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            for (month, length) in (1..).zip(lengths) {
                let length = if month == 2 && is_leap { 29 } else { length };
                for day in 1..=length {
                    assert_eq!(days_from_civil(year, month, day), expected);
                    assert_eq!(civil_from_days(expected), (year, month, day));
                    expected += 1;
                }
            }
        }
    }
}
