//! Writing TOML that the configuration's reader reads back as the same values.

use std::fmt::Write as _;

/// Lines of TOML, being written.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<String>);

impl Lines {
    /// `[name]` or `[[name]]`.
    pub(super) fn heading(&mut self, heading: &str) {
        self.0.push(format!("\n{heading}"));
    }

    /// `key = value`.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        self.0.push(format!("{key} = {value}"));
    }

    /// A comment: what applies although no line sets it.
    pub(super) fn comment(&mut self, comment: &str) {
        self.0.push(format!("# {comment}"));
    }

    /// As members of an inline table.
    pub(super) fn inline(&self) -> String {
        if self.0.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", self.0.join(", ")) }
    }

    /// As a file.
    pub(super) fn finish(mut self) -> String {
        self.0.push(String::new());
        self.0.join("\n")
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
