//! Writing TOML that the configuration's reader reads back as the same values.

use std::fmt::Write as _;

/// Lines of TOML, being written.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<Line>);

#[derive(Debug)]
enum Line {
    /// `[name]`
    Section(String),
    /// `[[name]]`
    Item(String),
    /// `key = value`
    Set { key: String, value: String },
    /// What applies although no line sets the key.
    Unset { key: String, why: &'static str },
    /// Anything else that a person should know.
    Comment(String),
}

/// What is shown of a key that is printed.
pub(super) enum Shown {
    /// Its value, or that it is not set.
    AsItIs,
    /// Nothing.
    Nothing,
    /// What applies, as if it were not set.
    Unset(&'static str),
}

impl Lines {
    /// `[name]`
    pub(super) fn section(&mut self, name: &str) {
        self.0.push(Line::Section(name.to_owned()));
    }

    /// `[[name]]`
    pub(super) fn item(&mut self, name: &str) {
        self.0.push(Line::Item(name.to_owned()));
    }

    /// `key = value`.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        self.0.push(Line::Set { key: key.to_owned(), value: value.to_owned() });
    }

    /// A comment: what applies although no line sets the key.
    pub(super) fn unset(&mut self, key: &str, why: &'static str) {
        self.0.push(Line::Unset { key: key.to_owned(), why });
    }

    /// Any other comment.
    pub(super) fn comment(&mut self, comment: &str) {
        self.0.push(Line::Comment(comment.to_owned()));
    }

    /// Decides about each key by its full name, in which `[]` stands for one of several tables, and
    /// by its value.
    pub(super) fn show(&mut self, decide: impl Fn(&str, Option<&str>) -> Shown) {
        let mut table = String::new();
        self.0.retain_mut(|line| {
            let (key, value) = match line {
                Line::Section(name) => {
                    table = format!("{name}.");
                    return true;
                }
                Line::Item(name) => {
                    table = format!("{name}[].");
                    return true;
                }
                Line::Comment(_) => return true,
                Line::Set { key, value } => (key.clone(), Some(value.as_str())),
                Line::Unset { key, .. } => (key.clone(), None),
            };
            match decide(&format!("{table}{key}"), value) {
                Shown::AsItIs => {}
                Shown::Nothing => return false,
                Shown::Unset(why) => *line = Line::Unset { key, why },
            }
            true
        });
    }

    /// As members of an inline table.
    pub(super) fn inline(&self) -> String {
        let members: Vec<String> = self.0.iter().map(Line::text).collect();
        if members.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", members.join(", ")) }
    }

    /// As a file, without sections in which nothing stands.
    pub(super) fn finish(self) -> String {
        let mut file = String::new();
        let mut lines = self.0.iter().peekable();
        while let Some(line) = lines.next() {
            let is_last = lines.peek().is_none_or(|next| next.is_heading());
            if matches!(line, Line::Section(_)) && is_last {
                continue;
            }
            file.push_str(&line.text());
            file.push('\n');
        }
        file
    }
}

impl Line {
    const fn is_heading(&self) -> bool {
        matches!(self, Self::Section(_) | Self::Item(_))
    }

    fn text(&self) -> String {
        match self {
            Self::Section(name) => format!("\n[{name}]"),
            Self::Item(name) => format!("\n[[{name}]]"),
            Self::Set { key, value } => format!("{key} = {value}"),
            Self::Unset { key, why } => format!("# {key} is not set: {why}"),
            Self::Comment(comment) => format!("# {comment}"),
        }
    }
}

/// A TOML basic string. `${` is doubled, so that nothing is taken for a placeholder when it is read
/// again.
pub(crate) fn quoted(text: &str) -> String {
    quoted_template(&text.replace("${", "$${"))
}

/// A TOML basic string for a key that takes templates: `${` stays. The writer of the crate `toml`
/// is not used: it leaves the control characters from U+0080 on as they are, and terminals obey
/// them.
pub(crate) fn quoted_template(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Writing to a `String` cannot fail.
            c if c.is_control() => {
                write!(quoted, "\\u{:04x}", u32::from(c)).unwrap_or_default();
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
