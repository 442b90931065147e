//! What a migration says: the TOML, and the three lists.

use super::{names::Outcome, properties::Property};

/// One property, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyFinding {
    /// The property as the file has it; what is missing, where the file does not have it.
    pub property: String,
    /// Its line; `None` where the file does not have it.
    pub line: Option<usize>,
    /// What becomes of it.
    pub text: String,
    /// What to type or to decide.
    pub hint: Option<String>,
}

impl PropertyFinding {
    /// About a property of the file.
    pub(super) fn of(property: &Property, text: impl Into<String>) -> Self {
        let (written, line) = (property.written.clone(), Some(property.line));
        Self { property: written, line, text: text.into(), hint: None }
    }

    /// About what the file does not have.
    pub(super) fn absent(property: &str, text: impl Into<String>) -> Self {
        Self { property: property.to_owned(), line: None, text: text.into(), hint: None }
    }

    /// Adds the known name that an unknown one may stand for, if there is one.
    #[must_use]
    pub(super) fn meant(self, known: Option<&str>) -> Self {
        match known {
            Some(name) => self.hint(format!("{name} is what it may have meant")),
            None => self,
        }
    }

    /// Adds what to type or to decide.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The outcome of a translation.
#[derive(Debug, Clone)]
pub struct Migration {
    /// What was read, in words: the form and the connector's name.
    pub source: String,
    /// The connector's name, where the file has it.
    pub connector: Option<String>,
    /// The configuration; `None` where there is nothing to translate, such as a connector of
    /// another database. With findings in `unsupported` it is not the whole of the file.
    pub toml: Option<String>,
    /// What the TOML has, and what needs no key.
    pub carried: Vec<PropertyFinding>,
    /// What the router does in another way.
    pub different: Vec<PropertyFinding>,
    /// What it does not do.
    pub unsupported: Vec<PropertyFinding>,
}

impl Migration {
    /// Whether the TOML may be used without a decision of a person.
    pub fn is_complete(&self) -> bool {
        self.toml.is_some() && self.unsupported.is_empty()
    }
}

/// The three lists, while they are written.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) carried: Vec<PropertyFinding>,
    pub(super) different: Vec<PropertyFinding>,
    pub(super) unsupported: Vec<PropertyFinding>,
}

impl Report {
    /// The property became this key, or needs none.
    pub(super) fn carried(&mut self, property: &Property, becomes: impl Into<String>) {
        self.carried.push(PropertyFinding::of(property, becomes));
    }

    /// The router does it in another way.
    pub(super) fn different(&mut self, finding: PropertyFinding) {
        self.different.push(finding);
    }

    /// The router does not do it.
    pub(super) fn unsupported(&mut self, finding: PropertyFinding) {
        self.unsupported.push(finding);
    }

    /// What the table of names says of the property.
    pub(super) fn decided(&mut self, property: &Property, outcome: Outcome) {
        match outcome {
            Outcome::Same(because) => self.carried(property, because),
            Outcome::Different(how) => self.different(PropertyFinding::of(property, how)),
            Outcome::Unsupported(why) => self.unsupported(PropertyFinding::of(property, why)),
        }
    }
}
