//! Topic names: validated, never rewritten.

use std::fmt;

/// A legal Kafka topic name: 1 to 249 of `[a-zA-Z0-9._-]`, not `.` or `..`, and none of Kafka's internal topics
/// (`__…`). The rule is Kafka's own (`org.apache.kafka.common.internals.Topic`); a name that breaks it is refused,
/// since replacing characters would merge two streams in silence.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Box<str>);

/// Kafka's limit, in characters.
const LENGTH_MAX: usize = 249;

impl TopicName {
    /// Checks a name.
    ///
    /// # Errors
    /// Says which rule the name breaks.
    pub fn new(name: &str) -> Result<Self, IllegalTopicName> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match name {
            "" => Err(IllegalTopicName::Empty),
            "." | ".." => Err(IllegalTopicName::Dots),
            name if name.len() > LENGTH_MAX => Err(IllegalTopicName::TooLong(name.len())),
            name if name.starts_with("__") => Err(IllegalTopicName::Internal),
            name => match name.chars().find(|&c| !legal(c)) {
                Some(c) => Err(IllegalTopicName::Character(c)),
                None => Ok(Self(name.into())),
            },
        }
    }

    /// The name as Kafka knows it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which rule of Kafka's a topic name breaks.
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
    #[error("it has the character {0:?}, Kafka allows a-z, A-Z, 0-9, '.', '_' and '-'")]
    Character(char),
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
    fn what_kafka_accepts_is_kept_as_it_is() {
        let long = "x".repeat(249);
        for name in ["outbox.event.Order", "a_b", "a.b", "...", "_x", "-", &long] {
            assert_eq!(TopicName::new(name).unwrap().as_str(), name);
        }
    }
}
