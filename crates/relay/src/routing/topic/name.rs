//! Topic names: checked, never rewritten.

use std::fmt;

/// A legal Kafka topic name: 1 to 249 of `[a-zA-Z0-9._-]`, not `.` or `..`, and none of Kafka's
/// internal topics (`__…`). The rule is Kafka's own (`org.apache.kafka.common.internals.Topic`); a
/// name that breaks it is refused, since replacing characters could merge two topics without
/// notice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Box<str>);

/// Kafka's limit, in characters.
const LENGTH_MAX: usize = 249;

impl TopicName {
    /// Checks a name.
    ///
    /// # Errors
    /// The rule that the name breaks.
    pub fn new(name: &str) -> Result<Self, IllegalTopicName> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match name {
            "" => Err(IllegalTopicName::Empty),
            "." | ".." => Err(IllegalTopicName::Dots),
            name if name.len() > LENGTH_MAX => Err(IllegalTopicName::TooLong(name.len())),
            name if name.starts_with("__") => Err(IllegalTopicName::Internal),
            name => match name.chars().enumerate().find(|&(_, c)| !legal(c)) {
                Some((at, c)) => Err(IllegalTopicName::Character {
                    kind: CharacterKind::of(c),
                    position: at + 1,
                }),
                None => Ok(Self(name.into())),
            },
        }
    }

    /// The name as it is sent to Kafka.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which rule of Kafka's a topic name breaks. Its text never repeats the name, since part of the
/// name may be a row's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IllegalTopicName {
    /// No characters at all.
    #[error("it is empty")]
    Empty,
    /// `.` or `..`.
    #[error("\".\" and \"..\" are no topic names")]
    Dots,
    /// Longer than 249 characters.
    #[error("it has {0} characters, Kafka allows 249")]
    TooLong(usize),
    /// Kafka's own topics.
    #[error("names that begin with \"__\" are Kafka's own")]
    Internal,
    /// Something outside `[a-zA-Z0-9._-]`.
    #[error("character {position} is {kind}, Kafka allows a-z, A-Z, 0-9, '.', '_' and '-'")]
    Character {
        /// What kind of character it is.
        kind: CharacterKind,
        /// Its position, counted from 1.
        position: usize,
    },
}

impl IllegalTopicName {
    /// The same error, with its position counted after the first `prefix` characters of the name.
    pub(crate) fn counted_after(self, prefix: usize) -> Self {
        match self {
            Self::Character { kind, position } => {
                Self::Character { kind, position: position.saturating_sub(prefix) }
            }
            Self::Empty | Self::Dots | Self::TooLong(_) | Self::Internal => self,
        }
    }
}

/// What a message says of a character without showing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CharacterKind {
    /// U+0020.
    Space,
    /// Tab, line feed and every other control character of ASCII.
    Control,
    /// One of `!"#$%&'()*+,/:;<=>?@[\]^{|}~` and the backtick.
    Punctuation,
    /// Any character beyond ASCII. Bytes that are not UTF-8 are read as U+FFFD and belong here.
    BeyondAscii,
}

impl CharacterKind {
    fn of(c: char) -> Self {
        match c {
            ' ' => Self::Space,
            c if c.is_ascii_control() => Self::Control,
            c if c.is_ascii() => Self::Punctuation,
            _ => Self::BeyondAscii,
        }
    }
}

impl fmt::Display for CharacterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Space => "a space",
            Self::Control => "a control character",
            Self::Punctuation => "a punctuation mark",
            Self::BeyondAscii => "outside ASCII or no UTF-8",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kafka_would_refuse_is_refused() {
        let long = "x".repeat(250);
        for name in ["", ".", "..", "a/b", "../x", "a b", "ä", "a\n", "__consumer_offsets", &long]
        {
            assert!(TopicName::new(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_illegal_character_is_reported_by_kind_and_place_and_never_shown() {
        for (name, expected) in [
            ("ab cd", "character 3 is a space"),
            ("a\tb", "character 2 is a control character"),
            ("/b", "character 1 is a punctuation mark"),
            ("öé", "character 1 is outside ASCII"),
        ] {
            let text = TopicName::new(name).unwrap_err().to_string();
            assert!(text.starts_with(expected), "{text}");
            assert!(!text.contains(name), "{text}");
        }
    }

    #[test]
    fn what_kafka_accepts_is_kept_as_it_is() {
        let long = "x".repeat(249);
        for name in ["outbox.event.Order", "a_b", "a.b", "...", "_x", "-", &long] {
            assert_eq!(TopicName::new(name).unwrap().as_str(), name);
        }
    }
}
