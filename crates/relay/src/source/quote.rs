//! Names as SQL text, for statements that people type and for those that the router sends.
//!
//! A backslash is an ordinary character in an identifier, whatever `standard_conforming_strings`
//! says.

use crate::routing::table::TableName;

/// `name` as a quoted identifier: `a"b` becomes `"a""b"`.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table's full name, both parts quoted.
#[must_use]
pub fn quote_table(name: &TableName) -> String {
    format!("{}.{}", quote_identifier(&name.schema), quote_identifier(&name.name))
}

/// The flags that give tables up, as a shell reads them: each after a blank.
#[must_use]
pub fn give_up<'t>(tables: impl IntoIterator<Item = &'t TableName>) -> String {
    let is_plain = |part: &str| {
        let mut letters = part.chars();
        letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_')
            && letters.all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_')
    };
    let flag = |table: &TableName| match is_plain(&table.schema) && is_plain(&table.name) {
        true => format!(" --give-up {table}"),
        false => format!(" --give-up {}", quote_word(&quote_table(table))),
    };
    tables.into_iter().map(flag).collect()
}

/// A text as one word of a command line.
pub(crate) fn quote_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_inside_names_are_doubled() {
        assert_eq!(quote_identifier(r#"a"b\c"#), r#""a""b\c""#);
        let table = TableName { schema: "a.b".to_owned(), name: "c\"d".to_owned() };
        assert_eq!(quote_table(&table), r#""a.b"."c""d""#);
    }

    #[test]
    fn a_table_is_a_word_for_the_shell() {
        let table = |name: &str| TableName { schema: "public".to_owned(), name: name.to_owned() };
        assert_eq!(
            give_up([&table("a_1"), &table("_b")]),
            " --give-up public.a_1 --give-up public._b"
        );
        assert_eq!(give_up([&table("It's $1")]), r#" --give-up '"public"."It'\''s $1"'"#);
        assert_eq!(give_up([&table("1")]), r#" --give-up '"public"."1"'"#);
    }
}
