//! How names and values become SQL text. Names are quoted by the core, whose hints contain
//! statements too.
//!
//! Replication commands take no parameters, so only quoting keeps a configured name from being read
//! as part of a command. A backslash is an ordinary character in both forms: the replication
//! grammar always behaves as `standard_conforming_strings` does.
//!
//! That grammar, unlike SQL's, reads a doubled `"` as the end of one identifier and the start of
//! the next. Two identifiers in a row are a syntax error wherever a command here contains one, so a
//! hostile slot name is refused, never executed; and no slot has such a name.

pub use relay::source::{quote_identifier, quote_table};

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
    fn quotes_inside_values_are_doubled() {
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
