//! `config/outbox-router.example.toml` is documentation that cannot go stale: it has every key, and
//! what it calls a default is the default.

use std::io::Write as _;

use outbox_router::config::{self, Config, Environment, KEYS};
use relay::{OutboxTable, Role};

const EXAMPLE: &str = include_str!("../../../config/outbox-router.example.toml");

fn load(text: &str) -> Config {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let environment = Environment::new([("KAFKA_PASSWORD".into(), "canary".into())]);
    let loaded = config::load(Some(file.path()), &environment, &[]);
    loaded.unwrap_or_else(|errors| panic!("{errors}")).config
}

/// The example with every line that is commented out as a key switched on. The password's file is
/// replaced: there is no file of that name here. So is the time's source, since a column for it is
/// refused where it would not be read.
fn with_every_key() -> String {
    let switched_on = |line: &'static str| {
        let rest = line.strip_prefix("# ")?;
        let (key, _) = rest.split_once(" = ")?;
        (!key.contains([' ', '`', ':'])).then_some(rest)
    };
    let lines: Vec<&str> = EXAMPLE.lines().map(|l| switched_on(l).unwrap_or(l)).collect();
    let text = lines.join("\n").replace("${file:/run/secrets/postgres}", "canary");
    text.replace("\ntimestamp = \"commit\"\n", "\ntimestamp = \"column\"\n")
}

#[test]
fn the_example_file_as_it_is_holds_every_default() {
    let expected = Config {
        outbox: vec![OutboxTable::with_defaults(config::default_table())],
        ..Config::default()
    };
    assert_eq!(load(EXAMPLE), expected);
}

#[test]
fn the_example_file_shows_every_key() {
    let tree: toml::Table = with_every_key().parse().unwrap();
    let has = |key: &str| {
        let mut here = vec![toml::Value::Table(tree.clone())];
        for part in key.split('.') {
            let name = part.trim_end_matches("[]");
            let within = |value: &toml::Value| match name {
                "*" => value.as_table()?.values().next().cloned(),
                name => value.get(name).cloned(),
            };
            here = here.iter().filter_map(within).collect();
            if part.ends_with("[]") {
                here = here.iter().filter_map(|v| v.as_array()).flatten().cloned().collect();
            }
        }
        !here.is_empty()
    };
    let keys = KEYS.iter().filter(|entry| entry.value().is_some());
    let missing: Vec<_> = keys.map(|key| key.name.as_str()).filter(|key| !has(key)).collect();
    assert!(missing.is_empty(), "not in the example: {missing:?}");
}

#[test]
fn the_example_file_with_every_key_enabled_is_accepted() {
    let config = load(&with_every_key());
    assert!(config.postgres.url.is_some());
    assert!(config.kafka.create_topics.is_some());
    assert_eq!(config.kafka.properties.iter().count(), 5);
    let columns = &config.outbox[0].columns;
    assert!(Role::ALL.into_iter().all(|role| columns.get(role).is_some()));
}
