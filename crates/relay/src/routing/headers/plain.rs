//! The common case of a row's own headers: members that are strings without escapes, non-negative
//! integers, booleans or null, on one line. Their names and values are ranges of the object's text,
//! so nothing is copied.
//!
//! [`members`] accepts only what it reads exactly as the JSON parser does. It leaves everything
//! else to the parser: escapes, nesting, other numbers, and malformed objects, for which the parser
//! has the message.
//!
//! `serde_json` alone was rejected. An event with four such members costs 2,806 instructions here
//! (shape `headers` of `scripts/instructions.sh`) and 4,554 when the parser reads all of them;
//! 3,566 if UTF-8 is checked once and no value is parsed twice; 3,246 if nothing is copied either.

use std::ops::Range;

/// The ranges of a member's name and value in the object's text; a value of `None` is JSON's null.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) name: Range<usize>,
    pub(super) value: Option<Range<usize>>,
}

/// Calls `each` with the members of the object in `json`, in their order; their ranges are those in
/// a text that has the object at `start`. Returns [`None`] if the object is not a plain one, or as
/// soon as `each` does.
pub(super) fn members(
    json: &str,
    start: usize,
    mut each: impl FnMut(Span) -> Option<()>,
) -> Option<()> {
    let json = json.as_bytes();
    // Without control characters and backslashes a string ends at the next quote, and all white
    // space is spaces.
    if !json.iter().fold(true, |plain, byte| plain & (*byte >= b' ') & (*byte != b'\\')) {
        return None;
    }
    let mut cursor = Cursor { rest: json, end: start + json.len() };
    cursor.expect(b'{')?;
    loop {
        cursor.expect(b'"')?;
        let name = cursor.text()?;
        cursor.expect(b':')?;
        each(Span { name, value: cursor.value()? })?;
        match cursor.token()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    cursor.token().is_none().then_some(())
}

struct Cursor<'a> {
    rest: &'a [u8],
    /// Where the object ends in the text that its ranges are of.
    end: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn position(&self) -> usize {
        self.end - self.rest.len()
    }

    /// The next byte that is no space.
    #[inline]
    fn token(&mut self) -> Option<u8> {
        let (mut first, mut rest) = self.rest.split_first()?;
        while *first == b' ' {
            (first, rest) = rest.split_first()?;
        }
        self.rest = rest;
        Some(*first)
    }

    #[inline]
    fn expect(&mut self, token: u8) -> Option<()> {
        (self.token()? == token).then_some(())
    }

    /// The bytes before the first one for which `ends` holds.
    fn until(&mut self, ends: impl Fn(u8) -> bool) -> Option<&'a [u8]> {
        let all = self.rest;
        let mut rest = all;
        while !ends(*rest.first()?) {
            (_, rest) = rest.split_first()?;
        }
        self.rest = rest;
        all.get(..all.len() - rest.len())
    }

    /// A string, after its opening quote.
    fn text(&mut self) -> Option<Range<usize>> {
        let start = self.position();
        let text = self.until(|byte| byte == b'"')?;
        let end = start + text.len();
        let (_quote, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(start..end)
    }

    /// A value; the inner `None` is JSON's null.
    fn value(&mut self) -> Option<Option<Range<usize>>> {
        let first = self.token()?;
        if first == b'"' {
            return self.text().map(Some);
        }
        let start = self.position() - 1;
        let rest = self.until(|byte| matches!(byte, b',' | b'}' | b' '))?;
        let is_literal = match (first, rest) {
            (b'n', b"ull") => return Some(None),
            (b't', b"rue") | (b'f', b"alse") | (b'0', b"") => true,
            (b'1'..=b'9', digits) => digits.iter().all(u8::is_ascii_digit),
            _ => false,
        };
        is_literal.then(|| Some(start..self.position()))
    }
}

#[cfg(test)]
mod tests {
    use crate::routing::headers::RowHeaders;
    use proptest::prelude::*;

    type Members = Vec<(String, Option<String>)>;

    fn members(headers: &RowHeaders) -> Members {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        headers.iter().map(|header| (header.name.to_owned(), header.value.map(text))).collect()
    }

    fn plain(json: &str) -> Option<Members> {
        let mut headers = RowHeaders::new();
        headers.read_plain(json.as_bytes(), &[]).map(|()| members(&headers))
    }

    fn parsed(json: &str) -> Option<Members> {
        let mut headers = RowHeaders::new();
        headers.parse(json.as_bytes(), &[]).ok().map(|()| members(&headers))
    }

    #[test]
    fn what_jsonb_writes_of_plain_members_is_taken() {
        for json in [
            r#"{"tenant": "acme", "attempt": 1, "user": "0198c3f2", "parent": null}"#,
            r#"{"on":true,"off":false,"zero":0,"large":123456789012345678901234567890}"#,
            r#" { "" : "" , "ü" : "é, {}[]:" } "#,
        ] {
            assert!(plain(json).is_some(), "{json}");
            assert_eq!(plain(json), parsed(json));
        }
    }

    #[test]
    fn what_needs_the_parser_is_left_to_the_parser() {
        for json in [
            r#"{"a": "b\"c"}"#,
            r#"{"a": {"b": 1}}"#,
            r#"{"a": [1]}"#,
            r#"{"a": 1.5}"#,
            r#"{"a": -1}"#,
            r#"{"a": 1e3}"#,
            "{\"a\":\n1}",
            "{}",
        ] {
            assert!(plain(json).is_none() && parsed(json).is_some(), "{json}");
        }
    }

    #[test]
    fn what_is_wrong_is_not_taken() {
        for json in [
            "",
            "{",
            "{}}",
            r#"{"a""#,
            r#"{"a": "b"#,
            r#"{"a": "b""#,
            r#"{"a": "b",}"#,
            r#"{"a": "b"} x"#,
            r#"{"a": "b" "c": 1}"#,
            r#"{"a" "b"}"#,
            r#"{"a": 01}"#,
            r#"{"a": nul}"#,
            r#"{"a": truefalse}"#,
            r#"{"a": 1x}"#,
            r#"{"a": }"#,
            r#"{a: 1}"#,
            r#"{"a": 1, "a": 2}"#,
            r#"["a"]"#,
            "{\"a\": \"\u{1}\"}",
        ] {
            assert!(plain(json).is_none() && parsed(json).is_none(), "{json}");
        }
    }

    /// Objects, and texts that resemble one: pieces of JSON in any order.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "{",
            "}",
            "\"",
            "\"",
            ":",
            ",",
            " ",
            "\n",
            "\\",
            "\\u00e9",
            "[",
            "]",
            "0",
            "1",
            "-",
            ".",
            "e",
            "null",
            "true",
            "false",
            "a",
            "ü",
            "\"b\":",
            "\"c\": 7",
            ", \"d\": \"x\"",
            "\u{7f}",
        ]);
        let pieces =
            |most| prop::collection::vec(piece.clone(), 0..most).prop_map(|all| all.concat());
        prop_oneof![pieces(12), pieces(8).prop_map(|inside| format!("{{\"a\": 1, {inside}}}"))]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn what_is_taken_is_what_the_parser_reads(json in pieces()) {
            if let Some(taken) = plain(&json) {
                prop_assert_eq!(Some(taken), parsed(&json));
            }
        }
    }
}
