//! Types of values that only the configuration uses.

use super::secret::{HIDDEN, Secret, is_secret_property};

/// `[kafka.properties]`, in alphabetical order. `Debug` hides every value that may be secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(Vec<(String, Secret<String>)>);

impl Properties {
    pub(super) fn new(properties: Vec<(String, String)>) -> Self {
        Self(properties.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
    }

    /// Name and value of each, for librdkafka.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret<String>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of one property; `None` where it is not set.
    pub fn get(&self, name: &str) -> Option<&Secret<String>> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Name and value of each, for people: `***` for a value that may be secret.
    pub fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().map(|(name, value)| {
            (name, if is_secret_property(name) { HIDDEN } else { value.expose().as_str() })
        })
    }
}

impl std::fmt::Debug for Properties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// `log.format`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}
