//! Reads the configuration from a TOML file, the environment and flags. The result is a [`Config`]
//! in which every value is typed, checked and present, or a list of all problems, each with its
//! place and a hint.
//!
//! Precedence: flag, environment, file, default; no file is needed. A key that does not exist is
//! refused, a duration or size needs its unit, and nothing that may be secret is ever printed: not
//! by `Debug`, not in a message, not in the excerpt of the file. The process's environment is an
//! argument, so that tests do not depend on it.

mod entry;
mod environment;
mod error;
mod keys;
mod kinds;
mod meaning;
mod names;
mod outbox;
mod parse;
mod placeholder;
mod places;
mod polled;
mod polling;
pub(crate) mod print;
mod quantity;
mod read;
mod recover;
mod retention;
mod secret;
mod source;
mod suggest;
mod table;
mod tree;
mod validate;
mod values;

use std::path::Path;

pub use entry::{Content, KeyEntry, KeyType, Secrecy};
pub use environment::{Environment, PREFIX, variable};
pub use error::{ConfigCode, ConfigError, ConfigErrors, Place};
pub use keys::{
    AdminSection, BytesBehind, Config, CreateTopics, KEYS, KafkaSection, LimitsSection, LogSection,
    MonitorSection, PostgresSection, default_table,
};
pub use meaning::{OF_ONE_SOURCE, OfOneSource, OneValue, of_one_source};
pub use names::{PublicationName, SlotName, table_name};
pub use places::Places;
pub use polled::{Outbox, PolledTable};
pub use polling::{PollingSection, SourceKind};
pub use quantity::{parse_duration, print_duration, print_size};
pub use recover::RecoverSection;
pub use retention::{RetentionMode, RetentionSection};
pub use secret::{HIDDEN, Secret, is_secret_property, without_password};
pub use source::Excerpt;
pub use values::{LogFormat, Properties};

use print::Lines;
use read::{Problems, Section};
use source::SourceFile;
use table::DeclaredTable;

/// A configuration, and where each of its values was set.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// For messages about a value that is found to be wrong later.
    pub places: Places,
}

/// Reads the file, if there is one, and applies environment and flags (`key=value`) to it.
///
/// # Errors
/// All problems at once. If the file cannot be read or parsed, that problem alone.
pub fn load(
    file: Option<&Path>,
    environment: &Environment,
    flags: &[String],
) -> Result<Loaded, ConfigErrors> {
    load_source(file.map(read_file).transpose()?, environment, flags)
}

/// Does the same with a text that is in no file; `name` stands for the file in messages.
///
/// # Errors
/// As [`load`].
pub fn load_text(
    name: &Path,
    text: String,
    environment: &Environment,
    flags: &[String],
) -> Result<Loaded, ConfigErrors> {
    let source = SourceFile { path: name.to_owned(), text, known: &KEYS };
    load_source(Some(source), environment, flags)
}

fn load_source(
    source: Option<SourceFile>,
    environment: &Environment,
    flags: &[String],
) -> Result<Loaded, ConfigErrors> {
    let mut tree = match &source {
        Some(source) => tree::parse(source)?,
        None => tree::Table::new(),
    };
    let mut problems = Problems::new(source.as_ref(), &KEYS);
    let flags = flags.iter().map(|flag| environment::flag(flag));
    for change in environment.overrides().into_iter().map(Ok).chain(flags) {
        if let Err(error) = change.and_then(|change| tree::apply(&mut tree, change)) {
            problems.push(error);
        }
    }
    placeholder::resolve(&mut tree, environment, &mut problems);
    let places = Places::of(&tree, source.as_ref());
    let config = Config::read(Section::root(tree), &mut problems);
    validate::validate(&config, &places, &mut problems);
    problems.into_result(Loaded { config, places })
}

/// The effective configuration as TOML, without its secrets and without keys that have no meaning
/// with its source of rows: what `check` shows. It reads back as the same configuration, except for
/// what is hidden.
pub fn effective(config: &Config) -> String {
    let mut lines = Lines::default();
    config.write("", &mut lines);
    lines.show(|key, value| meaning::shown(config.postgres.source, key, value));
    lines.finish()
}

/// A list of brokers that a flag gives, judged as `kafka.bootstrap_servers` is.
///
/// # Errors
/// What is wrong, and how it is written.
pub fn typed_servers(text: &str) -> Result<String, String> {
    parse::servers(text).map_err(|rejection| match rejection.hint {
        Some(hint) => format!("it {}; {hint}", rejection.message),
        None => format!("it {}", rejection.message),
    })
}

fn read_file(path: &Path) -> Result<SourceFile, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot read {}: {error}", path.display());
        ConfigError::new(ConfigCode::FileUnreadable, message)
            .hint("--config FILE or OUTBOX_ROUTER_CONFIG names the file; none is needed at all")
    })?;
    Ok(SourceFile { path: path.to_owned(), text, known: &KEYS })
}
