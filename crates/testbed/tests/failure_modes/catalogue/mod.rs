//! The failure modes that must be shown: what each is, and what shows that it does no harm.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::sources::{self, Sources};

/// The modes that must be there, in this order. The letter says what it concerns: A positions and
/// acknowledgements, B contents of the stream, C slot and publication, D events of the server, K
/// producer, T exactly-once, H process and host.
const IDS: [&str; 44] = [
    "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A16", "B1", "B5", "B6", "B7",
    "C1", "C2", "C3", "D1", "D3", "D4", "D6", "D8", "K1", "K2", "K3", "K4", "K6", "K7", "K8", "K9",
    "K11", "K19", "T1", "T2", "T4", "T5", "T6", "T8", "T9", "T10", "T13", "H1", "H2",
];

/// `tests/failure-modes.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Catalogue {
    #[serde(rename = "mode")]
    pub(crate) modes: Vec<FailureMode>,
}

/// One way to fail.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailureMode {
    pub(crate) id: String,
    /// What may go wrong.
    pub(crate) trouble: String,
    /// What shows that it does not.
    #[serde(default)]
    pub(crate) shown_by: Vec<Reference>,
    /// What is not shown, and why.
    pub(crate) not_yet: Option<String>,
}

/// Something in the sources that shows a mode.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Reference {
    /// A test function.
    Test { layer: Layer, file: String, name: String },
    /// A variant of an enum, each of which a program of its own exercises.
    Variant { of: Variants, name: String },
    /// A bug made on purpose, and caught.
    Mutant { name: String },
}

/// Where a test lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Real servers, real binary.
    EndToEnd,
    /// In a crate.
    Unit,
}

/// Enums whose variants are exercised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variants {
    /// What the simulation does to its world.
    Fault,
    /// Where the process is stopped on real servers.
    Failpoint,
}

impl Variants {
    /// Prefix, enum and file.
    const fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Fault => ("simulation", "Fault", "crates/simulation/src/fault.rs"),
            Self::Failpoint => ("crash-test", "Failpoint", "crates/relay/src/failpoint.rs"),
        }
    }
}

impl FromStr for Catalogue {
    type Err = toml::de::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        toml::from_str(text)
    }
}

impl Catalogue {
    /// The defects of the catalogue itself, without the sources.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let ids: Vec<&str> = self.modes.iter().map(|mode| mode.id.as_str()).collect();
        let count = |id: &str| ids.iter().filter(|found| **found == id).count();
        let mut complaints: Vec<String> = Vec::new();
        complaints.extend(
            IDS.iter()
                .filter(|id| count(id) != 1)
                .map(|id| format!("{id}: listed {} times", count(id))),
        );
        complaints.extend(
            ids.iter()
                .filter(|id| !IDS.contains(id))
                .map(|id| format!("{id}: no such failure mode")),
        );
        if complaints.is_empty() && ids != IDS {
            complaints.push("the failure modes are out of order".to_owned());
        }
        let unexplained = |mode: &&FailureMode| mode.shown_by.is_empty() && mode.not_yet.is_none();
        complaints.extend(
            self.modes
                .iter()
                .filter(unexplained)
                .map(|mode| format!("{}: has neither a test nor an explanation", mode.id)),
        );
        complaints
    }

    /// The table in Markdown.
    pub(crate) fn table(&self) -> String {
        let shown = self.modes.iter().filter(|mode| mode.not_yet.is_none()).count();
        let partly =
            self.modes.iter().filter(|mode| mode.not_yet.is_some() && !mode.shown_by.is_empty());
        let (all, partly) = (self.modes.len(), partly.count());
        let mut table = format!(
            "{all} failure modes · {shown} shown · {partly} shown in part · {} not yet\n\n\
             | id | what may go wrong | shown by | not shown, and why |\n|---|---|---|---|\n",
            all - shown - partly
        );
        for mode in &self.modes {
            let shown: Vec<String> = mode.shown_by.iter().map(Reference::link).collect();
            let FailureMode { id, trouble, .. } = mode;
            let not_yet = mode.not_yet.as_deref().unwrap_or_default();
            table.push_str(&format!("| {id} | {trouble} | {} | {not_yet} |\n", shown.join("<br>")));
        }
        table
    }
}

impl Reference {
    /// Why it leads nowhere; `None` when it does not.
    pub(crate) fn missing_from(&self, sources: &Sources) -> Option<String> {
        match self {
            Self::Test { file, name, .. } => match sources.read(file) {
                Ok(text) if sources::tests(&text).contains(name.as_str()) => None,
                Ok(_) => Some(format!("no such test in {file}")),
                Err(why) => Some(why),
            },
            Self::Variant { of, name } => {
                let (_, kind, file) = of.facts();
                match sources.read(file) {
                    Ok(text) if sources::variants(&text, kind).contains(name.as_str()) => None,
                    Ok(_) => Some(format!("no such variant of {kind} in {file}")),
                    Err(why) => Some(why),
                }
            }
            Self::Mutant { name } => sources.read(&patch(name)).err(),
        }
    }

    fn link(&self) -> String {
        match self {
            Self::Test { layer: Layer::EndToEnd, file, name } => {
                format!("end to end: [{}](../{file})", sentence(name))
            }
            Self::Test { layer: Layer::Unit, file, name } => {
                let owner = file.split('/').nth(1).unwrap_or_default();
                format!("`{owner}`: [{}](../{file})", sentence(name))
            }
            Self::Variant { of, name } => {
                let (prefix, _, file) = of.facts();
                format!("{prefix}: [`{name}`](../{file})")
            }
            Self::Mutant { name } => format!("mutant: [`{name}`](../{})", patch(name)),
        }
    }
}

/// Where a planted bug is.
fn patch(name: &str) -> String {
    format!("crates/simulation/mutants/{name}.patch")
}

/// Names of tests are sentences.
fn sentence(name: &str) -> String {
    name.replace('_', " ")
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test { file, name, .. } => write!(f, "{file}::{name}"),
            Self::Variant { of, name } => write!(f, "{}:{name}", of.facts().0),
            Self::Mutant { name } => write!(f, "mutant:{name}"),
        }
    }
}

impl TryFrom<String> for Reference {
    type Error = String;

    /// `e2e:FILE::TEST` with the file as seen from tests/e2e, `unit:CRATE::FILE::TEST` with the
    /// file as seen from the crate's directory, `simulation:FAULT`, `crash-test:FAILPOINT`,
    /// `mutant:NAME`.
    fn try_from(text: String) -> Result<Self, String> {
        let malformed = || format!("\"{text}\" is not a reference");
        let (kind, rest) = text.split_once(':').ok_or_else(malformed)?;
        let variant = |of| Ok(Self::Variant { of, name: rest.to_owned() });
        match kind {
            "e2e" => {
                let (file, name) = rest.rsplit_once("::").ok_or_else(malformed)?;
                let file = format!("tests/e2e/{file}");
                Ok(Self::Test { layer: Layer::EndToEnd, file, name: name.to_owned() })
            }
            "unit" => {
                let (owner, rest) = rest.split_once("::").ok_or_else(malformed)?;
                let (file, name) = rest.rsplit_once("::").ok_or_else(malformed)?;
                let file = format!("crates/{owner}/{file}");
                Ok(Self::Test { layer: Layer::Unit, file, name: name.to_owned() })
            }
            "simulation" => variant(Variants::Fault),
            "crash-test" => variant(Variants::Failpoint),
            "mutant" => Ok(Self::Mutant { name: rest.to_owned() }),
            _ => Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests;
