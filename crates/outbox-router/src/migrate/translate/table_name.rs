//! The name of a table in Debezium's list of tables.

/// What makes a name a regular expression. A dot stands for itself here, as everybody means it.
const REGEX: [char; 11] = ['*', '+', '?', '[', ']', '(', ')', '{', '}', '|', '^'];

/// The name of one table, as PostgreSQL has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableName {
    pub(super) schema: String,
    pub(super) name: String,
}

impl TableName {
    /// Reads an item of the list; `None` for a pattern.
    pub(super) fn parse(item: &str) -> Option<Self> {
        // Java's escape for a literal dot; in a .properties file it may have been written twice.
        let plain = item.replace("\\\\.", ".").replace("\\.", ".");
        let plain = plain.trim_end_matches('$');
        if plain.contains(REGEX) || plain.contains('\\') {
            return None;
        }
        let (schema, name) = plain.split_once('.')?;
        let is_whole = !schema.is_empty() && !name.is_empty();
        is_whole.then(|| Self { schema: schema.to_owned(), name: name.to_owned() })
    }

    /// As `outbox.table` takes it.
    pub(super) fn toml(&self) -> String {
        let is_plain = |part: &str| {
            let first = part.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
            first && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        let quoted = |part: &str| {
            if is_plain(part) {
                part.to_owned()
            } else {
                format!("\"{}\"", part.replace('"', "\"\""))
            }
        };
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::TableName;

    #[test]
    fn names_are_told_from_patterns() {
        for (item, expected) in [
            ("public.outbox", Some("public.outbox")),
            ("public\\.outbox", Some("public.outbox")),
            ("public.Outbox", Some("public.\"Outbox\"")),
            ("a-b.outbox", Some("\"a-b\".outbox")),
            (".*\\.outbox", None),
            ("public.outbox.*", None),
            ("outbox", None),
        ] {
            let table = TableName::parse(item).map(|table| table.toml());
            assert_eq!(table.as_deref(), expected, "{item}");
        }
    }
}
