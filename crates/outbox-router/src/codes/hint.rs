//! What to type, as text in which the commands are known: whoever shows it can give each command a
//! line, or a box that copies it, and nobody has to guess where prose ends.

use std::{fmt, ops::Deref};

/// What to type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hint {
    text: String,
    /// What of the text is a command or a statement, in its order.
    commands: Vec<String>,
}

/// A part of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintPart<'h> {
    /// What is said about the commands beside it.
    Text(&'h str),
    /// A command for the shell, or a statement for psql.
    Command(&'h str),
}

impl Hint {
    /// A command and nothing else.
    pub fn command(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { commands: vec![text.clone()], text }
    }

    /// A text that has its commands between backticks.
    pub fn marked(text: &str) -> Self {
        let mut hint = Self::default();
        let mut parts = text.split('`');
        while let Some(prose) = parts.next() {
            hint.push_text(prose);
            if let Some(command) = parts.next() {
                hint.push_command(command);
            }
        }
        hint
    }

    /// A text, and the commands in it, as [`Hint::commands`] returned them.
    pub fn of(text: impl Into<String>, commands: Vec<String>) -> Self {
        Self { text: text.into(), commands }
    }

    /// The commands, in the order of the text.
    pub fn commands(&self) -> &[String] {
        &self.commands
    }

    /// The text alone.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The parts, without the punctuation that joins them in the text.
    pub fn parts(&self) -> Vec<HintPart<'_>> {
        let mut parts = Vec::new();
        let mut rest = self.text.as_str();
        for command in &self.commands {
            let Some((before, after)) = rest.split_once(command.as_str()) else { continue };
            parts.extend(prose(before));
            parts.push(HintPart::Command(command));
            rest = after;
        }
        parts.extend(prose(rest));
        parts
    }

    pub(super) fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn push_command(&mut self, command: &str) {
        if !command.is_empty() {
            self.text.push_str(command);
            self.commands.push(command.to_owned());
        }
    }

    /// This, and then that.
    pub(super) fn then(mut self, next: Self) -> Self {
        self.text.push_str("; ");
        self.text.push_str(&next.text);
        self.commands.extend(next.commands);
        self
    }
}

fn prose(text: &str) -> Option<HintPart<'_>> {
    let text = text.trim_start_matches([';', ',', '.', ')', ' ']).trim_end();
    let text = text.strip_suffix('(').unwrap_or(text).trim_end();
    (!text.is_empty()).then_some(HintPart::Text(text))
}

impl Deref for Hint {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self { text, commands: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::{HintPart::*, *};

    #[test]
    fn each_command_is_a_part_and_the_text_reads_as_before() {
        let hint = Hint::marked(
            "`outbox-router recover` sends them (docs/recover.md); or `outbox-router setup`, then \
             `outbox-router accept` gives them up (as the owner: `select 1`)",
        );
        assert_eq!(
            &*hint,
            "outbox-router recover sends them (docs/recover.md); or outbox-router setup, then \
             outbox-router accept gives them up (as the owner: select 1)"
        );
        assert_eq!(
            hint.parts(),
            [
                Command("outbox-router recover"),
                Text("sends them (docs/recover.md); or"),
                Command("outbox-router setup"),
                Text("then"),
                Command("outbox-router accept"),
                Text("gives them up (as the owner:"),
                Command("select 1"),
            ]
        );
        assert_eq!(Hint::command("a b").parts(), [Command("a b")]);
        assert_eq!(Hint::from("wait".to_owned()).parts(), [Text("wait")]);
    }

    #[test]
    fn of_a_command_twice_in_a_text_both_are_parts() {
        let hint = Hint::marked("`a`, or `a`");
        assert_eq!(hint.parts(), [Command("a"), Text("or"), Command("a")]);
    }
}
