//! What can be wrong with a configuration, and how it is reported: a stable code, what is wrong
//! with which key, where it was set, and what to write instead. All problems are reported at once;
//! a value that may be secret is never quoted.

use std::fmt;

use super::source::Excerpt;

/// A stable code, as in logs and documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConfigCode {
    /// The file cannot be read.
    FileUnreadable,
    /// The file is not TOML.
    Syntax,
    /// There is no key of that name.
    UnknownKey,
    /// A value of another type than the key takes, such as a table for a text.
    WrongType,
    /// A duration or size without a unit, or with one that is not known.
    Unit,
    /// A value that the key does not take.
    Value,
    /// `${env:…}` or `${file:…}` cannot be resolved.
    Reference,
    /// Two values that contradict each other.
    Contradiction,
    /// An environment variable or `--set` that cannot be applied: no `=`, no possible key, or no
    /// such item of a list.
    Override,
    /// A librdkafka property that would break a guarantee, or that librdkafka does not know.
    Property,
    /// A file, an address or a set of properties that cannot be used on this machine.
    Unusable,
    /// The file that `migrate` was given holds no configuration of Debezium.
    MigrationSource,
}

impl ConfigCode {
    /// Every code there is.
    pub const ALL: &'static [Self] = &[
        Self::FileUnreadable,
        Self::Syntax,
        Self::UnknownKey,
        Self::WrongType,
        Self::Unit,
        Self::Value,
        Self::Reference,
        Self::Contradiction,
        Self::Override,
        Self::Property,
        Self::Unusable,
        Self::MigrationSource,
    ];

    /// As printed: `C` and three digits.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileUnreadable => "C001",
            Self::Syntax => "C002",
            Self::UnknownKey => "C003",
            Self::WrongType => "C004",
            Self::Unit => "C005",
            Self::Value => "C006",
            Self::Reference => "C007",
            Self::Contradiction => "C008",
            Self::Override => "C009",
            Self::Property => "C010",
            Self::Unusable => "C011",
            Self::MigrationSource => "C012",
        }
    }
}

impl fmt::Display for ConfigCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the offending key or value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the file.
    File(Box<Excerpt>),
    /// By an environment variable of this name.
    Environment(String),
    /// By `--set` with this key.
    Flag(String),
    /// In no particular place.
    Nowhere,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Its code.
    pub code: ConfigCode,
    /// What is wrong with which key; begins in lower case, no full stop.
    pub message: String,
    /// Where it was set.
    pub place: Place,
    /// What to write instead.
    pub hint: Option<String>,
}

impl ConfigError {
    /// A problem that is not tied to one place.
    pub fn new(code: ConfigCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), place: Place::Nowhere, hint: None }
    }

    /// Adds what to write instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds where it was set.
    #[must_use]
    pub(crate) fn at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        match &self.place {
            Place::File(excerpt) => write!(f, "\n{excerpt}")?,
            Place::Environment(name) => write!(f, "\n  set by the environment variable {name}")?,
            Place::Flag(key) => write!(f, "\n  set by --set {key}=…")?,
            Place::Nowhere => {}
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Every problem of one configuration; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

/// Why a value is not accepted, before it is known which key it was for. The message continues a
/// sentence that begins with key and value: ``postgres.slot "A-B"`` *is no slot name*.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) code: ConfigCode,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Rejection {
    /// The key does not take this value.
    pub(super) fn value(message: impl Into<String>) -> Self {
        Self { code: ConfigCode::Value, message: message.into(), hint: None }
    }

    /// The unit is missing or wrong.
    pub(super) fn unit(message: impl Into<String>) -> Self {
        Self { code: ConfigCode::Unit, message: message.into(), hint: None }
    }

    /// Adds what to write instead.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
