//! What is written alike in every format: strings of JSON, booleans and bytes.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::unwritable::Unwritable;
use crate::routing::hex;

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

/// A boolean as JSON and Kafka Connect write it.
pub(super) fn boolean(text: &str) -> Result<&'static str, Unwritable> {
    match text {
        "t" => Ok("true"),
        "f" => Ok("false"),
        _ => Err(Unwritable::Form),
    }
}

/// Appends a bytea in Base64.
pub(super) fn bytea(text: &str, out: &mut String) -> Result<(), Unwritable> {
    let mut bytes = Vec::new();
    hex::decode(text.as_bytes(), &mut bytes).ok_or(Unwritable::Form)?;
    BASE64.encode_string(&bytes, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}
