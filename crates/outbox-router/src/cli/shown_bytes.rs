//! Bytes of a record, as a command shows them: as text where they are UTF-8, else in hexadecimal.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// How many bytes of an id are shown.
const ID_MAX: usize = 80;

/// For people: at most `most` bytes of it, without control characters, which would be commands to a
/// terminal.
pub(super) fn text(bytes: &[u8], most: usize) -> String {
    let Ok(whole) = str::from_utf8(bytes) else {
        let shown = bytes.get(..most / 2).unwrap_or(bytes);
        return format!("\\x{}{}", hex(shown), ellipsis(shown.len(), bytes));
    };
    let shown = whole.get(..whole.floor_char_boundary(most)).unwrap_or(whole);
    let mut text = String::with_capacity(shown.len());
    for character in shown.chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text + ellipsis(shown.len(), bytes)
}

/// An event's id, for people.
pub(super) fn id(bytes: &[u8]) -> String {
    text(bytes, ID_MAX)
}

fn ellipsis(shown: usize, whole: &[u8]) -> &'static str {
    if shown < whole.len() { "…" } else { "" }
}

/// For programs: a string, or an object with the member `hex`; null is Kafka's null.
pub(super) fn json(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| str::from_utf8(bytes).map_err(|_| hex(bytes))) {
        None => Value::Null,
        Some(Ok(text)) => Value::from(text),
        Some(Err(hex)) => json!({ "hex": hex }),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _written = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_hexadecimal() {
        assert_eq!(text(b"\xff\x01\x02", 200), "\\xff0102");
        assert_eq!(json(Some(b"\xff\x01")), json!({ "hex": "ff01" }));
        assert_eq!(json(Some("ü".as_bytes())), json!("ü"));
        assert_eq!(json(None), Value::Null);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(text("üüü".as_bytes(), 5), "üü…");
        assert_eq!(text("üüü".as_bytes(), 6), "üüü");
        assert_eq!(text(b"\xff\xfe\xfd", 4), "\\xfffe…");
    }

    #[test]
    fn no_control_character_reaches_a_terminal() {
        assert_eq!(text(b"a\x1b[2J\nb", 200), "a\\u{1b}[2J\\nb");
    }
}
