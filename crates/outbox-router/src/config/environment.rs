//! Overrides from outside the file: `OUTBOX_ROUTER__KAFKA__BOOTSTRAP_SERVERS=…` and `--set
//! kafka.bootstrap_servers=…`.
//!
//! In a variable's name two underscores separate the parts of a key, and a number picks one of
//! several tables: `OUTBOX_ROUTER__OUTBOX__0__TABLE`. librdkafka's property names contain dots,
//! which the name of a variable cannot contain: below `KAFKA__PROPERTIES` every single underscore
//! stands for a dot (`…__SASL_PASSWORD` is `sasl.password`; no property of librdkafka contains an
//! underscore). The process's environment is an argument and is never read here.

use std::{collections::BTreeMap, ffi::OsString};

use super::{
    error::{ConfigCode, ConfigError, Place},
    tree::{Origin, Override, PROPERTIES, PathPart},
};

/// What every variable that sets a key begins with.
pub const PREFIX: &str = "OUTBOX_ROUTER__";

/// The variable that sets a key of [`super::KEYS`], in the first of several tables.
pub fn variable(key: &str) -> String {
    let path = key.replace("[]", ".0").replace('.', "__").to_ascii_uppercase();
    format!("{PREFIX}{}", path.replace('*', "NAME"))
}

/// The environment at the start of the process.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// From `std::env::vars_os()`, or from a test's own list. Variables that are not UTF-8 are left
    /// out, because no key could take them.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(variables.into_iter().filter_map(text).collect())
    }

    /// The value of a variable; `None` where it is not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Whether any variable sets a key.
    pub fn sets_keys(&self) -> bool {
        self.0.iter().any(|(name, _)| name.starts_with(PREFIX))
    }

    /// The variables that set a key, with the tables of a list in their order.
    pub(super) fn overrides(&self) -> Vec<Override> {
        let mut overrides: Vec<Override> = self
            .0
            .iter()
            .filter_map(|(name, value)| {
                Some(Override {
                    path: path(name.strip_prefix(PREFIX)?),
                    text: value.clone(),
                    origin: Origin::Environment(name.clone()),
                })
            })
            .collect();
        overrides.sort_by(|a, b| a.path.cmp(&b.path));
        overrides
    }
}

fn path(name: &str) -> Vec<PathPart> {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split("__").collect();
    if let [kafka, properties, names @ ..] = parts.as_slice()
        && [*kafka, *properties] == PROPERTIES
        && !names.is_empty()
    {
        return property(&names.join(".").replace('_', "."));
    }
    parts.into_iter().map(PathPart::parse).collect()
}

fn property(name: &str) -> Vec<PathPart> {
    PROPERTIES.into_iter().chain([name]).map(|part| PathPart::Member(part.to_owned())).collect()
}

/// Reads the argument of `--set`.
pub(super) fn flag(argument: &str) -> Result<Override, ConfigError> {
    let Some((key, value)) = argument.split_once('=') else {
        // Not quoted, because the argument may be a value whose key was forgotten.
        return Err(ConfigError::new(ConfigCode::Override, "--set takes key=value")
            .hint("for example --set limits.window_events=1000"));
    };
    let key = key.trim();
    let properties = PROPERTIES.join(".");
    let name = key.strip_prefix(&properties).and_then(|rest| rest.strip_prefix('.'));
    let path = match name {
        Some(name) => property(name.trim_matches('"')),
        None => key.split('.').map(PathPart::parse).collect(),
    };
    if key.is_empty() {
        return Err(ConfigError::new(ConfigCode::Override, "the key before the = is empty")
            .at(Place::Flag(String::new())));
    }
    Ok(Override { path, text: value.to_owned(), origin: Origin::Flag(key.to_owned()) })
}
