//! A column's value as characters, for a header, and as JSON, for a key, a value or an envelope.
//!
//! With `format = "debezium"` both are what Kafka Connect writes of Debezium's type for the column
//! ([`debezium`]): its `SimpleHeaderConverter` and `StringConverter`, or its `JsonConverter` without
//! schemas. With `format = "plain"` a value is what PostgreSQL writes.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::{
    debezium,
    form::{DecimalAs, Form},
};
use crate::routing::{hex, table::Format, timestamp::NoTime};

/// Why a value cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unwritable {
    #[error("{0}")]
    Time(#[from] NoTime),
    #[error("its text has another form than its type")]
    Form,
    #[error("Debezium does not write such a number: it is not finite")]
    NotFinite,
    #[error("Debezium does not write such an array: it has several dimensions")]
    Dimensions,
}

/// Whether a value of this form can be written in a format.
pub(super) fn can_write(form: Form, format: Format) -> bool {
    match format {
        Format::Plain => true,
        Format::Debezium => !matches!(form, Form::Other | Form::UnclearTime),
    }
}

/// Whether Debezium writes a value of this form in other characters than PostgreSQL, as the bytes of
/// a key or a value.
pub(super) const fn has_characters_of_its_own(form: Form) -> bool {
    match form {
        Form::Float(_)
        | Form::Decimal(DecimalAs::Bytes | DecimalAs::Text | DecimalAs::Double)
        | Form::Boolean
        | Form::Timestamp(_)
        | Form::TimestampTz(_)
        | Form::Date
        | Form::Clock(_)
        | Form::ClockTz
        | Form::Interval(_) => true,
        // What StringConverter writes of an array and an object is no text to keep a key by.
        Form::Decimal(DecimalAs::ScaleAndBytes)
        | Form::Array(_)
        | Form::Text
        | Form::Json
        | Form::Integer
        | Form::Bytea
        | Form::UnclearTime
        | Form::Other => false,
    }
}

/// Appends the value as characters.
pub(super) fn characters(
    form: Form,
    text: &[u8],
    format: Format,
    out: &mut String,
) -> Result<(), Unwritable> {
    let text = str::from_utf8(text).map_err(|_| Unwritable::Form)?;
    match (form, format) {
        (Form::Boolean, _) => out.push_str(boolean(text)?),
        (Form::Bytea, _) => bytea(text, out)?,
        (_, Format::Debezium) => debezium::characters(form, text, out)?,
        (_, Format::Plain) => out.push_str(text),
    }
    Ok(())
}

/// Appends the value as JSON. A value that is JSON itself becomes a string of its text.
pub(super) fn json(
    form: Form,
    text: &[u8],
    format: Format,
    out: &mut String,
) -> Result<(), Unwritable> {
    match (form, format) {
        (Form::Integer | Form::Boolean, _) => characters(form, text, format, out),
        (Form::Text | Form::Json, _) | (_, Format::Plain) if form != Form::Bytea => {
            string(str::from_utf8(text).map_err(|_| Unwritable::Form)?, out);
            Ok(())
        }
        (Form::Bytea, _) => {
            let mut written = String::new();
            characters(form, text, format, &mut written)?;
            string(&written, out);
            Ok(())
        }
        (_, _) => {
            let text = str::from_utf8(text).map_err(|_| Unwritable::Form)?;
            debezium::json(form, text, out)
        }
    }
}

/// Appends a JSON string as Jackson writes it, which Connect's `JsonConverter` uses: `"`, `\` and
/// control characters are escaped, and characters beyond U+FFFF are two escaped surrogates.
/// Hexadecimal digits are capital letters, and nothing else is changed.
pub(super) fn string(text: &str, out: &mut String) {
    out.push('"');
    // What lies between two escapes is copied at once.
    let mut rest = text;
    while let Some(at) = escaped_at(rest.as_bytes())
        && let Some((plain, after)) = rest.split_at_checked(at)
        && let Some(escaped) = after.chars().next()
    {
        out.push_str(plain);
        match escaped {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            // Writing to a `String` cannot fail.
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04X}").unwrap_or_default();
                }
            }
        }
        rest = after.get(escaped.len_utf8()..).unwrap_or_default();
    }
    out.push_str(rest);
    out.push('"');
}

/// Where the first character is that a JSON string escapes: a character beyond U+FFFF begins with a
/// byte from 0xF0 on. A block of bytes is looked at together, without a branch, which the compiler
/// vectorises.
fn escaped_at(text: &[u8]) -> Option<usize> {
    let is_escaped =
        |byte: &u8| (*byte < b' ') | (*byte == b'"') | (*byte == b'\\') | (*byte >= 0xF0);
    let has_one = |bytes: &[u8]| bytes.iter().fold(false, |found, byte| found | is_escaped(byte));
    let mut start = 0;
    for block in text.chunks(32) {
        if has_one(block) {
            return block.iter().position(is_escaped).map(|at| start + at);
        }
        start += block.len();
    }
    None
}

fn boolean(text: &str) -> Result<&'static str, Unwritable> {
    match text {
        "t" => Ok("true"),
        "f" => Ok("false"),
        _ => Err(Unwritable::Form),
    }
}

fn bytea(text: &str, out: &mut String) -> Result<(), Unwritable> {
    let mut bytes = Vec::new();
    hex::decode(text.as_bytes(), &mut bytes).ok_or(Unwritable::Form)?;
    BASE64.encode_string(&bytes, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::routing::mapping::form::Unit;

    const MICROS: Form = Form::Timestamp(Unit::Microseconds);
    const MILLIS: Form = Form::Timestamp(Unit::Milliseconds);

    fn as_characters(form: Form, text: &str, format: Format) -> Result<String, Unwritable> {
        let mut out = String::new();
        characters(form, text.as_bytes(), format, &mut out).map(|()| out)
    }

    fn as_json(form: Form, text: &str, format: Format) -> Result<String, Unwritable> {
        let mut out = String::new();
        json(form, text.as_bytes(), format, &mut out).map(|()| out)
    }

    #[test]
    fn debezium_writes_what_connect_makes_of_its_types() {
        for (form, text, characters, json) in [
            (Form::Text, "Zürich \"1\"", "Zürich \"1\"", r#""Zürich \"1\"""#),
            (Form::Json, r#"{"a": 1}"#, r#"{"a": 1}"#, r#""{\"a\": 1}""#),
            (Form::Integer, "-7", "-7", "-7"),
            (Form::Boolean, "t", "true", "true"),
            (Form::Boolean, "f", "false", "false"),
            (Form::Bytea, "\\x00ff10", "AP8Q", "\"AP8Q\""),
            (MICROS, "2019-03-24 20:52:59", "1553460779000000", "1553460779000000"),
            (MICROS, "1969-12-31 23:59:59.9999", "-100", "-100"),
            (MILLIS, "2019-03-24 20:52:59.5", "1553460779500", "1553460779500"),
            (Form::Date, "2019-03-24", "17979", "17979"),
            (Form::Date, "1969-12-31", "-1", "-1"),
            (
                Form::TimestampTz(6),
                "2019-03-24 20:52:59.12+00",
                "2019-03-24T20:52:59.120000Z",
                "\"2019-03-24T20:52:59.120000Z\"",
            ),
            (MICROS, "0044-03-15 12:00:00 BC", "-63517780800000000", "-63517780800000000"),
            (MICROS, "infinity", "9223372036854775807", "9223372036854775807"),
            (MICROS, "-infinity", "-9223372036854775808", "-9223372036854775808"),
            (MILLIS, "infinity", "9223372036825200000", "9223372036825200000"),
            (MILLIS, "-infinity", "-9223372036832400000", "-9223372036832400000"),
            (Form::Date, "infinity", "2146033979", "2146033979"),
            (Form::Date, "-infinity", "-2147472691", "-2147472691"),
            (Form::TimestampTz(0), "infinity", "infinity", "\"infinity\""),
        ] {
            assert_eq!(as_characters(form, text, Format::Debezium).unwrap(), characters);
            assert_eq!(as_json(form, text, Format::Debezium).unwrap(), json);
        }
    }

    #[test]
    fn plain_writes_what_postgresql_writes() {
        for (form, text, characters, json) in [
            (MICROS, "2019-03-24 20:52:59", "2019-03-24 20:52:59", "\"2019-03-24 20:52:59\""),
            (Form::Boolean, "t", "true", "true"),
            (Form::Other, "12.50", "12.50", "\"12.50\""),
            (Form::Integer, "9223372036854775807", "9223372036854775807", "9223372036854775807"),
        ] {
            assert_eq!(as_characters(form, text, Format::Plain).unwrap(), characters);
            assert_eq!(as_json(form, text, Format::Plain).unwrap(), json);
        }
    }

    #[test]
    fn strings_are_escaped_as_jackson_does() {
        let mut out = String::new();
        string("a/\u{1f}\u{0}\u{8}\t\n\u{c}\r\"\\\u{7f}é\u{2028}\u{ffff}😀", &mut out);
        let expected =
            "\"a/\\u001F\\u0000\\b\\t\\n\\f\\r\\\"\\\\\u{7f}é\u{2028}\u{ffff}\\uD83D\\uDE00\"";
        assert_eq!(out, expected);
    }

    proptest! {
        #[test]
        fn every_string_is_read_back(text in "[ -~\\x00-\\x1fé\u{2028}😀\"\\\\]{0,100}") {
            let mut out = String::new();
            string(&text, &mut out);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }

    #[test]
    fn what_does_not_fit_its_type_is_refused() {
        assert_eq!(as_json(Form::Boolean, "yes", Format::Plain), Err(Unwritable::Form));
        assert_eq!(as_json(Form::Bytea, "abc", Format::Plain), Err(Unwritable::Form));
        assert!(as_characters(Form::Date, "24.03.2019", Format::Debezium).is_err());
    }
}
