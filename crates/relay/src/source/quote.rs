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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_inside_names_are_doubled() {
        assert_eq!(quote_identifier(r#"a"b\c"#), r#""a""b\c""#);
        let table = TableName { schema: "a.b".to_owned(), name: "c\"d".to_owned() };
        assert_eq!(quote_table(&table), r#""a.b"."c""d""#);
    }
}
