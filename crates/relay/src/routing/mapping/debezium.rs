//! What Kafka Connect writes of Debezium's types, where that differs from PostgreSQL's text: as
//! characters, and as JSON.
//!
//! A timestamp is a number, of milliseconds or microseconds by its precision
//! (`time.precision.mode = adaptive`), one with a time zone a text in UTC, a date the number of its
//! day, a time of day or an interval a number of microseconds, a decimal number the bytes of its
//! digits, an array a list.

use std::fmt::Write as _;

use super::{
    array,
    form::{DecimalAs, Element, Form, Unit, Width},
    interval::Interval,
    java::{self, Decimal, NoNumber},
    simple::{Unwritable, simple_json, string},
};
use crate::routing::{
    table::Intervals,
    timestamp::{Timepoint, micros_of_day},
};

/// Appends the value as characters.
pub(super) fn characters(form: Form, text: &str, out: &mut String) -> Result<(), Unwritable> {
    match form {
        Form::Text | Form::Json | Form::Integer => out.push_str(text),
        Form::Timestamp(unit) => return timestamp(unit, text, out),
        Form::TimestampTz(digits) => return timestamp_tz(digits, text, out),
        Form::Date => return date(text, out),
        Form::Clock(unit) => return clock(unit, text, out),
        Form::ClockTz => return clock_tz(text, out),
        Form::Interval(how) => return interval(how, text, out),
        Form::Float(width) => return Ok(java::float(width, text, out)?),
        Form::Decimal(how) => return decimal(how, text, out),
        Form::Array(element) => return list(element, text, Notation::Header, out),
        // These are written elsewhere, or refused before.
        Form::Boolean | Form::Bytea | Form::UnclearTime | Form::Other => {
            return Err(Unwritable::Form);
        }
    }
    Ok(())
}

/// Appends the value as JSON.
pub(super) fn json(form: Form, text: &str, out: &mut String) -> Result<(), Unwritable> {
    match form {
        Form::Timestamp(_)
        | Form::Date
        | Form::Clock(_)
        | Form::Interval(Intervals::Number)
        | Form::Decimal(DecimalAs::ScaleAndBytes) => characters(form, text, out),
        Form::Float(_) | Form::Decimal(DecimalAs::Double) => {
            let start = out.len();
            characters(form, text, out)?;
            // JSON has no such numbers, so Jackson makes texts of them.
            if out.ends_with(['N', 'y']) {
                let name = out.split_off(start);
                string(&name, out);
            }
            Ok(())
        }
        Form::Decimal(DecimalAs::Bytes) => {
            out.push('"');
            Decimal::read(text)?.write_bytes(out);
            out.push('"');
            Ok(())
        }
        Form::Array(element) => list(element, text, Notation::Json, out),
        Form::TimestampTz(_)
        | Form::ClockTz
        | Form::Interval(Intervals::Text)
        | Form::Decimal(DecimalAs::Text)
        | Form::Text
        | Form::Json
        | Form::Integer
        | Form::Boolean
        | Form::Bytea
        | Form::UnclearTime
        | Form::Other => {
            let mut written = String::new();
            characters(form, text, &mut written)?;
            string(&written, out);
            Ok(())
        }
    }
}

fn timestamp(unit: Unit, text: &str, out: &mut String) -> Result<(), Unwritable> {
    let infinite = match unit {
        Unit::Milliseconds => ["9223372036825200000", "-9223372036832400000"],
        Unit::Microseconds => ["9223372036854775807", "-9223372036854775808"],
        Unit::Nanoseconds => return number(unit, Timepoint::read(text)?.micros(), out),
    };
    finite_or(infinite, text, out, |at, out| number(unit, at.micros(), out))
}

fn timestamp_tz(digits: u8, text: &str, out: &mut String) -> Result<(), Unwritable> {
    finite_or(["infinity", "-infinity"], text, out, |at, out| {
        // Writing to a `String` cannot fail.
        write!(out, "{}", at.iso(usize::from(digits))).unwrap_or_default();
        Ok(())
    })
}

fn date(text: &str, out: &mut String) -> Result<(), Unwritable> {
    finite_or(["2146033979", "-2147472691"], text, out, |at, out| {
        // Writing to a `String` cannot fail.
        write!(out, "{}", at.days()).unwrap_or_default();
        Ok(())
    })
}

/// Appends a time, or what Debezium 3.7 was seen to write of an infinite one and of one before all
/// times: numbers that stand for it in Java, and no error.
fn finite_or(
    infinite: [&str; 2],
    text: &str,
    out: &mut String,
    write: impl FnOnce(Timepoint, &mut String) -> Result<(), Unwritable>,
) -> Result<(), Unwritable> {
    let [infinity, minus_infinity] = infinite;
    match text {
        "infinity" => out.push_str(infinity),
        "-infinity" => out.push_str(minus_infinity),
        finite => return write(Timepoint::read(finite)?, out),
    }
    Ok(())
}

/// Appends microseconds in another unit, rounded down. A number of more than 64 bits is refused, as
/// Debezium 3.7 refuses it in nanoseconds; in microseconds it takes the greatest number for the
/// seconds and may turn the sign over, which no reader could tell from a time.
fn number(unit: Unit, micros: i128, out: &mut String) -> Result<(), Unwritable> {
    let number = match unit {
        Unit::Milliseconds => micros.div_euclid(1_000),
        Unit::Microseconds => micros,
        Unit::Nanoseconds => micros * 1_000,
    };
    let number = i64::try_from(number).map_err(|_| Unwritable::Range(unit))?;
    // Writing to a `String` cannot fail.
    write!(out, "{number}").unwrap_or_default();
    Ok(())
}

fn clock(unit: Unit, text: &str, out: &mut String) -> Result<(), Unwritable> {
    let micros = micros_of_day(text).ok_or(Unwritable::Form)?;
    number(unit, i128::from(micros), out)
}

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Appends a time of day in UTC, with the digits of its fraction that are not zero.
fn clock_tz(text: &str, out: &mut String) -> Result<(), Unwritable> {
    let micros = micros_of_day(text).ok_or(Unwritable::Form)?;
    // The end of the day is a time of its own, 24:00:00.
    let micros = if micros == MICROS_PER_DAY { micros } else { micros.rem_euclid(MICROS_PER_DAY) };
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    // Writing to a `String` cannot fail.
    write!(out, "{hour:02}:{minute:02}:{second:02}").unwrap_or_default();
    if fraction > 0 {
        out.push('.');
        out.push_str(format!("{fraction:06}").trim_end_matches('0'));
    }
    out.push('Z');
    Ok(())
}

fn interval(how: Intervals, text: &str, out: &mut String) -> Result<(), Unwritable> {
    let interval = Interval::read(text).ok_or(Unwritable::Form)?;
    match how {
        Intervals::Number => interval.write_micros(out),
        Intervals::Text => interval.write_iso(out),
    }
    Ok(())
}

fn decimal(how: DecimalAs, text: &str, out: &mut String) -> Result<(), Unwritable> {
    match how {
        DecimalAs::Double => java::float(Width::Double, text, out)?,
        DecimalAs::Text => out.push_str(match text {
            "NaN" => "NAN",
            "Infinity" => "POSITIVE_INFINITY",
            "-Infinity" => "NEGATIVE_INFINITY",
            finite => finite,
        }),
        DecimalAs::Bytes => Decimal::read(text)?.write(out),
        DecimalAs::ScaleAndBytes => {
            let decimal = Decimal::read(text)?.stripped();
            // Writing to a `String` cannot fail.
            write!(out, "{{\"scale\":{},\"value\":\"", decimal.scale).unwrap_or_default();
            decimal.write_bytes(out);
            out.push_str("\"}");
        }
    }
    Ok(())
}

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// As `SimpleHeaderConverter` does: of a text, quotes and backslashes alone are escaped.
    Header,
    Json,
}

fn list(
    element: Element,
    text: &str,
    notation: Notation,
    out: &mut String,
) -> Result<(), Unwritable> {
    let body = text.split_once('=').filter(|_| text.starts_with('[')).map_or(text, |(_, b)| b);
    if body.starts_with("{{") {
        return Err(Unwritable::Dimensions);
    }
    let (mut separator, mut wrong) = ("", None);
    out.push('[');
    let read = array::elements(text, |value| {
        out.push_str(separator);
        separator = ",";
        if let Err(why) = member(element, value, notation, out) {
            wrong = Some(why);
        }
    });
    out.push(']');
    read.map_err(|_| Unwritable::Form)?;
    wrong.map_or(Ok(()), Err)
}

fn member(
    element: Element,
    value: Option<&str>,
    notation: Notation,
    out: &mut String,
) -> Result<(), Unwritable> {
    let Some(value) = value else {
        out.push_str("null");
        return Ok(());
    };
    let form = element.form();
    // Of an array's infinite times Debezium makes numbers that stand for nothing.
    let is_time = matches!(form, Form::Timestamp(_) | Form::TimestampTz(_) | Form::Date);
    if is_time && value.ends_with("infinity") {
        return Err(Unwritable::NotFinite);
    }
    match (notation, element) {
        (Notation::Header, Element::Text | Element::Json) => {
            out.push('"');
            out.push_str(&value.replace('\\', "\\\\").replace('"', "\\\""));
            out.push('"');
            Ok(())
        }
        (Notation::Header, Element::Float(_)) => characters(form, value, out),
        (_, _) => simple_json(form, value, out).unwrap_or_else(|| json(form, value, out)),
    }
}

impl From<NoNumber> for Unwritable {
    fn from(_: NoNumber) -> Self {
        Self::NotFinite
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(unit: Unit, text: &str) -> Result<String, String> {
        let mut out = String::new();
        timestamp(unit, text, &mut out).map_err(|why| why.to_string())?;
        Ok(out)
    }

    #[test]
    fn a_time_whose_number_has_more_than_64_bits_is_refused_with_the_range() {
        let last = ["2262-04-11 23:47:16.854775", "9223372036854775000"];
        let first = ["1677-09-21 00:12:43.145225", "-9223372036854775000"];
        for [text, number] in [first, last] {
            assert_eq!(written(Unit::Nanoseconds, text).as_deref(), Ok(number));
        }
        let range = "it is outside of what nanoseconds since 1970 can be in 64 bits: \
                     1677-09-21 00:12:43.145225 to 2262-04-11 23:47:16.854775 UTC";
        for text in [
            "3000-01-01 00:00:00",
            "1500-01-01 00:00:00",
            "0044-03-15 00:00:00 BC",
            "1677-09-21 00:12:43.145224",
            // What `timestamp(3)` makes of the last one.
            "2262-04-11 23:47:16.855",
            "2262-04-11 23:47:16.854776",
            "294276-12-31 00:00:00",
        ] {
            assert_eq!(written(Unit::Nanoseconds, text), Err(range.to_owned()), "{text}");
        }
        let last = written(Unit::Microseconds, "294247-01-10 04:00:54.775807");
        assert_eq!(last, Ok(i64::MAX.to_string()));
        assert!(written(Unit::Microseconds, "294247-01-10 04:00:54.775808").is_err());
        let last = written(Unit::Milliseconds, "294276-12-31 23:59:59.999");
        assert_eq!(last.as_deref(), Ok("9224318015999999"));
        let first = written(Unit::Microseconds, "4714-11-24 00:00:00 BC");
        assert_eq!(first.as_deref(), Ok("-210866803200000000"));
    }
}
