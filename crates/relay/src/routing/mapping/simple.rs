//! What is written alike in both formats: JSON strings, integers, booleans and bytes.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::form::{Form, Unit};
use crate::routing::{hex, timestamp::NoTime};

/// Why a value cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unwritable {
    #[error("{0}")]
    Time(#[from] NoTime),
    #[error("its text has another form than its type")]
    Form,
    #[error("Debezium does not write such a number: it is not finite")]
    NotFinite,
    #[error(
        "it is outside of what {unit} since 1970 can be in 64 bits: {from} to {to} UTC",
        unit = .0.name(), from = .0.range()[0], to = .0.range()[1]
    )]
    Range(Unit),
    #[error("Debezium does not write such an array: it has several dimensions")]
    Dimensions,
}

/// Appends the value as JSON, where the format does not matter; `None` where it does. A value that
/// is JSON itself becomes a string of its text.
pub(super) fn simple_json(
    form: Form,
    text: &str,
    out: &mut String,
) -> Option<Result<(), Unwritable>> {
    match form {
        Form::Integer => out.push_str(text),
        Form::Boolean => return Some(boolean(text).map(|text| out.push_str(text))),
        Form::Text | Form::Json => string(text, out),
        Form::Bytea => {
            let mut written = String::new();
            if let Err(why) = bytea(text, &mut written) {
                return Some(Err(why));
            }
            string(&written, out);
        }
        Form::Float(_)
        | Form::Decimal(_)
        | Form::Timestamp(_)
        | Form::TimestampTz(_)
        | Form::Date
        | Form::Clock(_)
        | Form::ClockTz
        | Form::Interval(_)
        | Form::Array(_)
        | Form::UnclearTime
        | Form::Other => return None,
    }
    Some(Ok(()))
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

/// `true` or `false`.
pub(super) fn boolean(text: &str) -> Result<&'static str, Unwritable> {
    match text {
        "t" => Ok("true"),
        "f" => Ok("false"),
        _ => Err(Unwritable::Form),
    }
}

/// Appends the bytes in Base64.
pub(super) fn bytea(text: &str, out: &mut String) -> Result<(), Unwritable> {
    let mut bytes = Vec::new();
    hex::decode(text.as_bytes(), &mut bytes).ok_or(Unwritable::Form)?;
    BASE64.encode_string(&bytes, out);
    Ok(())
}
