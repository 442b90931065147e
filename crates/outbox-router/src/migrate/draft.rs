//! The TOML that is being written. The keys are those of `config/keys.rs`; a test loads what comes
//! out.

use crate::config::print::quoted_template;

/// Part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// As it is.
    Literal(String),
    /// A placeholder, with its `${…}`: one that is replaced at the start, or one of a template,
    /// which a row fills.
    Placeholder(String),
}

/// A text that may hold placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text(Vec<Piece>);

impl Text {
    /// A text without placeholders.
    pub(super) fn literal(text: &str) -> Self {
        let mut literal = Self::default();
        literal.push(text);
        literal
    }

    /// `${env:NAME}`
    pub(super) fn variable(name: &str) -> Self {
        let mut text = Self::default();
        text.push_placeholder(&format!("env:{name}"));
        text
    }

    pub(super) fn push(&mut self, literal: &str) {
        if !literal.is_empty() {
            self.0.push(Piece::Literal(literal.to_owned()));
        }
    }

    /// Adds `${NAME}`.
    pub(super) fn push_placeholder(&mut self, name: &str) {
        self.0.push(Piece::Placeholder(name.to_owned()));
    }

    pub(super) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The text, where it holds no placeholder.
    pub(super) fn as_literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The same with every literal part changed.
    pub(super) fn map_literals(&self, change: impl Fn(&str) -> String) -> Self {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Literal(text) => Piece::Literal(change(text)),
            Piece::Placeholder(name) => Piece::Placeholder(name.clone()),
        });
        Self(pieces.collect())
    }

    /// As a TOML basic string; a `${` that begins no placeholder is doubled.
    pub(super) fn toml(&self) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Literal(text) => text.replace("${", "$${"),
            Piece::Placeholder(name) => format!("${{{name}}}"),
        });
        quoted_template(&pieces.collect::<String>())
    }
}

/// Lines below one heading.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Vec<String>);

impl Lines {
    /// `key = "text"`
    pub(super) fn text(&mut self, key: &str, value: &Text) {
        self.raw(key, &value.toml());
    }

    /// `key = value`, the value being TOML.
    pub(super) fn raw(&mut self, key: &str, value: &str) {
        self.0.push(format!("{key} = {value}"));
    }

    /// A comment.
    pub(super) fn comment(&mut self, comment: &str) {
        self.0.push(format!("# {comment}"));
    }

    fn write(&self, heading: &str, toml: &mut String) {
        if !self.0.is_empty() {
            toml.push_str(&format!("\n{heading}\n{}\n", self.0.join("\n")));
        }
    }
}

/// The whole file, while it is being written.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// `name`
    pub(super) name: Option<Text>,
    /// `[postgres]`
    pub(super) postgres: Lines,
    /// `outbox.table`, once for each table.
    pub(super) tables: Vec<Text>,
    /// The value of `__debezium.context.connectorLogicalName`; `None` where Debezium adds no such
    /// header.
    pub(super) extended_headers: Option<String>,
    /// The rest of every `[[outbox]]`: Debezium has one router for all its tables.
    pub(super) outbox: Lines,
    /// `[kafka]`
    pub(super) kafka: Lines,
    /// `[kafka.properties]`
    pub(super) properties: Lines,
}

impl Draft {
    /// The file, with a first line that says where it comes from.
    pub(super) fn toml(&self, source: &str) -> String {
        let mut toml = format!("# Translated by outbox-router migrate debezium from {source}.\n");
        if let Some(name) = &self.name {
            toml.push_str(&format!("\nname = {}\n", name.toml()));
        }
        self.postgres.write("[postgres]", &mut toml);
        for table in &self.tables {
            let mut lines = Lines::default();
            lines.text("table", table);
            lines.0.extend(self.outbox.0.iter().cloned());
            if let Some(prefix) = &self.extended_headers {
                extended_headers(prefix, &mut lines);
            }
            lines.write("[[outbox]]", &mut toml);
        }
        self.kafka.write("[kafka]", &mut toml);
        self.properties.write("[kafka.properties]", &mut toml);
        toml
    }
}

/// The headers that Debezium 3 adds, as comments: nobody asked for them, so few will want them.
fn extended_headers(prefix: &str, lines: &mut Lines) {
    lines.comment("Debezium 3 writes these headers, too; in extra_headers they come after id:");
    let headers =
        [("connectorLogicalName", prefix), ("taskId", "0"), ("connectorName", "postgresql")];
    for (name, value) in headers {
        let value = quoted_template(value);
        lines.comment(&format!("  {{ name = \"__debezium.context.{name}\", value = {value} }},"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_placeholder_is_not_read_as_one() {
        let mut text = Text::literal("a${b}\"\\\u{1}");
        text.push_placeholder("env:NAME");
        assert_eq!(text.toml(), "\"a$${b}\\\"\\\\\\u0001${env:NAME}\"");
    }

    #[test]
    fn every_table_has_all_lines() {
        let mut draft =
            Draft { tables: vec![Text::literal("a.b"), Text::literal("c.d")], ..Draft::default() };
        draft.outbox.raw("preset", "\"debezium\"");
        let toml = draft.toml("a test");
        assert_eq!(toml.matches("preset = \"debezium\"").count(), 2, "{toml}");
    }
}
