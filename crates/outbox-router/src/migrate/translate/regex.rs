//! What a translation has to know of Java's replacements, and of the pattern that is its default.

/// Part of a replacement, as `java.util.regex.Matcher` reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// As it is.
    Literal(String),
    /// `${name}`
    Named(String),
    /// `$1`
    Numbered(String),
}

/// Takes a replacement apart; a backslash makes the next character literal.
pub(super) fn replacement(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let group = (c == '$').then(|| group(after)).flatten();
        rest = match (c, group) {
            (_, Some((part, after))) => {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                parts.push(part);
                after
            }
            ('\\', None) => {
                let next = after.chars().next();
                literal.extend(next);
                after.get(next.map_or(0, char::len_utf8)..).unwrap_or_default()
            }
            (other, None) => {
                literal.push(other);
                after
            }
        };
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    parts
}

/// The group after a `$`, and what follows.
fn group(text: &str) -> Option<(Part, &str)> {
    if let Some(rest) = text.strip_prefix('{') {
        let (name, after) = rest.split_once('}')?;
        return Some((Part::Named(name.to_owned()), after));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, after) = text.split_at_checked(end)?;
    (!digits.is_empty()).then(|| (Part::Numbered(digits.to_owned()), after))
}

/// Whether the pattern is one group that takes the whole value, such as Debezium's default.
pub(super) fn takes_all(pattern: &str) -> bool {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    let pattern = pattern.strip_suffix('$').unwrap_or(pattern);
    let Some(inner) = pattern.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return false;
    };
    // `(?P<name>…)` is how Confluent's managed connectors write it.
    let named = inner.strip_prefix("?<").or_else(|| inner.strip_prefix("?P<"));
    let inner = named.and_then(|rest| rest.split_once('>')).map_or(inner, |(_, inner)| inner);
    inner == ".*"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_is_taken_apart_as_java_does() {
        let parts = replacement("a.${x}-$12b\\$c$");
        let expected = [
            Part::Literal("a.".to_owned()),
            Part::Named("x".to_owned()),
            Part::Literal("-".to_owned()),
            Part::Numbered("12".to_owned()),
            Part::Literal("b$c$".to_owned()),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_pattern_that_takes_the_whole_value_is_recognised() {
        for (pattern, all) in
            [("(?<routedByValue>.*)", true), ("(.*)", true), ("^(.*)$", true), ("(?P<r>.*)", true)]
        {
            assert_eq!(takes_all(pattern), all, "{pattern}");
        }
        for pattern in ["(.*)-v1", "^(order)$", "(.+)", "(.*)(.*)", ".*"] {
            assert!(!takes_all(pattern), "{pattern}");
        }
    }
}
