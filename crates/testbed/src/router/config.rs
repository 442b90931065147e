//! The router's configuration file, as a person would write it: keys and values as documented.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// Keys and values. A key that is not set here has the product's default.
#[derive(Debug, Clone, Default)]
pub struct RouterConfig {
    keys: BTreeMap<String, Value>,
    outbox: BTreeMap<String, Value>,
}

impl RouterConfig {
    /// Sets a key outside of `[[outbox]]` by its path, such as `limits.window_events`. Strings,
    /// numbers and lists of them look the same in JSON and in TOML.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> &mut Self {
        self.keys.insert(path.to_owned(), value.into());
        self
    }

    /// Sets a key of the one `[[outbox]]`, such as `columns.aggregate_id`.
    pub fn set_outbox(&mut self, path: &str, value: impl Into<Value>) -> &mut Self {
        self.outbox.insert(path.to_owned(), value.into());
        self
    }

    /// Adds every key of `other`.
    pub fn add(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.outbox.extend(other.outbox);
    }

    /// Removes a key, so that it has its default.
    pub fn unset(&mut self, path: &str) -> &mut Self {
        self.keys.remove(path);
        self
    }
}

impl fmt::Display for RouterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, value) in &self.keys {
            writeln!(f, "{path} = {value}")?;
        }
        writeln!(f, "\n[[outbox]]")?;
        self.outbox.iter().try_for_each(|(path, value)| writeln!(f, "{path} = {value}"))
    }
}
