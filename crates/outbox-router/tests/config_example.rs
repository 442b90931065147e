//! `config/outbox-router.example.toml` is documentation that cannot go stale: it has every key, and
//! what it calls a default is the default.

use std::io::Write as _;

use outbox_router::config::{
    self, Config, Environment, KEYS, Outbox, SourceKind, effective, of_one_source,
};
use relay::Role;

const EXAMPLE: &str = include_str!("../../../config/outbox-router.example.toml");

fn load(text: &str) -> Config {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    let environment = Environment::new([("KAFKA_PASSWORD".into(), "canary".into())]);
    let loaded = config::load(Some(file.path()), &environment, &[]);
    loaded.unwrap_or_else(|errors| panic!("{errors}")).config
}

/// The example with every line that is commented out as a key switched on. The password's file is
/// replaced: there is no file of that name here. So are the time's source and the kind of mark,
/// since a column for them is refused where it would not be read.
fn with_every_key() -> String {
    let switched_on = |line: &'static str| {
        let rest = line.strip_prefix("# ")?;
        let (key, _) = rest.split_once(" = ")?;
        (!key.contains([' ', '`', ':'])).then_some(rest)
    };
    let lines: Vec<&str> = EXAMPLE.lines().map(|l| switched_on(l).unwrap_or(l)).collect();
    let text = lines.join("\n").replace("${file:/run/secrets/postgres}", "canary");
    let text = text.replace("\nmark.how = \"auto\"\n", "\nmark.how = \"status\"\n");
    text.replace("\ntimestamp = \"commit\"\n", "\ntimestamp = \"column\"\n")
}

/// The same without the keys that have no meaning with this source.
fn with_every_key_of(source: SourceKind) -> String {
    let mut table = String::new();
    let mut kept = Vec::new();
    let text = with_every_key();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) {
            table = format!("{name}[].");
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{name}.");
        } else if let Some((key, _)) = line.split_once(" = ")
            && let Some(with) = of_one_source(&format!("{table}{key}"))
            && with.value.is_none()
            && with.source != source
        {
            continue;
        }
        kept.push(line);
    }
    kept.join("\n").replace("\nsource = \"stream\"", &format!("\nsource = \"{}\"", source.as_str()))
}

#[test]
fn the_example_file_as_it_is_holds_every_default() {
    let expected = Config {
        outbox: vec![Outbox::with_defaults(config::default_table())],
        ..Config::default()
    };
    assert_eq!(load(EXAMPLE), expected);
}

/// Whoever starts from it has to change that one line.
#[test]
fn the_example_file_as_it_is_takes_either_source() {
    let config = load(&EXAMPLE.replace("\nsource = \"stream\"", "\nsource = \"polling\""));
    assert_eq!(config.postgres.source, SourceKind::Polling);
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
    for source in [SourceKind::Stream, SourceKind::Polling] {
        let config = load(&with_every_key_of(source));
        assert_eq!(config.postgres.source, source);
        assert!(config.postgres.url.is_some());
        assert!(config.kafka.create_topics.is_some());
        assert_eq!(config.kafka.properties.iter().count(), 5);
        let Outbox { table, polled } = &config.outbox[0];
        assert!(Role::ALL.into_iter().all(|role| table.columns.get(role).is_some()));
        assert_eq!(polled.order_by.is_empty(), source == SourceKind::Stream);
        assert_eq!(polled.mark.abandoned.is_some(), source == SourceKind::Polling);
    }
}

/// What `check` prints may be taken as a file.
#[test]
fn every_key_of_a_source_is_printed_as_it_is_read() {
    for source in [SourceKind::Stream, SourceKind::Polling] {
        let config = load(&with_every_key_of(source));
        let printed = effective(&config).replace("***", "canary");
        let again = load(&printed);
        assert_eq!(
            (again.outbox, again.polling, again.retry),
            (config.outbox, config.polling, config.retry)
        );
        let table: toml::Table = printed.parse().expect("TOML");
        assert_eq!(table.contains_key("retry"), source == SourceKind::Polling);
    }
}
