//! Where the configuration in use and a fresh translation of the connector differ in an outbox.

use std::collections::BTreeMap;

use crate::config::{self, Config};

/// Key and value, as TOML.
type Keys = BTreeMap<String, String>;

/// One line for each key of an `[[outbox]]` that differs.
pub(super) fn differences(ours: &Config, translated: &Config) -> Vec<String> {
    let ours = outboxes(ours);
    let mut lines = Vec::new();
    for (table, theirs) in outboxes(translated) {
        match ours.get(&table) {
            Some(ours) => lines.extend(of_table(&table, ours, &theirs)),
            None => lines.push(format!(
                "it has no [[outbox]] with table = {table}, which the connector reads"
            )),
        }
    }
    lines
}

fn of_table(table: &str, ours: &Keys, theirs: &Keys) -> Vec<String> {
    let mut keys: Vec<&String> = ours.keys().chain(theirs.keys()).collect();
    keys.sort();
    keys.dedup();
    let shown = |value: Option<&String>| value.map_or_else(|| "not set".to_owned(), String::clone);
    keys.into_iter()
        .filter(|key| ours.get(*key) != theirs.get(*key))
        .map(|key| {
            let (ours, theirs) = (shown(ours.get(key)), shown(theirs.get(key)));
            format!("{table}: {key} is {ours}; the connector translates to {theirs}")
        })
        .collect()
}

/// The keys of every outbox by its table, with all defaults.
fn outboxes(config: &Config) -> BTreeMap<String, Keys> {
    let effective: toml::Table = config::effective(config).parse().unwrap_or_default();
    let outboxes = effective.get("outbox").and_then(toml::Value::as_array);
    let tables = outboxes.into_iter().flatten().filter_map(toml::Value::as_table);
    tables
        .map(|outbox| {
            let mut keys = Keys::new();
            flatten("", outbox, &mut keys);
            (keys.remove("table").unwrap_or_default(), keys)
        })
        .collect()
}

fn flatten(prefix: &str, table: &toml::Table, keys: &mut Keys) {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value.as_table() {
            Some(table) => flatten(&format!("{key}."), table, keys),
            None => {
                keys.insert(key, value.to_string());
            }
        }
    }
}
