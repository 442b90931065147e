//! The configuration: the one that `run` would use, or else the translation of the connector's.

use std::path::Path;

use clap::ValueEnum;

use super::{differences::differences, step::Step};
use crate::{
    cli::migrate::{MigrateArgs, Unsupported},
    config::{self, Config, ConfigErrors, Environment, Loaded},
    migrate::Migration,
    prepare::Prepared,
};

const NAME: &str = "configuration";

/// The file that a translation is written to where none is named.
const DEFAULT_FILE: &str = "outbox-router.toml";

/// The configuration, and what is to be said of it.
pub(super) struct Settings {
    /// `None` where it cannot be used.
    pub(super) config: Option<Config>,
    pub(super) step: Step,
    /// The file, as it is typed behind `--config`.
    pub(super) file: String,
}

/// Takes the configuration from `file`, or else from the translation.
pub(super) fn settings(
    args: &MigrateArgs,
    migration: &Migration,
    file: Option<&Path>,
    environment: &Environment,
    flags: &[String],
) -> Settings {
    match file {
        Some(file) => of_file(migration, file, environment, flags),
        None => of_translation(args, migration, environment, flags),
    }
}

fn of_file(
    migration: &Migration,
    file: &Path,
    environment: &Environment,
    flags: &[String],
) -> Settings {
    let shown = file.display().to_string();
    let prepared = config::load(Some(file), environment, flags)
        .and_then(|loaded| Prepared::build(loaded, environment));
    let (config, step) = match prepared {
        Err(errors) => (None, wrong(&errors)),
        Ok(Prepared { config, .. }) => {
            let step = match others(migration, &config) {
                None => {
                    let text = format!("{shown}, with the connector's slot and publication");
                    let mut step = Step::ready(NAME, text);
                    step.details = meant(migration, &config, environment);
                    step
                }
                Some(difference) => Step::failed(NAME, format!("{shown}: {difference}"))
                    .detail("give the file of this connector's router with --config FILE"),
            };
            (Some(config), step)
        }
    };
    Settings { config, step, file: shown }
}

/// What differs from a fresh translation. This is listed and is no failure, since a person may have
/// meant it: `compare` shows whether the records are the same.
fn meant(migration: &Migration, config: &Config, environment: &Environment) -> Vec<String> {
    let Some(toml) = &migration.toml else { return Vec::new() };
    match config::load_text(Path::new(DEFAULT_FILE), toml.clone(), environment, &[]) {
        Ok(translated) => differences(config, &translated.config),
        Err(_) => vec![
            "[[outbox]] was not compared with the connector: its translation cannot be loaded here"
                .to_owned(),
        ],
    }
}

/// Where the file names another slot or publication than the connector.
fn others(migration: &Migration, config: &Config) -> Option<String> {
    let translated: toml::Table = toml::from_str(migration.toml.as_deref()?).ok()?;
    let postgres = translated.get("postgres")?;
    let ours = [
        ("slot", config.postgres.slot.as_str()),
        ("publication", config.postgres.publication.as_str()),
    ];
    ours.into_iter().find_map(|(key, ours)| {
        let theirs = postgres.get(key)?.as_str()?;
        // A value with a placeholder is not compared.
        let differs = theirs != ours && !theirs.contains("${");
        differs.then(|| format!("postgres.{key} is {ours}, and the connector has {theirs}"))
    })
}

fn of_translation(
    args: &MigrateArgs,
    migration: &Migration,
    environment: &Environment,
    flags: &[String],
) -> Settings {
    let missing = migration.unsupported.iter().map(|finding| finding.property.as_str());
    let missing: Vec<&str> = missing.collect();
    let write = format!("outbox-router migrate debezium {} --out {DEFAULT_FILE}", given(args));
    let file = DEFAULT_FILE.to_owned();
    let Some(toml) = &migration.toml else {
        let step = Step::failed(NAME, "the connector cannot be translated");
        return Settings { config: None, step: step.command(write), file };
    };
    let loaded = config::load_text(Path::new(DEFAULT_FILE), toml.clone(), environment, flags);
    let prepared = loaded.and_then(|loaded: Loaded| Prepared::build(loaded, environment));
    let (config, step) = match prepared {
        Err(errors) => (None, wrong(&errors)),
        Ok(Prepared { config, .. })
            if missing.is_empty() || args.unsupported == Unsupported::Accept =>
        {
            (Some(config), Step::to_do(NAME, "it is translated, and not written yet"))
        }
        Ok(Prepared { config, .. }) => {
            let what = format!("not supported: {}", missing.join(", "));
            (Some(config), Step::failed(NAME, what))
        }
    };
    Settings { config, step: step.command(write), file }
}

/// The arguments that a translation needs again.
fn given(args: &MigrateArgs) -> String {
    let mut given = vec![args.file.display().to_string()];
    if let Some(servers) = &args.bootstrap_servers {
        given.push(format!("--bootstrap-servers {servers}"));
    }
    given.extend(args.tables.iter().map(|table| format!("--table {table}")));
    let converters = [("key", args.key_converter), ("value", args.value_converter)];
    for (part, converter) in converters {
        if let Some(name) = converter.as_ref().and_then(ValueEnum::to_possible_value) {
            given.push(format!("--{part}-converter {}", name.get_name()));
        }
    }
    if args.unsupported == Unsupported::Accept {
        given.push("--accept".to_owned());
    }
    given.join(" ")
}

fn wrong(errors: &ConfigErrors) -> Step {
    let text = errors.to_string();
    let lines = text.lines().map(str::to_owned);
    let mut step = Step::failed(NAME, "it cannot be used");
    step.details = lines.collect();
    step
}
