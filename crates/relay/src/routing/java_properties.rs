//! The text of a `java.util.Properties`, as `Properties.load` of the Java SE API reads it: lines of
//! `name=value` with comments, continuations and escapes. Debezium's tracing and Quarkus' outbox
//! extension keep a trace context in it, Kafka Connect and Debezium Server their configuration.

use std::borrow::Cow;

/// The white space of the format; no other character of Unicode counts.
const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

const LINE_ENDS: [char; 2] = ['\n', '\r'];

/// The properties of a text, in order.
pub fn entries(text: &str) -> Entries<'_> {
    Entries { rest: text, line: 0 }
}

/// See [`entries`].
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: &'a str,
    /// How many lines were taken.
    line: usize,
}

/// One property, whose lines are put together, with its escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The line in which it begins, counted from 1.
    pub line: usize,
    text: Cow<'a, str>,
}

impl Entry<'_> {
    /// Name and value, both with their escapes. The name ends at the first `=`, `:` or white space
    /// that no backslash precedes. Without one, the value is `None`; Java takes it as empty.
    pub fn split(&self) -> (&str, Option<&str>) {
        let mut is_escaped = false;
        let end = self.text.find(|character: char| {
            let ends =
                !is_escaped && (matches!(character, '=' | ':') || BLANKS.contains(&character));
            is_escaped = character == '\\' && !is_escaped;
            ends
        });
        let Some((name, rest)) = end.and_then(|end| self.text.split_at_checked(end)) else {
            return (&self.text, None);
        };
        let rest = rest.trim_start_matches(BLANKS);
        let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
        (name, Some(rest.trim_start_matches(BLANKS)))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            let first = self.next_line()?;
            // A backslash alone continues a line that is still empty. Only at the end of the text
            // does Java make a property of it, without name and value.
            if first.is_empty() || first == "\\" || first.starts_with(['#', '!']) {
                continue;
            }
            return Some(Entry { line: self.line, text: self.whole(first) });
        }
    }
}

impl<'a> Entries<'a> {
    /// The next line, without the white space that it begins with.
    fn next_line(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.find(LINE_ENDS).unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at_checked(end)?;
        let after = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix(LINE_ENDS));
        self.rest = after.unwrap_or_default();
        self.line += 1;
        Some(line.trim_start_matches(BLANKS))
    }

    /// The line with those that continue it.
    fn whole(&mut self, first: &'a str) -> Cow<'a, str> {
        let Some(begun) = continued(first) else { return Cow::Borrowed(first) };
        let mut whole = begun.to_owned();
        while let Some(line) = self.next_line() {
            let Some(begun) = continued(line) else {
                whole.push_str(line);
                break;
            };
            whole.push_str(begun);
        }
        Cow::Owned(whole)
    }
}

/// The line without the backslash that continues it. Of an even number of backslashes at its end
/// each second one is escaped, so none continues it.
fn continued(line: &str) -> Option<&str> {
    let begun = line.strip_suffix('\\')?;
    let backslashes_before = begun.len() - begun.trim_end_matches('\\').len();
    (backslashes_before % 2 == 0).then_some(begun)
}

/// A `\u` without four hexadecimal digits, or with one surrogate of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedEscape;

/// A name or a value without its escapes.
///
/// # Errors
/// `\u` gives no character. Java would take one surrogate of two, which no UTF-8 can hold.
pub fn unescaped(text: &str) -> Result<Cow<'_, str>, MalformedEscape> {
    if !text.contains('\\') {
        return Ok(Cow::Borrowed(text));
    }
    let mut unescaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        unescaped.push_str(plain);
        let mut characters = escape.chars();
        let meant = match characters.next() {
            Some('t') => Some('\t'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('f') => Some('\u{c}'),
            Some('u') => {
                let (character, after) = character(characters.as_str()).ok_or(MalformedEscape)?;
                characters = after.chars();
                Some(character)
            }
            // A backslash at the end of the text stands for nothing.
            other => other,
        };
        unescaped.extend(meant);
        rest = characters.as_str();
    }
    unescaped.push_str(rest);
    Ok(Cow::Owned(unescaped))
}

/// The character whose code, or whose two surrogates, stand behind a `\u`, and what follows.
fn character(text: &str) -> Option<(char, &str)> {
    let (first, rest) = code_unit(text)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, rest));
    }
    let (second, rest) = code_unit(rest.strip_prefix("\\u")?)?;
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, rest))
}

/// Four hexadecimal digits, and what follows.
fn code_unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    // `from_str_radix` takes a sign, too.
    let has_sign = digits.starts_with('+');
    u16::from_str_radix(digits, 16).ok().filter(|_| !has_sign).map(|unit| (unit, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, MalformedEscape> {
        let read = |entry: Entry<'_>| {
            let (name, value) = entry.split();
            Ok((unescaped(name)?.into_owned(), unescaped(value.unwrap_or_default())?.into_owned()))
        };
        entries(text).map(read).collect()
    }

    #[test]
    fn properties_are_read_as_java_reads_them() {
        for (text, expected) in [
            ("#Mon Nov 23\ntraceparent=00-4b-f0-01\n", vec![("traceparent", "00-4b-f0-01")]),
            ("a=1\r\nb:2\n c 3\n! comment\n\n", vec![("a", "1"), ("b", "2"), ("c", "3")]),
            ("a = b = c", vec![("a", "b = c")]),
            ("a=b\\\n   c", vec![("a", "bc")]),
            ("a=b\\\r\n   c\r\nd=e", vec![("a", "bc"), ("d", "e")]),
            ("a=b\\\r\rc=d", vec![("a", "b"), ("c", "d")]),
            ("\\\n# comment\na=b", vec![("a", "b")]),
            ("a\u{a0}b=\u{2003}c\u{a0}", vec![("a\u{a0}b", "\u{2003}c\u{a0}")]),
            ("a=b\\\\\nc=d", vec![("a", "b\\"), ("c", "d")]),
            ("a\\:b\\ c=\\u00e9\\ud83d\\ude00\\t", vec![("a:b c", "é😀\t")]),
            ("a", vec![("a", "")]),
            ("=b", vec![("", "b")]),
            ("", vec![]),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            assert_eq!(read(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn a_broken_escape_is_refused() {
        for text in [
            "a=\\u12",
            "a=\\u+123",
            "a=\\ud83dx",
            "a=\\ude00\\ud83d",
            "a=\\uzzzz",
            "a=\\u12é",
            "a=\\ud800",
        ] {
            assert_eq!(read(text), Err(MalformedEscape), "{text}");
        }
    }

    #[test]
    fn an_entry_knows_its_line_and_whether_anything_ended_its_name() {
        let text = "# comment\r\n\r\na\\\r\n  b=1,\\\r\n  2\rc \nd";
        let entries: Vec<Entry<'_>> = entries(text).collect();
        let lines: Vec<usize> = entries.iter().map(|entry| entry.line).collect();
        assert_eq!(lines, [3, 6, 7]);
        let split: Vec<_> = entries.iter().map(Entry::split).collect();
        assert_eq!(split, [("ab", Some("1,2")), ("c", Some("")), ("d", None)]);
    }

    #[test]
    fn what_has_no_escape_and_no_continuation_is_not_copied() {
        let read = entries("a=b").next().unwrap();
        assert!(matches!(read.text, Cow::Borrowed(_)));
        assert!(matches!(unescaped("b"), Ok(Cow::Borrowed("b"))));
    }
}
