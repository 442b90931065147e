//! The one place where names and values become SQL text.
//!
//! Replication commands take no parameters, so quoting is all that stands between a configured name and a command
//! of somebody else's making. A backslash is an ordinary character in both forms: `standard_conforming_strings` is
//! the only behaviour of the replication grammar.
//!
//! That grammar, unlike SQL's, takes a doubled `"` for the end of one identifier and the start of the next. Two
//! identifiers in a row are a syntax error wherever we put one, so a hostile slot name is refused, never executed; and no
//! slot has such a name.

/// `name` as a quoted identifier: `a"b` becomes `"a""b"`.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table's full name, both parts quoted.
#[must_use]
pub fn quote_table(name: &relay::TableName) -> String {
    format!("{}.{}", quote_identifier(&name.schema), quote_identifier(&name.name))
}

/// `value` as a string literal: `it's` becomes `'it''s'`.
#[must_use]
pub fn quote_literal(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// The value of pgoutput's option `publication_names`: a list of identifiers, inside one literal.
pub(super) fn publication_names_literal(names: &[&str]) -> String {
    let list: Vec<String> = names.iter().map(|name| quote_identifier(name)).collect();
    quote_literal(&list.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_inside_names_and_values_are_doubled() {
        assert_eq!(quote_identifier(r#"a"b\c"#), r#""a""b\c""#);
        assert_eq!(quote_literal(r"it's\n"), r"'it''s\n'");
    }

    #[test]
    fn publication_names_are_identifiers_inside_a_literal() {
        assert_eq!(
            publication_names_literal(&["plain", r#"o'da"y"#, "'); DROP"]),
            r#"'"plain","o''da""y","''); DROP"'"#
        );
    }
}
