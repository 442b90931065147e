//! The text of a `java.util.Properties`, in which Debezium's tracing and Quarkus' outbox extension
//! keep a trace context: lines of `name=value` with comments (Java SE API, `Properties.load`).

/// Calls `each` with every property, in order.
///
/// # Errors
/// A `\u` without four hexadecimal digits.
pub(super) fn properties(
    text: &str,
    mut each: impl FnMut(&str, &str),
) -> Result<(), MalformedProperties> {
    let mut lines = text.split(['\n', '\r']);
    while let Some(line) = lines.next() {
        let line = line.trim_start_matches(SPACES);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = line.to_owned();
        while continues(&whole) {
            whole.pop();
            // The white space that a continuation begins with does not count.
            whole.push_str(lines.next().unwrap_or_default().trim_start_matches(SPACES));
        }
        let (name, value) = split(&whole);
        each(&unescaped(name)?, &unescaped(value)?);
    }
    Ok(())
}

const SPACES: [char; 3] = [' ', '\t', '\u{c}'];

/// A text that `Properties.load` refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedProperties;

/// Whether the line ends in an odd number of backslashes.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The name ends at the first `=`, `:` or white space that no backslash precedes.
fn split(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = line.find(|character: char| {
        let ends = !is_escaped && (matches!(character, '=' | ':') || SPACES.contains(&character));
        is_escaped = character == '\\' && !is_escaped;
        ends
    });
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(SPACES);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (name, rest.trim_start_matches(SPACES))
}

fn unescaped(text: &str) -> Result<String, MalformedProperties> {
    let mut units: Vec<u16> = Vec::new();
    let mut characters = text.chars();
    let mut buffer = [0; 2];
    while let Some(character) = characters.next() {
        let meant = match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits = characters.as_str().get(..4).ok_or(MalformedProperties)?;
                    units.push(u16::from_str_radix(digits, 16).map_err(|_| MalformedProperties)?);
                    characters = characters.as_str().get(4..).unwrap_or_default().chars();
                    continue;
                }
                Some(other) => other,
                None => continue,
            },
            other => other,
        };
        units.extend_from_slice(meant.encode_utf16(&mut buffer));
    }
    // Two escapes may be the halves of one character.
    String::from_utf16(&units).map_err(|_| MalformedProperties)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, MalformedProperties> {
        let mut all = Vec::new();
        properties(text, |name, value| all.push((name.to_owned(), value.to_owned()))).map(|()| all)
    }

    #[test]
    fn properties_are_read_as_java_reads_them() {
        for (text, expected) in [
            ("#Mon Nov 23\ntraceparent=00-4b-f0-01\n", vec![("traceparent", "00-4b-f0-01")]),
            ("a=1\r\nb:2\n c 3\n! comment\n\n", vec![("a", "1"), ("b", "2"), ("c", "3")]),
            ("a = b = c", vec![("a", "b = c")]),
            ("a=b\\\n   c", vec![("a", "bc")]),
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
        for text in ["a=\\u12", "a=\\uzzzz", "a=\\u12é", "a=\\ud800"] {
            assert_eq!(read(text), Err(MalformedProperties), "{text}");
        }
    }
}
