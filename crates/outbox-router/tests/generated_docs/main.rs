//! `docs/configuration.md` and `config/outbox-router.example.toml` are made of the table of keys,
//! `docs/errors.md` of the tables of codes, `docs/doctor.md` of the checks, `docs/tables.md` of the
//! presets, the heads of the pages in `docs/runbook` of the tables of alerts and codes, and these
//! tests fail when one of them is not current.
//!
//! `UPDATE_DOCS=1 cargo test -p outbox-router --test generated_docs` writes them again.

mod doctor;
mod errors;
mod example;
mod keys;
mod runbook;
mod tables;
mod wrap;

use std::path::{Path, PathBuf};

use outbox_router::config::{
    self, Config, Environment, KEYS, OF_ONE_SOURCE, Outbox, PREFIX, SourceKind, of_one_source,
};
use wrap::wrapped;

const REWRITE: &str = "UPDATE_DOCS=1 cargo test -p outbox-router --test generated_docs";

fn assert_current(name: &str, wanted: &str) {
    let file: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, wanted).unwrap_or_else(|error| panic!("{name}: {error}"));
    } else {
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == wanted, "{name} is not what the tables say: {REWRITE}");
    }
}

#[test]
fn the_page_of_keys_is_current() {
    assert_current("docs/configuration.md", &wrapped(&keys::page(&KEYS)));
}

#[test]
fn the_page_of_errors_is_current() {
    assert_current("docs/errors.md", &wrapped(&errors::page()));
}

#[test]
fn the_page_of_doctor_is_current() {
    assert_current("docs/doctor.md", &wrapped(&doctor::page()));
}

#[test]
fn the_page_of_tables_is_current() {
    assert_current("docs/tables.md", &wrapped(&tables::page()));
}

#[test]
fn the_example_file_is_current() {
    assert_current("config/outbox-router.example.toml", &example::file(&KEYS));
}

#[test]
fn every_key_documents_its_meaning_and_its_values() {
    for entry in KEYS.iter() {
        let name = &entry.name;
        assert!(!entry.help.is_empty(), "{name} has no help");
        if let Some(value) = entry.value() {
            assert!(!value.takes.is_empty(), "{name}");
            assert!(value.default.is_some() || !value.examples.is_empty(), "{name}");
        }
    }
    let mut names: Vec<&str> = KEYS.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "a key is declared twice");
}

/// A variable brings a text; TOML's quotes are of the file alone.
fn as_text(toml: &str) -> &str {
    toml.trim_matches('"')
}

#[test]
fn every_default_by_its_variable_is_the_default() {
    for entry in KEYS.iter() {
        let Some(default) = entry.value().and_then(|value| value.default.as_deref()) else {
            continue;
        };
        let mut variable = config::variable(&entry.name);
        assert!(variable.starts_with(PREFIX), "{variable}");
        // The members of a list have numbers.
        let member = default.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
        if member.is_some() {
            variable.push_str("__0");
        }
        let text = as_text(member.unwrap_or(default));
        let environment = Environment::new([(variable.clone().into(), text.into())]);
        let mut expected = Config::default();
        let mut flags = Vec::new();
        if of_one_source(&entry.name).is_some_and(|with| with.source == SourceKind::Polling) {
            expected.postgres.source = SourceKind::Polling;
            flags = vec!["postgres.source=polling".to_owned(), "outbox.0.table=outbox".to_owned()];
        }
        let loaded = config::load(None, &environment, &flags);
        let config = loaded.unwrap_or_else(|errors| panic!("{variable}: {errors}")).config;
        if entry.name.starts_with("outbox[]") || !flags.is_empty() {
            expected.outbox.push(Outbox::with_defaults(config::default_table()));
        }
        assert_eq!(config, expected, "{variable}");
    }
}

#[test]
fn the_page_of_polling_has_every_key_of_one_source() {
    let page = include_str!("../../../../docs/polling.md");
    let (refused, _) = page.split_once("All other keys are taken").expect("its tables");
    for entry in KEYS.iter() {
        if of_one_source(&entry.name).is_some() {
            let name = entry.name.replace("[]", "");
            let is_named = [format!("`{name}`"), format!("`{name} = ")];
            assert!(is_named.iter().any(|text| refused.contains(text)), "it lacks {name}");
        }
    }
    for with in OF_ONE_SOURCE.iter().filter(|with| with.source == SourceKind::Stream) {
        assert!(refused.contains(&format!("| {} |", with.why)), "it lacks {}", with.why);
    }
}

#[test]
fn a_value_that_no_key_takes_is_refused_by_every_variable() {
    for entry in KEYS.iter().filter(|entry| entry.value().is_some_and(|v| v.default.is_some())) {
        // No control character is in a name, an address, a topic, a number or a word to choose.
        let environment =
            Environment::new([(config::variable(&entry.name).into(), "\u{1} /=".into())]);
        // PostgreSQL takes any name of a publication or a column, if it is quoted.
        let takes_all = ["postgres.publication", "retention.time_column", "recover.order_by"]
            .contains(&entry.name.as_str());
        let loaded = config::load(None, &environment, &[]);
        assert_eq!(loaded.is_ok(), takes_all, "{}", entry.name);
    }
}
