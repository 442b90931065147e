//! A column's value as characters, for a header, and as JSON, for a key, a value or an envelope.
//!
//! With `format = "debezium"` both are what Kafka Connect writes of Debezium's type for the column
//! ([`debezium`]): its `SimpleHeaderConverter` and `StringConverter`, or its `JsonConverter`
//! without schemas. With `format = "plain"` a value is what PostgreSQL writes.

use super::{
    debezium,
    form::{DecimalAs, Form},
    simple::{boolean, bytea, simple_json, string},
};
use crate::routing::table::Format;

pub(crate) use super::simple::Unwritable;

/// Whether a value of this form can be written in a format.
pub(super) fn can_write(form: Form, format: Format) -> bool {
    match format {
        Format::Plain => true,
        Format::Debezium => !matches!(form, Form::Other | Form::UnclearTime),
    }
}

/// Whether Debezium writes a value of this form in other characters than PostgreSQL, as the bytes
/// of a key or a value.
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
    let text = str::from_utf8(text).map_err(|_| Unwritable::Form)?;
    match simple_json(form, text, out) {
        Some(written) => written,
        None if format == Format::Debezium => debezium::json(form, text, out),
        None => {
            string(text, out);
            Ok(())
        }
    }
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
