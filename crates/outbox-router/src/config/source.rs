//! The configuration file as text: from a byte range to `file:line:column` and the line itself,
//! without what may be secret in it, because a message with an excerpt reaches logs and tickets.

use std::{fmt, ops::Range, path::PathBuf};

use super::entry::{KeyEntry, leaf};

/// A file that was read.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Every key there is: it decides which lines may be shown.
    pub(super) known: &'static [KeyEntry],
}

impl SourceFile {
    /// The place of a byte range.
    pub(super) fn excerpt(&self, span: &Range<usize>) -> Excerpt {
        let before = self.text.get(..span.start.min(self.text.len())).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count();
        let rest = self.text.get(line_start..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let shown = without_secrets(line, self.known);
        let spanned = self.text.get(span.clone()).unwrap_or_default();
        let width = spanned.lines().next().unwrap_or_default().chars().count();
        let room = shown.chars().count().saturating_sub(column).max(1);
        Excerpt {
            file: self.path.display().to_string(),
            line: before.matches('\n').count() + 1,
            column: column + 1,
            width: width.clamp(1, room),
            text: shown,
        }
    }
}

/// A line of the file, and which part of it a message points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    file: String,
    line: usize,
    column: usize,
    width: usize,
    text: String,
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, width, text } = self;
        let number = line.to_string();
        let gutter = " ".repeat(number.len());
        writeln!(f, "{gutter}--> {file}:{line}:{column}")?;
        write!(f, "{number} | {text}")?;
        // Nothing is pointed at where the place lies beyond the part that is shown.
        if column - 1 < text.chars().count() {
            write!(f, "\n{gutter} | {}{}", " ".repeat(column - 1), "^".repeat(*width))?;
        }
        Ok(())
    }
}

/// A line may be shown whole when it is a heading or sets a key that never holds a secret. Anything
/// else — a password under a misspelt key, a line inside of a certificate — is cut after the `=`,
/// or hidden.
fn without_secrets(line: &str, known: &[KeyEntry]) -> String {
    let trimmed = line.trim();
    if trimmed.is_empty() || trimmed.starts_with('[') || trimmed.starts_with('#') {
        return line.to_owned();
    }
    let Some((key, value)) = line.split_once('=') else {
        let word = trimmed.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '.'));
        return if word { line.to_owned() } else { "…".to_owned() };
    };
    let name = leaf(key.trim()).trim_matches(['"', '\'', ' ']);
    if is_harmless(name, known) && !value.contains("://") {
        return line.to_owned();
    }
    format!("{key}= …")
}

/// Whether a name is a declared key, or a table written inline, that holds no secret. A misspelt
/// key such as `passwrd` may hold one, so it is not harmless.
fn is_harmless(name: &str, known: &[KeyEntry]) -> bool {
    known.iter().any(|entry| entry.leaf() == name && entry.is_public())
}

#[cfg(test)]
mod tests {
    use super::{super::keys::KEYS, *};

    fn excerpt(text: &str, at: &str) -> String {
        let start = text.find(at).unwrap();
        let source =
            SourceFile { path: PathBuf::from("f.toml"), text: text.to_owned(), known: &KEYS };
        source.excerpt(&(start..start + at.len())).to_string()
    }

    #[test]
    fn a_place_is_line_column_and_the_line_itself() {
        let shown = excerpt("name = \"ä\"\nslot = 5 # é\n", "5");
        assert_eq!(shown, " --> f.toml:2:8\n2 | slot = 5 # é\n  |        ^");
    }

    #[test]
    fn values_that_may_be_secret_are_cut_off() {
        let line = |text: &str| without_secrets(text, &KEYS);
        assert_eq!(line("url = \"postgres://u:canary@h"), "url = …");
        assert_eq!(line("slot = \"postgres://u:canary@h\""), "slot = …");
        assert_eq!(line("  passwrd = \"canary\""), "  passwrd = …");
        assert_eq!(line("\"sasl.password\" = canary"), "\"sasl.password\" = …");
        assert_eq!(line("kafka = { properties = { x = \"canary\" } }"), "kafka = …");
        assert_eq!(line("MIICanary+"), "…");
        assert_eq!(line("bytes_behind = { warning = 5 }"), "bytes_behind = { warning = 5 }");
        assert_eq!(line("[kafka]"), "[kafka]");
    }

    #[test]
    fn what_lies_beyond_the_shown_part_is_not_pointed_at() {
        let shown = excerpt("url = \"canary\"", "canary");
        assert_eq!(shown, " --> f.toml:1:8\n1 | url = …");
    }
}
