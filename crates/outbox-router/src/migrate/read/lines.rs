//! Java's properties: the file of a standalone worker, and that of Debezium Server.

use super::{
    super::{
        properties::{Properties, Property},
        report::Finding,
    },
    error::ReadError,
};

/// Reads `java.util.Properties`: comments with `#` or `!`, names that end at `=`, `:` or a space,
/// lines that go on after a backslash, and escapes. The remark is about comments where Java knows
/// none.
pub(super) fn read(text: &str) -> Result<(Properties, Option<Finding>), ReadError> {
    let mut properties = Properties::default();
    let mut remark = None;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        let start = line.trim_start();
        // Java knows no `;`, but files that were commented out with it are seen.
        if start.is_empty() || start.starts_with(['#', '!', ';']) {
            continue;
        }
        let mut logical = start.to_owned();
        while goes_on(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start());
        }
        let (name, value) = split(&logical).ok_or_else(|| {
            // Not quoted: it may be the rest of a secret.
            ReadError::new("a name has no value", "write name=value, or # before a comment")
                .at(number)
        })?;
        let unescape = |text: &str| {
            unescaped(text).ok_or_else(|| {
                let hint = "write \\u and four hexadecimal digits, or \\\\ for a backslash";
                ReadError::new("\\u is not followed by four digits", hint).at(number)
            })
        };
        let mut property = Property::new(unescape(name)?, &unescape(value)?, number);
        if let Some(value) = before_comment(&property) {
            property.value = value.to_owned();
            let text = "what is after # is no comment to Java but part of the value, so Debezium \
                        fails; it is read as a comment";
            remark.get_or_insert_with(|| Finding::of(&property, text));
        }
        properties.push(property);
    }
    Ok((properties, remark))
}

/// The value without what tutorials write after it. A value with spaces of its own, such as SQL,
/// and a password are left as they are.
fn before_comment(property: &Property) -> Option<&str> {
    let (value, _) =
        property.value.split_once(" #").or_else(|| property.value.split_once("\t#"))?;
    let value = value.trim_end();
    let is_one_word = !value.is_empty() && !value.contains(char::is_whitespace);
    (is_one_word && !property.name.contains("password")).then_some(value)
}

/// Whether a line ends in an odd number of backslashes.
fn goes_on(line: &str) -> bool {
    let backslashes = line.len() - line.trim_end_matches('\\').len();
    backslashes % 2 == 1
}

/// Name and value, both with their escapes.
fn split(line: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = line.char_indices().find_map(|(at, c)| {
        let is_end = !escaped && (matches!(c, '=' | ':') || c.is_whitespace());
        escaped = c == '\\' && !escaped;
        is_end.then_some(at)
    })?;
    let (name, rest) = line.split_at_checked(end)?;
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    Some((name, value.trim_start()))
}

fn unescaped(text: &str) -> Option<String> {
    let mut unescaped = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            unescaped.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => unescaped.push('\t'),
            Some('n') => unescaped.push('\n'),
            Some('r') => unescaped.push('\r'),
            Some('f') => unescaped.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4)?;
                unescaped.push(char::from_u32(code)?);
            }
            Some(other) => unescaped.push(other),
            None => {}
        }
    }
    Some(unescaped)
}
