//! Whether `check` takes what comes out. A configuration with a key that this version does not know
//! yet is only parsed: `config::KEYS` decides, so that each is checked as soon as its keys exist.

use std::{collections::BTreeSet, ffi::OsString, fs};

use outbox_router::{
    config::{self, Environment, KEYS},
    prepare,
};
use toml::{Table, Value};

/// Checks a configuration whose keys are all known; returns 1 if it was checked, else 0.
pub(crate) fn passes_check(name: &str, toml: &str) -> usize {
    let parsed: Table = toml.parse().unwrap_or_else(|error| panic!("{name}: {error}\n{toml}"));
    let known: BTreeSet<&str> = KEYS.iter().map(|entry| entry.name.as_str()).collect();
    let mut keys = BTreeSet::new();
    collect("", &parsed, &mut keys);
    if !keys.iter().all(|key| known.contains(key.as_str())) {
        return 0;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("outbox-router.toml");
    fs::write(&file, toml).expect("a file");
    let environment = environment(toml);
    let loaded = config::load(Some(&file), &environment, &[])
        .unwrap_or_else(|errors| panic!("{name}: {errors}\n{toml}"));
    prepare::check(&loaded, &environment)
        .unwrap_or_else(|errors| panic!("{name}: {errors}\n{toml}"));
    1
}

/// The names of all keys, as `config::KEYS` spells them.
fn collect(prefix: &str, table: &Table, keys: &mut BTreeSet<String>) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match value {
            Value::Table(_) if key == "kafka.properties" => {
                keys.insert("kafka.properties.*".to_owned());
            }
            Value::Table(inner) => collect(&format!("{key}."), inner, keys),
            Value::Array(items) if key == "outbox" => {
                items.iter().filter_map(Value::as_table).for_each(|inner| {
                    collect("outbox[].", inner, keys);
                });
            }
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_) => {
                keys.insert(key);
            }
        }
    }
}

/// Every variable that the file refers to, and those of libpq that it leaves to the environment.
fn environment(toml: &str) -> Environment {
    let referred = toml.split("${env:").skip(1).filter_map(|rest| rest.split_once('}'));
    let value = |name: &str| if name.contains("PORT") { "5432" } else { "some" };
    let referred = referred.map(|(name, _)| (name, value(name)));
    let libpq = [("PGHOST", "db.example"), ("PGUSER", "router"), ("PGDATABASE", "shop")];
    let all = referred.chain(libpq);
    Environment::new(all.map(|(name, value)| (OsString::from(name), OsString::from(value))))
}
