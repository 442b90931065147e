//! Values as SQL text. A session of a pooler may have any settings, so a literal means the same
//! with and without `standard_conforming_strings`.

use std::fmt::Write as _;

use relay::TableName;

/// A string literal.
pub(super) fn literal(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    push_literal(value, &mut out);
    out
}

fn push_literal(value: &str, out: &mut String) {
    // A backslash is escaped in this form whatever the session's settings are.
    out.push_str(if value.contains('\\') { " E'" } else { "'" });
    for character in value.chars() {
        match character {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            // No text of PostgreSQL has it, and it would end the statement.
            '\0' => {}
            other => out.push(other),
        }
    }
    out.push('\'');
}

/// An array of texts as a literal, without its type.
pub(super) fn array<'v>(values: impl IntoIterator<Item = &'v str>) -> String {
    let mut text = String::from("{");
    for (place, value) in values.into_iter().enumerate() {
        text.push_str(if place == 0 { "\"" } else { ",\"" });
        for character in value.chars() {
            if matches!(character, '"' | '\\') {
                text.push('\\');
            }
            text.push(character);
        }
        text.push('"');
    }
    text.push('}');
    literal(&text)
}

/// A list of literals, separated by commas.
pub(super) fn list<'v>(values: impl IntoIterator<Item = &'v str>) -> String {
    let mut out = String::new();
    for value in values {
        if !out.is_empty() {
            out.push_str(", ");
        }
        push_literal(value, &mut out);
    }
    out
}

/// An array of numbers as a literal, without its type.
pub(super) fn numbers(values: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    let mut text = String::from("'{");
    for (place, value) in values.into_iter().enumerate() {
        let separator = if place == 0 { "" } else { "," };
        // Writing into a String cannot fail.
        write!(text, "{separator}{value}").unwrap_or_default();
    }
    text.push_str("}'");
    text
}

/// The names of tables, schemas first, for `(nspname::text, relname::text) in (…)`.
pub(super) fn table_names<'t>(tables: impl IntoIterator<Item = &'t TableName>) -> String {
    let name =
        |table: &TableName| format!("({}, {})", literal(&table.schema), literal(&table.name));
    tables.into_iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_means_the_same_under_every_setting() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\'b"), r" E'a\\''b'");
        assert_eq!(literal("a\0b"), "'ab'");
        assert_eq!(literal(""), "''");
    }

    #[test]
    fn elements_of_arrays_are_quoted() {
        assert_eq!(array(["a", "it's", "NULL", ""]), r#"'{"a","it''s","NULL",""}'"#);
        assert_eq!(array([r#"q"b\"#]), r#" E'{"q\\"b\\\\"}'"#);
        assert_eq!(array([]), "'{}'");
        assert_eq!(numbers([1, -2]), "'{1,-2}'");
        assert_eq!(list(["a", "b'"]), "'a', 'b'''");
    }
}
