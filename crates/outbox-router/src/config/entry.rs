//! The declared keys as data: for suggestions, excerpts and the documents that are generated from
//! them.

/// A key, or a table that holds keys.
#[derive(Debug, Clone)]
pub struct KeyEntry {
    /// The full name. `[]` stands for one of several tables, `*` for a name that the user chooses.
    pub name: String,
    /// The help text, line by line.
    pub help: &'static [&'static str],
    /// What the name stands for.
    pub content: Content,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub enum Content {
    /// `[name]`
    Section,
    /// `[[name]]`
    Sections,
    /// A table within a section.
    Group,
    /// A value.
    Value(KeyType),
}

/// What a key takes.
#[derive(Debug, Clone)]
pub struct KeyType {
    /// Type, range and unit, or the words to choose from.
    pub takes: String,
    /// The default, as TOML; `None` where nothing is set unless the user sets it.
    pub default: Option<String>,
    /// Examples, as they would stand in the file.
    pub examples: Vec<String>,
    /// Whether it may hold a secret.
    pub secrecy: Secrecy,
}

/// Whether a value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// It may be shown.
    Public,
    /// It is printed as `***`, or without its password.
    Secret,
}

impl KeyEntry {
    /// What the key takes; `None` for a table.
    pub const fn value(&self) -> Option<&KeyType> {
        match &self.content {
            Content::Value(value) => Some(value),
            Content::Section | Content::Sections | Content::Group => None,
        }
    }

    /// The last part of the name.
    pub fn leaf(&self) -> &str {
        leaf(&self.name)
    }

    /// Whether a line of the file that sets this name may be shown whole.
    pub(super) fn is_public(&self) -> bool {
        match &self.content {
            Content::Section | Content::Sections => false,
            Content::Group => true,
            Content::Value(value) => value.secrecy == Secrecy::Public,
        }
    }
}

/// The last part of a key's full name.
pub(super) fn leaf(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(_, leaf)| leaf)
}
